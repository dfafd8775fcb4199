"""What a profile says: a function's kernels, how often each ran, and for how long."""

from dataclasses import dataclass
from typing import Any

__all__ = ["Dispatch", "Profile"]


@dataclass(frozen=True, kw_only=True)
class Dispatch:
    """One kernel: how often it ran in all, and for how long, in seconds.

    Attributes:
        name: in the module; `copy`, `fill` or `update` for what moves bytes between kernels.
        where: `file:line` in the model's source, if the module knows.
    """

    name: str
    count: int
    total: float
    mean: float
    minimum: float
    maximum: float
    where: str | None = None


@dataclass(frozen=True, kw_only=True)
class Profile:
    """A function's dispatches, the longest in total first.

    Attributes:
        function: what was called.
        device: the URI.
        calls: how often.
        dispatches: a kernel each; none for a function that runs no kernels.
        elapsed: seconds of all calls, where kernels ran one after the other; None where they did
            not, or their runtime does not say.
        idle: seconds of a GPU between what it ran in the same commands, time stamps and barriers
            among them; none on a CPU.
    """

    function: str
    device: str
    calls: int
    dispatches: tuple[Dispatch, ...]
    elapsed: float | None = None
    idle: float = 0.0

    @property
    def total(self) -> float:
        """Seconds in all dispatches of all calls."""
        return sum(dispatch.total for dispatch in self.dispatches)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types; times in seconds."""
        return {
            "function": self.function,
            "device": self.device,
            "calls": self.calls,
            "total": self.total,
            "elapsed": self.elapsed,
            "idle": self.idle,
            "dispatches": [
                {
                    "name": d.name,
                    "where": d.where,
                    "count": d.count,
                    "total": d.total,
                    "mean": d.mean,
                    "minimum": d.minimum,
                    "maximum": d.maximum,
                }
                for d in self.dispatches
            ],
        }
