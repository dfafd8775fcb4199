"""Which of two numbers comes first in a sort, free of how a framework writes it."""

from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Order"]

_Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, kw_only=True)
class Order:
    """An order of all numbers of a type, NaN among them.

    Attributes:
        descending: the largest come first.
        is_unsigned: integers have no sign.
        by_bits: floats are ordered by all bits, -0 before 0 and NaN by its sign; else zeros are
            equal, and NaN is one number after infinity.
    """

    descending: bool = False
    is_unsigned: bool = False
    by_bits: bool = False

    def before(self, left: _Array, right: _Array) -> _Array:
        """Whether numbers (floats in f64, or integers of one type) come before others."""
        one, other = (self.placed(each) for each in (left, right))
        return np.asarray(one > other if self.descending else one < other)

    def placed(self, numbers: _Array) -> _Array:
        """Integers that have the order of numbers."""
        if numbers.dtype.kind != "f":
            unsigned = numbers.dtype.kind == "b" or not self.is_unsigned
            return numbers if unsigned else numbers.view(f"u{numbers.dtype.itemsize}")
        if not self.by_bits:
            numbers = np.where(numbers == 0, 0.0, np.where(np.isnan(numbers), np.nan, numbers))
        bits = np.ascontiguousarray(numbers).view(np.int64)
        return np.asarray(bits ^ ((bits >> 63) & np.int64(2**63 - 1)))
