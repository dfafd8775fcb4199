"""Operations that take or tell the sizes of values while a program runs, in NumPy.

A module imported only by what runs it; it needs the compiler.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from edgec.toolchain.ir.read import integers

__all__ = ["SIZED"]

_Array = np.ndarray[Any, np.dtype[Any]]


def _size(op: Any, value: _Array) -> _Array:
    return np.asarray(value.shape[integers(op, "dimension")[0]], np.int32)


def _broadcast(op: Any, value: _Array, sizes: _Array) -> _Array:
    wide = [1] * sizes.size
    for axis, size in zip(integers(op, "broadcast_dimensions"), value.shape, strict=True):
        wide[axis] = size
    return np.broadcast_to(value.reshape(wide), tuple(sizes.tolist()))


def _reshape(_: Any, value: _Array, sizes: _Array) -> _Array:
    return value.reshape(tuple(sizes.tolist()))


def _iota(op: Any, sizes: _Array) -> _Array:
    (axis,) = integers(op, "iota_dimension")
    turned = [1] * sizes.size
    turned[axis] = int(sizes[axis])
    return np.broadcast_to(np.arange(sizes[axis]).reshape(turned), tuple(sizes.tolist()))


def _slice(_: Any, value: _Array, starts: _Array, ends: _Array, steps: _Array) -> _Array:
    bounds = zip(starts.tolist(), ends.tolist(), steps.tolist(), strict=True)
    return value[tuple(slice(*each) for each in bounds)]


def _alike(op: Any, value: _Array) -> _Array:
    number = op.attributes["value"].value
    return np.full(value.shape, number, np.float64 if isinstance(number, float) else np.int64)


SIZED: Mapping[str, Callable[..., _Array]] = {
    "chlo.constant_like": _alike,
    "stablehlo.dynamic_broadcast_in_dim": _broadcast,
    "stablehlo.dynamic_iota": _iota,
    "stablehlo.dynamic_reshape": _reshape,
    "stablehlo.get_dimension_size": _size,
    "stablehlo.real_dynamic_slice": _slice,
}
"""By name: from an operation and its operands to what it gives."""
