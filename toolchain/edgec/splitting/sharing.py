"""Measured seconds of runs of pieces to the ways that let most calls through, several at once.

A stage is a run of pieces on one device, or on several that share the calls. A stream is as fast as
its slowest stage; of a stage on several devices the rates add up.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgec.splitting.choosing import Run, Times

__all__ = ["Shared", "Way", "most_calls"]


@dataclass(frozen=True, kw_only=True)
class Shared:
    """Pieces `start` to `end` (exclusive) on so many devices of each kind."""

    start: int
    end: int
    counts: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class Way:
    """Stages from the first piece to the last, and the seconds a call that they come to."""

    stages: tuple[Shared, ...]
    seconds: float

    @property
    def devices(self) -> int:
        """How many there are on it."""
        return sum(sum(stage.counts.values()) for stage in self.stages)


def most_calls(
    times: Times, pieces: int, kinds: Mapping[str, int], *, ways: int
) -> tuple[Way, ...]:
    """The ways over several devices with the least seconds a call, the best first.

    Of equal ones those of fewer stages come first. The best one of each number of stages is among
    them: a time of pieces that are made alone says little of how caches and cores are shared.

    Args:
        times: seconds of every run that was measured, on a device of each kind.
        pieces: how many there are.
        kinds: how many devices there are of each kind; every device makes one stage, or none.
        ways: how many are wanted.
    """
    names = list(kinds)
    none = (0,) * len(names)
    found: list[dict[tuple[int, ...], list[Way]]] = [{none: [Way(stages=(), seconds=0.0)]}]
    for end in range(1, pieces + 1):
        here: dict[tuple[int, ...], list[Way]] = {}
        for start in range(end):
            for used, before in found[start].items():
                for counts in _choices([kinds[n] - u for n, u in zip(names, used, strict=True)]):
                    rate = _rate(times, start, end, dict(zip(names, counts, strict=True)))
                    if rate is None:
                        continue
                    stage = Shared(
                        start=start,
                        end=end,
                        counts={n: c for n, c in zip(names, counts, strict=True) if c},
                    )
                    key = tuple(u + c for u, c in zip(used, counts, strict=True))
                    here.setdefault(key, []).extend(
                        Way(stages=(*way.stages, stage), seconds=max(way.seconds, 1 / rate))
                        for way in before
                    )
        found.append({key: _best(each, ways) for key, each in here.items()})
    ended = [way for each in found[pieces].values() for way in each if way.devices > 1]
    return tuple(_best(ended, ways))


def _choices(left: Sequence[int]) -> list[tuple[int, ...]]:
    """How many of each kind a stage can have, one device at least."""
    return [c for c in itertools.product(*(range(most + 1) for most in left)) if any(c)]


def _rate(times: Times, start: int, end: int, counts: Mapping[str, int]) -> float | None:
    """Calls a second of a stage; None where one of its devices does not take it."""
    runs = {name: Run(start=start, end=end, device=name) for name, count in counts.items() if count}
    if not all(run in times for run in runs.values()):
        return None
    return sum(counts[name] / times[run] for name, run in runs.items())


def _best(ways: Sequence[Way], most: int) -> list[Way]:
    """The best, and behind them the best of each number of stages that is not among them."""
    ordered = sorted(ways, key=lambda way: (way.seconds, len(way.stages), way.devices))
    kept = ordered[:most]
    for way in ordered[most:]:
        if all(len(way.stages) != len(other.stages) for other in kept):
            kept.append(way)
    return kept
