"""How far answers move when inputs move by rounding: what a comparison of them may ask.

Two ways of computing one thing differ by rounding. Where a model makes much of little (a softmax
over large numbers, the best of nearly equal ones), its answers to inputs that differ in their last
digits differ, too, and say by how much.
"""

from collections.abc import Callable, Sequence

import numpy as np

from edgec.runtime.dtypes import DType
from edgec.runtime.tolerance import Tolerance

__all__ = ["FRACTION_BITS", "answers_beside", "apart", "largest", "moved", "nearby", "unsettled"]

FRACTION_BITS = {DType.F16: 10, DType.BF16: 7, DType.F32: 23, DType.F64: 52}
"""Digits after the first of a real float."""

_DIGITS = 4
"""Units of the last place that inputs are moved by, at most."""
_ROOM = 8
"""Rounding in every layer moves answers by this many times as much as rounding of the inputs."""
_TRIES = 5
"""How often inputs are moved, at most, where answers stay the same to the last digit."""


def answers_beside(
    run: Callable[[list[np.ndarray]], Sequence[np.ndarray]],
    data: Sequence[np.ndarray],
    answers: Sequence[np.ndarray],
) -> list[list[np.ndarray]]:
    """Answers to inputs that differ from these in the last digits; none where none is of floats.

    Floats that stay the same to the last digit hide how far they are settled: the 1 and the zeros
    of a softmax over numbers in the thousands are the same, until another one is the largest. So
    inputs are moved a few times, until each array of floats has moved.

    Args:
        run: from inputs to answers.
        data: the inputs.
        answers: to them.
    """
    found: list[list[np.ndarray]] = []
    still = [number for number, answer in enumerate(answers) if _is_real(answer) and answer.size]
    for seed in range(_TRIES):
        beside = nearby(data, seed)
        if beside is None:
            break
        others = list(run(beside))
        found.append(others)
        still = [
            number
            for number in still
            if number < len(others)
            and np.array_equal(answers[number], others[number], equal_nan=True)
        ]
        if not still:
            break
    return found


def nearby(data: Sequence[np.ndarray], seed: int = 0) -> list[np.ndarray] | None:
    """Inputs that differ from these in the last digits; None where none is of floats."""
    random = np.random.default_rng(seed)
    others = [moved(np.asarray(array), random) for array in data]
    same = all(one is other for one, other in zip(others, data, strict=True))
    return None if same else others


def moved(array: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """The array with its last digits moved, but for short numbers: 0.5, 2, a mask's 1.

    Those are given as they are meant, and lie where functions step; they have no rounding in them.
    """
    if not _is_real(array):
        return array
    short = _is_short(array)
    if short.all():
        return array
    unit = _DIGITS * 2.0 ** -(_bits(array) + 1)
    factors = 1 + unit * random.uniform(-1, 1, array.shape)
    with np.errstate(over="ignore", invalid="ignore"):
        other = np.asarray(array.astype(np.float64) * factors).astype(array.dtype)
    return np.where(short | ~np.isfinite(other), array, other)


def apart(answer: np.ndarray, others: Sequence[np.ndarray]) -> float:
    """How far the answers may be off, where that is more than their type's tolerance says."""
    if not _is_real(answer) or not answer.size:
        return 0.0
    wide = answer.astype(np.float64)
    most = 0.0
    for other in others:
        with np.errstate(invalid="ignore"):  # two infinities
            distance = np.abs(wide - other.astype(np.float64))
        most = max(most, float(np.max(distance, initial=0.0, where=np.isfinite(distance))))
    usual = Tolerance.of(DType.of(answer.dtype)).relative * largest(answer)
    return _ROOM * most if _ROOM * most > usual else 0.0


def unsettled(answer: np.ndarray, others: Sequence[np.ndarray]) -> np.ndarray:
    """Which whole numbers and truths come out otherwise: ties."""
    mask = np.zeros(np.shape(answer), bool)
    if answer.dtype.kind in "biu":
        for other in others:
            mask |= answer != other
    return mask


def largest(answer: np.ndarray) -> float:
    """The largest finite value of a real float; infinity for what has no rounding."""
    if not _is_real(answer):
        return float("inf")
    sizes = np.abs(answer.astype(np.float64))
    return float(np.max(sizes, initial=0.0, where=np.isfinite(sizes)))


def _is_short(array: np.ndarray) -> np.ndarray:
    """Which numbers need no more than half of their type's digits."""
    whole = np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")
    mask = whole.dtype.type((1 << ((_bits(array) + 1) // 2)) - 1)
    return np.asarray(whole & mask == 0).reshape(array.shape)


def _is_real(array: np.ndarray) -> bool:
    return DType.of(array.dtype) in FRACTION_BITS


def _bits(array: np.ndarray) -> int:
    return FRACTION_BITS[DType.of(array.dtype)]
