"""A seed to an input: numbers that every language makes alike, from a few integers.

Number `i` of an input is `(base + step * k) * 2**exponent`, where `k` is `hashed(seed, i) * count`
without its low 32 bits, or `i % count` where there is no seed. All of it is integer arithmetic, and
what comes out is exact in the input's type, so that no rounding can tell two machines apart.
`runtime/c/SPEC.md` is the definition, and `runtime/c/src/prove.c` the other half.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.runtime.conditioning import FRACTION_BITS
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import ModuleError
from edgec.runtime.tolerance import root_mean_square

__all__ = ["MOST_EXPONENT", "SeededInput", "hashed", "lanes", "whole"]

MOST_EXPONENT = 1000
"""Beyond it `2**exponent` may be no f64."""

_MOST_COUNT = 1 << 20
"""So that a hash times a count is exact in an f64, too, which is all that JavaScript has."""
_MOST_LANES = 1 << 28
_WEYL = 0x9E3779B9
_LEAST_EXPONENT = {DType.F16: -24, DType.BF16: -133, DType.F32: -149, DType.F64: -MOST_EXPONENT}
_PARTS = {DType.C64: DType.F32, DType.C128: DType.F64}
_DIGITS = 24
"""Bits of a number, at most."""


def hashed(seed: int, positions: np.ndarray) -> np.ndarray:
    """32 random bits for each position, the same ones for the same seed."""
    with np.errstate(over="ignore"):
        x = positions.astype(np.uint32) * np.uint32(_WEYL) + np.uint32(seed)
        for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
            x = (x ^ (x >> np.uint32(shift))) * np.uint32(factor)
        return np.asarray(x ^ (x >> np.uint32(16)))


def lanes(dtype: DType) -> DType:
    """The type of the numbers in a tensor: a complex number is two."""
    return _PARTS.get(dtype, dtype)


@dataclass(frozen=True, kw_only=True)
class SeededInput:
    """One input; see the module's docstring for what its numbers mean."""

    dtype: DType
    shape: tuple[int, ...]
    base: int
    step: int = 0
    count: int = 1
    exponent: int = 0
    seed: int | None = None

    def __post_init__(self) -> None:
        ends = (self.base, self.base + self.step * (self.count - 1))
        if (
            any(size < 0 for size in self.shape)
            or math.prod(self.shape) > _MOST_LANES
            or not 1 <= self.count <= _MOST_COUNT
            or max(map(abs, ends)) > 1 << 53
            or not (self.seed is None or 0 <= self.seed < 1 << 32)
            or abs(self.exponent) > MOST_EXPONENT
            or (self.exponent and not self.dtype.is_float)
        ):
            raise ModuleError(f"a golden call's input is impossible: {self}")

    @classmethod
    def like(cls, array: np.ndarray, seed: int) -> "SeededInput":
        """Numbers of the same kind as an example's, in its range.

        Steps of whole numbers stay steps; two values stay these two, and one stays that one;
        whole numbers lie evenly in their range. Floats lie evenly where the example's have the
        same mean and variance, within its range.
        """
        dtype = DType.of(array.dtype)
        part = lanes(dtype)
        flat = np.ascontiguousarray(array).reshape(-1).view(part.numpy)
        base, step, count, exponent, is_random = (
            _floats(flat, part) if part.is_float else _integers(flat, array.shape)
        )
        return cls(
            dtype=dtype,
            shape=array.shape,
            base=base,
            step=step,
            count=count,
            exponent=exponent,
            seed=seed if is_random and count > 1 else None,
        )

    def array(self) -> np.ndarray:
        """The numbers."""
        part = lanes(self.dtype)
        size = math.prod(self.shape) * (self.dtype.bits // part.bits)
        at = np.arange(size, dtype=np.uint64)
        if self.seed is None:
            k = at % np.uint64(self.count)
        else:
            k = (hashed(self.seed, at).astype(np.uint64) * np.uint64(self.count)) >> np.uint64(32)
        values = self.base + self.step * k.astype(np.int64)
        if part.is_float:
            numbers = np.ldexp(values.astype(np.float64), self.exponent).astype(part.numpy)
        else:
            numbers = values.astype(part.numpy)
        return np.asarray(numbers).view(self.dtype.numpy).reshape(self.shape)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {
            "type": self.dtype.value,
            "shape": list(self.shape),
            "base": self.base,
            "step": self.step,
            "count": self.count,
            "exponent": self.exponent,
            "seed": -1 if self.seed is None else self.seed,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "SeededInput":
        """The inverse of `to_json`.

        Raises:
            ModuleError, KeyError, TypeError, ValueError: it is damaged.
        """
        seed = whole(value["seed"])
        return cls(
            dtype=DType(value["type"]),
            shape=tuple(map(whole, value["shape"])),
            base=whole(value["base"]),
            step=whole(value["step"]),
            count=whole(value["count"]),
            exponent=whole(value["exponent"]),
            seed=None if seed == -1 else seed,
        )


def whole(value: Any) -> int:
    """A whole number of a JSON text.

    Raises:
        ValueError: it is something else.
    """
    if type(value) is not int:
        raise ValueError(f"{value!r} is no whole number")
    return value


_Recipe = tuple[int, int, int, int, bool]
"""Base, step, count, exponent, and whether a hash chooses."""


def _integers(flat: np.ndarray, shape: tuple[int, ...]) -> _Recipe:
    if not flat.size:
        return 0, 0, 1, 0, False
    low, high = int(flat.min()), int(flat.max())
    if low == high:
        return _clipped(low), 0, 1, 0, False
    period = shape[-1] if shape else 1
    step = int(flat[1]) - int(flat[0]) if period > 1 else 0
    if abs(low) < 1 << 52 and abs(high) < 1 << 52 and period <= _MOST_COUNT:
        ramp = int(flat[0]) + step * (np.arange(flat.size, dtype=np.int64) % period)
        if np.array_equal(ramp, flat.astype(np.int64)):
            return int(flat[0]), step, period, 0, False
    low = _clipped(low)
    return low, 1, max(1, min(high - low + 1, _MOST_COUNT)), 0, True


def _clipped(number: int) -> int:
    return max(-(1 << 52), min(number, 1 << 52))


def _floats(flat: np.ndarray, dtype: DType) -> _Recipe:
    values = flat.astype(np.float64)
    values = values[np.isfinite(values)]
    if not values.size:
        return 0, 0, 1, 0, False
    low, high = float(values.min()), float(values.max())
    is_pair = bool(np.isin(values, (low, high)).all())
    if not is_pair:
        size = max(abs(low), abs(high))
        mean = float((values / size).mean()) * size
        reach = math.sqrt(3) * root_mean_square(values - mean)
        low, high = max(low, mean - reach), min(high, mean + reach)
    bits = min(FRACTION_BITS[dtype] + 1, _DIGITS)
    most = max(abs(low), abs(high))
    exponent = math.frexp(most)[1] - bits if most else 0
    exponent = min(max(exponent, _LEAST_EXPONENT[dtype]), MOST_EXPONENT)
    first, last = (round(math.ldexp(end, -exponent)) for end in (low, high))
    limit = 1 << bits
    first, last = max(first, -limit), min(last, limit)
    if is_pair:
        return first, last - first, 1 if first == last else 2, exponent, True
    step = -(-(last - first + 1) // _MOST_COUNT)
    return first, step, (last - first) // step + 1, exponent, True
