"""What the kernels of a CPU program take to what tuning can try of them, as numbers and as text."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from edgec.toolchain.kernels.cpu.source import Cut, KernelKey, VectorUnit
from edgec.toolchain.tuning.cuts import cuts_for

__all__ = ["FASTER", "KernelTimes", "Outlook", "outlook", "reached", "worth"]

FASTER = 0.97
"""A cut is faster than another below this share of its time."""

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
        rate: multiplications and additions a second of the product that stands for what the
            machine can do; 0 where it was not timed.
    """

    own: Mapping[str, float]
    call: float
    rate: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """What there is to try.

    Attributes:
        times: where the time goes.
        alone: what kernels take in a program of their own, each once; without times where they
            cannot have one.
        cuts: other cuts of each kernel that is worth it, the longest kernel first.
        fast: kernels that are within a hair of what the machine computes, and are left alone.
    """

    times: KernelTimes
    alone: KernelTimes
    cuts: Mapping[str, tuple[Cut, ...]]
    fast: tuple[str, ...] = ()

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

    @property
    def most(self) -> float:
        """How many times as fast a call is at most by cuts: where kernels do all that they can."""
        won = sum(self.times.own[key] * (1 - reached(key, self.alone)) for key in self.cuts)
        return 1 / max(1 - won / max(self.times.call, 1e-12), 1e-12)

    @property
    def rest(self) -> float:
        """The part of a call outside of kernels with cuts: what all else can win, at most."""
        return max(0.0, 1 - sum(self.times.own.values()) / max(self.times.call, 1e-12))

    @property
    def is_hopeless(self) -> bool:
        """Whether nothing that tuning tries can be clearly faster."""
        return self.most < 1 / FASTER and self.rest < 1 - FASTER

    def text(self) -> str:
        """`6 kernels take 91% of a call (edgec_product_… 40%, …): 74 other cuts in 13 rounds`."""
        return "; ".join(filter(None, (self._cuts_text(), self._most_text())))

    def _cuts_text(self) -> str:
        if not self.cuts:
            if not self.fast:
                return "no kernel of edgec's own takes enough of a call to be cut otherwise"
            does = "computes" if len(self.fast) == 1 else "compute"
            return (
                f"{_kernels(self.fast)} {does} as fast as a product of edgec's own does here from "
                f"the second cache ({self.alone.rate / 1e9:.0f} GFLOP/s)"
            )
        named = ", ".join(
            f"{key} {self.times.own[key] / self.times.call:.0%}" for key in list(self.cuts)[:_NAMED]
        )
        dots = ", …" if len(self.cuts) > _NAMED else ""
        tried = sum(map(len, self.cuts.values()))
        return (
            f"{_kernels(self.cuts)} take{'s' * (len(self.cuts) == 1)} {self.share:.0%} of a call "
            f"({named}{dots}): {tried} other cuts in {self.rounds} rounds, each a compile"
        )

    def _most_text(self) -> str:
        others = f"all else takes {self.rest:.0%} of a call"
        known = [key for key in self.cuts if reached(key, self.alone)]
        if not known:
            return others
        shares = sorted(reached(key, self.alone) for key in known)
        return (
            f"they do {shares[0]:.0%} to {shares[-1]:.0%} of what a product does here ("
            f"{self.alone.rate / 1e9:.0f} GFLOP/s), so other cuts make a call at most "
            f"{self.most:.2f} times as fast; {others}"
        )


def reached(key: str, alone: KernelTimes) -> float:
    """The share of what the machine can compute that a kernel does, at most 1; 0 if not known.

    Args:
        key: its sizes, as `KernelKey` spells them.
        alone: what it takes alone, and the machine's rate.
    """
    parsed, seconds = KernelKey.parse(key), alone.own.get(key, 0.0)
    if parsed is None or seconds <= 0 or alone.rate <= 0:
        return 0.0
    return min(1.0, parsed.least_flops / alone.rate / seconds)


def worth(times: KernelTimes) -> tuple[str, ...]:
    """The kernels that take enough of a call to be looked at, the longest first."""
    total = sum(times.own.values())
    found = [key for key, seconds in times.own.items() if seconds > _LEAST_SHARE * total]
    return tuple(sorted(found, key=lambda key: -times.own[key])[:_MOST_KERNELS])


def outlook(times: KernelTimes, unit: VectorUnit, alone: KernelTimes) -> Outlook:
    """What is worth trying of the kernels that were timed."""
    found = {key: _cuts(key, unit) for key in worth(times)}
    fast = tuple(key for key in found if reached(key, alone) > FASTER)
    return Outlook(
        times=times,
        alone=alone,
        cuts={key: cuts for key, cuts in found.items() if cuts and key not in fast},
        fast=fast,
    )


def _kernels(keys: Collection[str]) -> str:
    return f"{len(keys)} kernel{'s' * (len(keys) != 1)}"


def _cuts(key: str, unit: VectorUnit) -> tuple[Cut, ...]:
    parsed = KernelKey.parse(key)
    return () if parsed is None else tuple(cuts_for(parsed, unit))
