"""How weights are kept: `int8`, `int4-g32` and their like, as text and as a value."""

import re
from dataclasses import dataclass

from edgec.runtime.errors import UsageError

__all__ = ["AUTO", "GROUPS", "LOSSLESS", "Scheme"]

LOSSLESS = "lossless"
"""In place of a scheme: weights that came in blocks go back into them, exactly."""

AUTO = "auto"
"""In place of a scheme: of each line as few bits as the error that is allowed lets it have."""

GROUPS = (32, 64, 128)
"""Sizes of groups that kernels read."""

_TEXT = re.compile(r"int(8|4)(?:-g(\d+))?")


@dataclass(frozen=True, kw_only=True)
class Scheme:
    """Integers of some bits that share a scale in groups.

    Attributes:
        bits: 8 or 4.
        group: neighbours along what is summed that share one; None for all of an output's.
    """

    bits: int
    group: int | None = None

    def __post_init__(self) -> None:
        if self.bits not in (4, 8) or self.group not in (None, *GROUPS):
            raise UsageError(f"weights are not kept as {self}", hint=_hint())

    def __str__(self) -> str:
        """`int4-g32`."""
        return f"int{self.bits}{'' if self.group is None else f'-g{self.group}'}"

    @classmethod
    def parse(cls, text: str) -> "Scheme":
        """The scheme of that name.

        Raises:
            UsageError: there is none.
        """
        found = _TEXT.fullmatch(text)
        group = None if found is None or found[2] is None else int(found[2])
        if found is None or group not in (None, *GROUPS):
            raise UsageError(f"there is no way {text} to keep weights", hint=_hint())
        return cls(bits=int(found[1]), group=group)

    def fits(self, inner: int) -> bool:
        """Whether an output of so many weights is made of whole groups and bytes."""
        return inner % (self.group or 1) == 0 and inner * self.bits % 8 == 0


def _hint() -> str:
    groups = ", ".join(f"int4-g{size}" for size in GROUPS)
    return f"one of int8, int4, {groups} (int8 takes groups, too), {AUTO} or {LOSSLESS}"
