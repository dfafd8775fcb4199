"""Answers of a quantised program to how far they are from others, and to golden ones of its own."""

from collections.abc import Sequence
from dataclasses import replace

from edgec.runtime.comparison import compare
from edgec.runtime.golden import Golden, GoldenCall

__all__ = ["distance", "without_slack"]


def distance(found: Golden, golden: Golden) -> float:
    """How far answers are from others: the output that is furthest, as a part of its spread.

    Of floats that is the root mean square of the differences, of the call where it is largest; of
    others the share that differs, over all calls of a function.
    """
    worst = 0.0
    wrong: dict[tuple[str, int], list[int]] = {}
    for call, wanted in zip(found.calls, golden.calls, strict=True):
        for number, (one, other) in enumerate(zip(call.outputs, wanted.outputs, strict=True)):
            if other.dtype.kind in "biu":
                counts = wrong.setdefault((call.signature, number), [0, 0])
                counts[0] += int((one != other).sum())
                counts[1] += other.size
            else:
                worst = max(worst, compare(one, other).error)
    shares = (differing / max(count, 1) for differing, count in wrong.values())
    return max(worst, *shares, 0.0)


def without_slack(calls: Sequence[GoldenCall]) -> tuple[GoldenCall, ...]:
    """Calls whose answers are one computation's: what the framework left open is open no more."""
    return tuple(replace(call, within=(), open=(), others=()) for call in calls)
