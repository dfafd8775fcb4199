"""How far a framework's own answers move when its inputs move by rounding: what a check may ask.

A module computes in another order than the framework, so its answers differ by rounding. Where a
model makes much of little (a softmax over large numbers, the best of nearly equal ones), the
framework's answers to inputs that differ in their last digits differ, too, and say by how much.
"""

import logging
from collections.abc import Sequence

import numpy as np

from edgec.exporters.traced import TracedCall
from edgec.runtime import Tolerance
from edgec.runtime.dtypes import DType

__all__ = ["conditioned", "nearby"]

_LOG = logging.getLogger("edgec.exporters")
_DIGITS = 4
"""Units of the last place that inputs are moved by, at most."""
_ROOM = 8
"""Rounding in every layer moves answers by this many times as much as rounding of the inputs."""
_LITTLE = 0.1
"""Of the spread of answers: what may be off by so much proves little."""


def nearby(data: Sequence[np.ndarray]) -> list[np.ndarray] | None:
    """Inputs that differ from these in the last digits; None where none is of floats."""
    random = np.random.default_rng(0)
    moved = [_moved(np.asarray(array), random) for array in data]
    same = all(one is other for one, other in zip(moved, data, strict=True))
    return None if same else moved


def conditioned(
    data: Sequence[np.ndarray],
    answers: Sequence[np.ndarray],
    others: Sequence[Sequence[np.ndarray]],
    *,
    name: str,
) -> TracedCall:
    """A golden call that takes into account how far its answers are settled.

    Args:
        data: the inputs.
        answers: the framework's answers.
        others: its answers to nearby inputs, or in more digits.
        name: the signature, for a warning where answers are hardly settled.
    """
    fitting = [
        other
        for other in others
        if [a.shape for a in other] == [np.shape(answer) for answer in answers]
    ]
    pairs = [[other[number] for other in fitting] for number in range(len(answers))]
    within = tuple(_apart(a, found) for a, found in zip(answers, pairs, strict=True))
    open_ = tuple(_open(a, found) for a, found in zip(answers, pairs, strict=True))
    loose = [
        number
        for number, (answer, far) in enumerate(zip(answers, within, strict=True))
        if far > _LITTLE * _size(answer)
    ]
    if loose:
        _LOG.warning(
            "answers of %s (%d of %d outputs) move by a tenth of their size and more when inputs "
            "move by rounding: the check of a module proves little there",
            name,
            len(loose),
            len(answers),
        )
    return TracedCall(
        inputs=tuple(data),
        outputs=tuple(answers),
        within=within if any(within) else (),
        open=open_ if any(mask.any() for mask in open_) else (),
    )


def _moved(array: np.ndarray, random: np.random.Generator) -> np.ndarray:
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
        moved = np.asarray(array.astype(np.float64) * factors).astype(array.dtype)
    return np.where(short, array, moved)


def _is_short(array: np.ndarray) -> np.ndarray:
    """Which numbers need no more than half of their type's digits."""
    whole = np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")
    mask = whole.dtype.type((1 << ((_bits(array) + 1) // 2)) - 1)
    return np.asarray(whole & mask == 0).reshape(array.shape)


def _apart(answer: np.ndarray, others: Sequence[np.ndarray]) -> float:
    """How far the answers may be off, where that is more than their type's tolerance says."""
    if not _is_real(answer) or not answer.size:
        return 0.0
    wide = answer.astype(np.float64)
    most = 0.0
    for other in others:
        distance = np.abs(wide - other.astype(np.float64))
        most = max(most, float(np.max(distance, initial=0.0, where=np.isfinite(distance))))
    usual = Tolerance.of(DType.of(answer.dtype)).relative * _size(answer)
    return _ROOM * most if _ROOM * most > usual else 0.0


def _open(answer: np.ndarray, others: Sequence[np.ndarray]) -> np.ndarray:
    """Which whole numbers and truths are not settled: ties."""
    mask = np.zeros(np.shape(answer), bool)
    if answer.dtype.kind in "biu":
        for other in others:
            mask |= answer != other
    return mask


def _size(answer: np.ndarray) -> float:
    """The largest finite value."""
    if not _is_real(answer):
        return float("inf")
    sizes = np.abs(answer.astype(np.float64))
    return float(np.max(sizes, initial=0.0, where=np.isfinite(sizes)))


def _is_real(array: np.ndarray) -> bool:
    return DType.of(array.dtype).is_float and array.dtype.kind != "c"


def _bits(array: np.ndarray) -> int:
    """Digits after the first of a float's fraction."""
    import ml_dtypes

    return int(ml_dtypes.finfo(array.dtype).nmant)
