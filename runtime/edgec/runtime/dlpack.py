"""DLPack capsules in host memory to NumPy views and back, for every element type and stride.

NumPy's own `from_dlpack` knows no bfloat16, and IREE's takes contiguous, aligned memory only.
"""

import ctypes
import math
from typing import Any

import numpy as np

from edgec.runtime.dtypes import DType
from edgec.runtime.errors import InputError

__all__ = ["CPU", "address_of", "capsule_of", "view_of_capsule"]

CPU = 1
"""DLPack's device type for host memory."""

_NAME = b"dltensor"
_BOOL, _BF16 = 6, 4
# DLPack's type code to the first letters of edgec's name for the type.
_CODES = {0: "i", 1: "u", 2: "f", 4: "bf", 5: "c"}


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


def capsule_of(array: np.ndarray, dtype: DType) -> Any:
    """A capsule on a writable array's memory, which it keeps.

    NumPy makes it, also for bf16: as integers of that width, whose type is then set right.
    """
    if dtype is not DType.BF16:
        return array.__dlpack__()
    capsule = array.view(np.uint16).__dlpack__()
    _tensor(capsule).code = _BF16
    return capsule


def view_of_capsule(capsule: Any) -> tuple[np.ndarray, DType]:
    """The tensor in a capsule as an array that is good while the capsule lives unconsumed.

    Raises:
        InputError: an element type that edgec has not.
    """
    tensor = _tensor(capsule)
    dtype = _dtype(tensor)
    shape = tuple(tensor.shape[axis] for axis in range(tensor.rank))
    item = dtype.bits // 8
    if 0 in shape or not tensor.data:
        return np.empty(shape, dtype.numpy), dtype
    if tensor.strides:
        strides = tuple(tensor.strides[axis] * item for axis in range(tensor.rank))
    else:
        strides = tuple(math.prod(shape[axis + 1 :]) * item for axis in range(tensor.rank))
    first = tensor.data + tensor.byte_offset
    low = sum(min(0, (n - 1) * s) for n, s in zip(shape, strides, strict=True))
    high = sum(max(0, (n - 1) * s) for n, s in zip(shape, strides, strict=True)) + item
    memory = (ctypes.c_uint8 * (high - low)).from_address(first + low)
    return np.ndarray(shape, dtype.numpy, memory, -low, strides), dtype


def address_of(capsule: Any) -> int:
    """Where the memory of a capsule begins, on whatever device it is."""
    tensor = _tensor(capsule)
    return int(tensor.data or 0) + int(tensor.byte_offset)


def _tensor(capsule: Any) -> _Tensor:
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype = ctypes.c_void_p
    pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    return _Tensor.from_address(pointer(capsule, _NAME))


def _dtype(tensor: _Tensor) -> DType:
    name = f"{_CODES.get(tensor.code, '?')}{tensor.bits}"
    if tensor.code == _BOOL and tensor.bits == 8:
        name = "bool"
    if tensor.lanes != 1 or name not in {dtype.value for dtype in DType}:
        raise InputError(
            f"a DLPack tensor of type code {tensor.code} with {tensor.bits} bits "
            "has no edgec counterpart"
        )
    return DType(name)
