"""Values that a program computes in some calls to the ranges that bytes of them stand for."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

__all__ = ["ByteRange", "Seen"]

_Array = np.ndarray[Any, np.dtype[Any]]
_LOW, _HIGH = -128, 127
_MOST = 1 << 15
"""Numbers that are kept of a value and a call."""
_PARTS = np.linspace(0.3, 1.0, 36)
"""How much of what was seen a range may span."""


@dataclass(frozen=True, kw_only=True)
class ByteRange:
    """What bytes stand for: `(byte - zero) * scale`."""

    scale: float
    zero: int

    def scaled(self, factor: float) -> "ByteRange":
        """Bytes that stand for so many times as much."""
        return replace(self, scale=self.scale * factor)

    def rounded(self, numbers: _Array) -> _Array:
        """What is left of numbers."""
        whole = np.clip(np.rint(numbers / self.scale) + self.zero, _LOW, _HIGH)
        return np.asarray((whole - self.zero) * self.scale)


class Seen:
    """Numbers that values had, and the range that fits each best."""

    def __init__(self) -> None:
        self._numbers: dict[Any, list[_Array]] = {}
        self._random = np.random.default_rng(0)

    def add(self, value: Any, numbers: _Array) -> None:
        """Numbers that a value had in one call; of many some are kept, the ends among them."""
        flat = np.asarray(numbers, np.float64).ravel()
        if flat.size > _MOST:
            some = self._random.choice(flat, _MOST - 2, replace=False)
            flat = np.concatenate([some, [flat.min(), flat.max()]])
        self._numbers.setdefault(value, []).append(flat)

    def ranges(self) -> Mapping[Any, ByteRange]:
        """Of each value the range whose bytes are least off, in squares."""
        return {value: _best(np.concatenate(found)) for value, found in self._numbers.items()}


def _best(numbers: _Array) -> ByteRange:
    low, high = min(0.0, float(numbers.min())), max(0.0, float(numbers.max()))
    if not np.isfinite(high - low) or high == low:
        return ByteRange(scale=1.0, zero=0)
    tried = [_spanning(low * part, high * part) for part in _PARTS]
    errors = [float(np.square(each.rounded(numbers) - numbers).sum()) for each in tried]
    return tried[int(np.argmin(errors))]


def _spanning(low: float, high: float) -> ByteRange:
    """Bytes from one number to another; 0 is one of theirs, since borders are zeros."""
    scale = float(np.float32((high - low) / (_HIGH - _LOW)))
    return ByteRange(scale=scale, zero=int(np.clip(np.rint(_LOW - low / scale), _LOW, _HIGH)))
