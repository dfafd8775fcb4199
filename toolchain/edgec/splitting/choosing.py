"""Measured seconds of every run of pieces on every device to the fastest way through all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Run", "Times", "fastest"]


@dataclass(frozen=True, kw_only=True)
class Run:
    """Pieces `start` to `end` (exclusive) as one module on a device."""

    start: int
    end: int
    device: str


Times = Mapping[Run, float]
"""Seconds of a call, from arrays in the host's memory to arrays there."""


def fastest(times: Times, pieces: int, devices: Sequence[str]) -> tuple[Run, ...]:
    """The runs whose sum is least; where two are as fast, the one of fewer modules.

    A run that was not measured, because a device does not take it, is not chosen.

    Args:
        times: of the runs that were measured.
        pieces: how many there are.
        devices: in the order of preference.

    Raises:
        ValueError: no runs lead from the first piece to the last.
    """
    best: list[tuple[float, int, tuple[Run, ...]] | None] = [(0.0, 0, ())]
    for end in range(1, pieces + 1):
        found: list[tuple[float, int, tuple[Run, ...]]] = []
        for start in range(end):
            before = best[start]
            for device in devices:
                run = Run(start=start, end=end, device=device)
                if before is None or run not in times:
                    continue
                found.append((before[0] + times[run], before[1] + 1, (*before[2], run)))
        best.append(min(found, key=lambda way: way[:2], default=None))
    last = best[pieces]
    if last is None:
        raise ValueError("no device takes every piece")
    return last[2]
