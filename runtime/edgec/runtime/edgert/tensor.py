"""Tensors on edgert's devices, and the values of its calls."""

import ctypes
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from edgec.runtime.dtypes import DType
from edgec.runtime.edgert.device import EdgertDevice
from edgec.runtime.edgert.element_types import hal_type
from edgec.runtime.edgert.handle import LET_GO, Handle, hold
from edgec.runtime.edgert.native import (
    F32,
    I32,
    I64,
    TENSOR,
    Error,
    NativeValue,
    Place,
    TensorFacts,
)
from edgec.runtime.errors import DeviceError, InputError
from edgec.runtime.host_memory import aligned_empty, array_at

__all__ = ["EdgertTensor", "Result", "Value", "shape_of", "taken", "values"]

Value: TypeAlias = np.ndarray | int | float
Result: TypeAlias = "EdgertTensor | int | float"


class EdgertTensor(Handle):
    """Numbers with a shape on a device, which do not change.

    Attributes:
        shape: its dimensions.
        element_type: as the HAL numbers it.
        size: in bytes.
    """

    _release = "tensor_release"

    def __init__(self, library: Any, pointer: int) -> None:
        """Take over a native tensor."""
        super().__init__(library, pointer)
        facts = TensorFacts()
        library.tensor_describe(pointer, facts)
        self.shape = tuple(facts.shape[: facts.rank])
        self.element_type: int = facts.type
        self.size: int = facts.size
        self._address: int | None = None

    @classmethod
    def at(cls, library: Any, place: Place) -> "EdgertTensor":
        """Take over the native tensor at a place, which says all there is to know of it."""
        self = cls.__new__(cls)
        Handle.__init__(self, library, place.tensor)
        self.shape = tuple(place.shape[: place.rank])
        self.element_type = place.type
        self.size = place.size
        self._address = place.data
        return self

    @classmethod
    def copy(cls, device: EdgertDevice, array: np.ndarray, dtype: DType) -> "EdgertTensor":
        """A tensor with an array's values.

        Raises:
            DeviceError: out of memory.
        """
        library = device.library
        flat = np.ascontiguousarray(array)
        out, error = ctypes.c_void_p(), Error()
        status = library.tensor_create(
            *(device.pointer, hal_type(dtype), array.ndim, shape_of(array)),
            *(ctypes.byref(out), ctypes.byref(error)),
        )
        library.check(status, error, DeviceError)
        tensor = cls(library, out.value or 0)
        status = library.tensor_write(
            tensor.pointer, flat.ctypes.data, flat.nbytes, ctypes.byref(error)
        )
        library.check(status, error, DeviceError)
        return tensor

    @classmethod
    def share(
        cls, device: EdgertDevice, array: np.ndarray, dtype: DType, owner: object = None
    ) -> "EdgertTensor":
        """A tensor on an array's own memory: contiguous, at a multiple of `ALIGNMENT`.

        The array, and the owner of its memory, are held until edgert needs them no more: a
        function that keeps its argument as state outlives the tensor.

        Raises:
            InputError: its memory cannot be shared.
        """
        library = device.library
        out, error = ctypes.c_void_p(), Error()
        status = library.tensor_wrap(
            *(device.pointer, hal_type(dtype), array.ndim, shape_of(array)),
            *(array.ctypes.data, array.nbytes, LET_GO, hold((array, owner))),
            *(ctypes.byref(out), ctypes.byref(error)),
        )
        library.check(status, error, InputError)
        return cls(library, out.value or 0)

    def read(self, dtype: DType) -> np.ndarray:
        """A copy of its values, from any device.

        Raises:
            DeviceError: the device failed.
        """
        array = aligned_empty(self.shape, dtype)
        error = Error()
        status = self.library.tensor_read(
            self.pointer, array.ctypes.data, array.nbytes, ctypes.byref(error)
        )
        self.library.check(status, error, DeviceError)
        return array

    def array(self, dtype: DType) -> np.ndarray:
        """Its memory as an array, which keeps the tensor; writing to it changes the tensor.

        Only on devices that compute in the host's memory; use `read` for the others.
        """
        address = self._address or self.library.tensor_data(self.pointer)
        if not self.size or not address:
            return np.zeros(self.shape, dtype.numpy)
        return array_at(address, self.size, self, self.shape, dtype.numpy)


def values(tensors: Sequence[EdgertTensor]) -> Any:
    """Tensors as arguments."""
    slots = (NativeValue * len(tensors))()
    for index, tensor in enumerate(tensors):
        slot = slots[index]
        slot.kind = TENSOR
        slot.tensor = tensor.pointer
    return slots


def taken(library: Any, slot: NativeValue) -> Result:
    """A result, which now belongs to Python."""
    kind = slot.kind
    if kind == TENSOR:
        slot.kind = 0
        return EdgertTensor(library, slot.tensor)
    if kind in (I32, I64):
        return int(slot.i32 if kind == I32 else slot.i64)
    return float(slot.f32 if kind == F32 else slot.f64)


def shape_of(array: np.ndarray) -> Any:
    """An array's shape for C; one of no dimensions has no elements there."""
    return (ctypes.c_int64 * max(1, array.ndim))(*array.shape)
