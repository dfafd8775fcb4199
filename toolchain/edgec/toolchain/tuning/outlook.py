"""What the kernels of a CPU program take to what tuning can try of them, as numbers and as text."""

from collections.abc import Mapping
from dataclasses import dataclass

from edgec.toolchain.kernels.cpu.source import Cut, KernelKey, VectorUnit
from edgec.toolchain.tuning.cuts import cuts_for

__all__ = ["KernelTimes", "Outlook", "outlook"]

_LEAST_SHARE = 0.02
_MOST_KERNELS = 16
_MOSTLY = 0.5
_NAMED = 3


@dataclass(frozen=True, kw_only=True)
class KernelTimes:
    """Where a call's time goes.

    Attributes:
        own: seconds in kernels of edgec's own that can be cut otherwise, by `KernelKey`.
        call: seconds of the whole call, each kernel alone.
    """

    own: Mapping[str, float]
    call: float


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """What there is to try.

    Attributes:
        times: where the time goes.
        cuts: other cuts of each kernel that is worth it, the longest kernel first.
    """

    times: KernelTimes
    cuts: Mapping[str, tuple[Cut, ...]]

    @property
    def share(self) -> float:
        """The part of a call that other cuts can change."""
        return sum(self.times.own[key] for key in self.cuts) / max(self.times.call, 1e-12)

    @property
    def is_mostly_kernels(self) -> bool:
        """Whether cuts promise more than changes of the whole program."""
        return self.share > _MOSTLY

    @property
    def rounds(self) -> int:
        """How many compiles try all of them: each gives every kernel another cut."""
        return max((len(cuts) for cuts in self.cuts.values()), default=0)

    def text(self) -> str:
        """`6 kernels take 91 % of a call (edgec_product_… 40 %, …): 74 other cuts in 13 rounds`."""
        if not self.cuts:
            return "no kernel of edgec's own takes enough of a call to be cut otherwise"
        named = ", ".join(
            f"{key} {self.times.own[key] / self.times.call:.0%}" for key in list(self.cuts)[:_NAMED]
        )
        dots = ", …" if len(self.cuts) > _NAMED else ""
        count = len(self.cuts)
        tried = sum(map(len, self.cuts.values()))
        return (
            f"{count} kernel{'s take' if count > 1 else ' takes'} {self.share:.0%} of a call "
            f"({named}{dots}): {tried} other cuts in {self.rounds} rounds, each a compile"
        )


def outlook(times: KernelTimes, unit: VectorUnit) -> Outlook:
    """What is worth trying of the kernels that were timed."""
    total = sum(times.own.values())
    worth = sorted(
        (key for key, seconds in times.own.items() if seconds > _LEAST_SHARE * total),
        key=lambda key: -times.own[key],
    )
    found = {key: _cuts(key, unit) for key in worth[:_MOST_KERNELS]}
    return Outlook(times=times, cuts={key: cuts for key, cuts in found.items() if cuts})


def _cuts(key: str, unit: VectorUnit) -> tuple[Cut, ...]:
    parsed = KernelKey.parse(key)
    return () if parsed is None else tuple(cuts_for(parsed, unit))
