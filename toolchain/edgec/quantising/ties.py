"""Golden answers that are tokens, with the tokens whose scores are as good within rounding.

A value half-way between two bytes becomes either, as sums of f32 are rounded, which every device
does in its own way; so the scores of a program that rounds are settled less than its floats are.
How much less, scales show that are moved by as little.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from edgec.runtime.golden import GoldenCall
from edgec.runtime.text.facts import DECODE, PREFILL

__all__ = ["noise_of", "with_ties"]

_Array = np.ndarray[Any, np.dtype[Any]]
_ROOM = 2
"""Scores may be off by this many times as much as those that were seen."""
_SCORED = (DECODE, PREFILL.partition("{")[0])
_BEST = 64
"""Tokens that may be chosen at all."""


def noise_of(scores: Sequence[_Array], others: Sequence[_Array]) -> float:
    """How far the best scores are apart that should be alike, with room for more."""
    most = 0.0
    for one, other in zip(scores, others, strict=False):
        best = np.argsort(one)[-_BEST:]
        apart = (one - one[best[-1]]) - (other - other[best[-1]])
        most = max(most, float(np.abs(apart[best]).max()))
    return _ROOM * most


def with_ties(
    calls: Sequence[GoldenCall], scores: Sequence[_Array], noise: float
) -> tuple[GoldenCall, ...]:
    """Calls that give a token each, and allow those that are as good.

    Args:
        calls: with their answers.
        scores: of all tokens after each call.
        noise: what two scores may come nearer by.
    """
    return tuple(_tied(call, row, noise) for call, row in zip(calls, scores, strict=True))


def _tied(call: GoldenCall, row: _Array, noise: float) -> GoldenCall:
    (token,) = call.outputs
    if not call.signature.startswith(_SCORED) or token < 0:
        return call
    best = float(row.max())
    tied = [int(each) for each in np.flatnonzero(row >= best - noise) if each != int(token)]
    if not tied:
        return call
    return replace(call, others=(np.asarray(tied, np.int32),))
