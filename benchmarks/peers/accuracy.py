"""Two lists of arrays to one number: how far an engine's answers are from the reference."""

from collections.abc import Sequence

import numpy as np

__all__ = ["worst_error"]


def worst_error(got: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> float:
    """The largest absolute difference of an output, as a part of that output's largest value.

    Infinite where counts, shapes or numbers make no sense.
    """
    if [np.shape(g) for g in got] != [w.shape for w in wanted]:
        return float("inf")
    worst = 0.0
    for ours, theirs in zip(got, wanted, strict=True):
        difference = np.abs(np.asarray(ours, np.float64) - theirs).max()
        if not np.isfinite(difference):
            return float("inf")
        worst = max(worst, float(difference / max(np.abs(theirs).max(), 1e-30)))
    return worst
