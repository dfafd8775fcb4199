"""An array to how it holds another: as it is, with axes in another order, or with a border around.

Kernels keep values as suits them: channels last, axes merged, zeros around an image. Which order
the axes have is not written anywhere, so all of them are tried, and the nearest counts. Two values
that are the same numbers in another order are the same value.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from edgec.runtime.comparison import Comparison, compare
from edgec.runtime.dtypes import DType
from edgec.runtime.tolerance import Tolerance, root_mean_square, widened

__all__ = ["Held", "allowing", "held", "may_hold"]

_Array = np.ndarray[Any, np.dtype[Any]]
_MOST_ORDERS = 120
_WIDEST_BORDER = 16
_ALIKE = 1e-2


@dataclass(frozen=True, kw_only=True)
class Held:
    """How an array holds a value.

    Attributes:
        comparison: with the value, in the order in which it is right; where it is in none, in that
            of the array's own sizes, or else in the nearest.
        actual: the array's numbers in that order, without the border.
        wanted: the value's.
        is_moved: whether axes changed places, or there is a border.
    """

    comparison: Comparison
    actual: _Array
    wanted: _Array
    is_moved: bool


def allowing(tolerance: Tolerance | None, dtype: Any, within: float) -> Tolerance | None:
    """What is allowed of a value that a framework itself computes in ways so far apart."""
    if not within or tolerance is not None:
        return tolerance
    usual = Tolerance.of(DType.of(dtype))
    return replace(usual, absolute=max(usual.absolute, within))


def may_hold(actual: _Array, wanted: _Array) -> bool:
    """Whether an array could hold a value rightly, by its size and the size of its numbers."""
    if actual.size != wanted.size:
        return actual.size > wanted.size and any(True for _ in _cropped(actual, wanted))
    one, other = root_mean_square(widened(actual)), root_mean_square(widened(wanted))
    if not (math.isfinite(one) and math.isfinite(other)):
        return True
    return abs(one - other) <= _ALIKE * max(one, other)


def held(actual: _Array, wanted: _Array, tolerance: Tolerance | None) -> Held | None:
    """How an array holds a value, or how near it comes to it; None where it is of other sizes.

    Args:
        actual: what a kernel wrote.
        wanted: the value, of the type that the program gives it.
        tolerance: how far numbers may be off; None for the type's default.
    """
    best: tuple[float, Held] | None = None
    natural: Held | None = None
    for found, value, is_moved in itertools.chain(
        _orders(actual, wanted), _cropped(actual, wanted)
    ):
        distance = _distance(found, value)
        is_natural = natural is None and value.shape == actual.squeeze().shape
        if best is not None and distance >= best[0] and not is_natural:
            continue
        made = Held(
            comparison=compare(found, value, tolerance),
            actual=found,
            wanted=value,
            is_moved=is_moved,
        )
        if made.comparison.ok:
            return made
        natural = made if is_natural else natural
        if best is None or distance < best[0]:
            best = (distance, made)
    # A wrong value is near to none: what it should be is what has its own sizes.
    return natural or (None if best is None else best[1])


def _distance(actual: _Array, wanted: _Array) -> float:
    # Where only one is finite they differ as much as can be; where both are the same, not at all.
    same = (actual == wanted) | (np.isnan(actual) & np.isnan(wanted))
    with np.errstate(invalid="ignore"):
        difference = np.where(same, 0, widened(actual) - widened(wanted))
    distance = root_mean_square(difference)
    return distance if math.isfinite(distance) else math.inf


def _orders(actual: _Array, wanted: _Array) -> Iterator[tuple[_Array, _Array, bool]]:
    """An array of equal size beside a value, the value's axes in each order, its own first."""
    if actual.size != wanted.size:
        return
    whole, plain = actual.squeeze(), wanted.squeeze()
    orders = itertools.islice(itertools.permutations(range(plain.ndim)), _MOST_ORDERS)
    for number, order in enumerate(orders):
        turned = plain.transpose(order)
        if turned.shape == whole.shape:
            yield whole, turned, number > 0
        else:
            yield whole.reshape(-1), turned.reshape(-1), True


def _cropped(actual: _Array, wanted: _Array) -> Iterator[tuple[_Array, _Array, bool]]:
    """The inside of an array that is a little larger than a value, beside the value."""
    if actual.size <= wanted.size:
        return
    whole, plain = actual.squeeze(), wanted.squeeze()
    if whole.ndim != plain.ndim or not plain.ndim:
        return
    orders = itertools.islice(itertools.permutations(range(plain.ndim)), _MOST_ORDERS)
    for order in orders:
        value = plain.transpose(order)
        wider = [a - b for a, b in zip(whole.shape, value.shape, strict=True)]
        if min(wider) < 0 or max(wider) > _WIDEST_BORDER or sum(each > 0 for each in wider) > 3:
            continue
        starts = [sorted({each // 2, each - each // 2, 0, each}) for each in wider]
        for start in itertools.product(*starts):
            inner = tuple(
                slice(first, first + size) for first, size in zip(start, value.shape, strict=True)
            )
            yield whole[inner], value, True
