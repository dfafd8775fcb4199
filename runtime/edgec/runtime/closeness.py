"""Two arrays to how close they are as a whole: relative L2, cosine, signal to noise."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.runtime.tolerance import root_mean_square, widened

__all__ = ["Closeness", "closeness"]


@dataclass(frozen=True, kw_only=True)
class Closeness:
    """How close an array is to what was expected; only numbers that are finite in both count.

    Where there are none of these, and not all others are the same, it is as far as can be.

    Attributes:
        relative_l2: the length of the differences by the length of what was expected.
        cosine: of the angle between the two; 1 where they point the same way.
        signal_to_noise: in decibels; infinite where they are equal.
    """

    relative_l2: float
    cosine: float
    signal_to_noise: float

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types; an infinity as the command line writes it."""
        return {
            "relative_l2": self.relative_l2,
            "cosine": self.cosine,
            "signal_to_noise": self.signal_to_noise,
        }


def closeness(actual: np.ndarray, expected: np.ndarray) -> Closeness:
    """Compare two arrays of equal shape as vectors; integers and truth values as numbers."""
    a, e = widened(np.asarray(actual)).reshape(-1), widened(np.asarray(expected)).reshape(-1)
    known = np.isfinite(a) & np.isfinite(e)
    if known.size and not known.any() and not np.array_equal(a, e, equal_nan=True):
        return Closeness(relative_l2=math.inf, cosine=0.0, signal_to_noise=-math.inf)
    a, e = a[known], e[known]
    # Lengths by root mean squares, which do not overflow; their number cancels.
    noise, signal, found = (root_mean_square(each) for each in (a - e, e, a))
    if not noise:
        return Closeness(relative_l2=0.0, cosine=1.0, signal_to_noise=math.inf)
    if not signal or not found:
        return Closeness(
            relative_l2=noise / signal if signal else math.inf,
            cosine=0.0,
            signal_to_noise=20 * math.log10(signal / noise) if signal else -math.inf,
        )
    with np.errstate(over="ignore", under="ignore"):
        cosine = float(np.mean((a / found) * np.conj(e / signal)).real)
    return Closeness(
        relative_l2=noise / signal,
        cosine=max(-1.0, min(1.0, cosine)),
        signal_to_noise=20 * math.log10(signal / noise),
    )
