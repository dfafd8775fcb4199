"""Memory of the host that devices can read: aligned arrays, and arrays on memory by address."""

import ctypes
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from edgec.runtime.dtypes import DType

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["ALIGNMENT", "aligned_empty", "array_at"]

ALIGNMENT = 64
"""Bytes; compiled code may use aligned vector loads on the first element."""


def array_at(
    address: int, size: int, owner: object, shape: tuple[int, ...], dtype: np.dtype
) -> np.ndarray:
    """Memory of so many bytes as an array; it and every view of it keep the memory's owner."""
    memory = (ctypes.c_char * size).from_address(address)
    memory.owner = owner  # type: ignore[attr-defined]  # lives as long as any view
    array: np.ndarray = np.ndarray(shape, dtype, memory)  # type: ignore[arg-type]  # a buffer
    if array.nbytes != size:
        raise ValueError(f"{size} bytes are no {dtype}{list(shape)}")
    return array


def aligned_empty(shape: int | Sequence[int], dtype: "DType | npt.DTypeLike") -> np.ndarray:
    """A host array, not initialised, at an address that devices can share.

    Args:
        shape: as `numpy.empty` takes it.
        dtype: an element type of edgec's, or as NumPy takes it (`np.float32`, `"float32"`).

    Raises:
        InputError: edgec has no such element type.
    """
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    dtype = DType.of(dtype)
    size = math.prod(shape) * dtype.bits // 8
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size].view(dtype.numpy).reshape(shape)
