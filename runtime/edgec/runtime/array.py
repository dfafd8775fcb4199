"""Tensors that live on a device: host arrays in, host arrays and DLPack out.

Memory rules. A `DeviceArray` never changes: `numpy()` gives a read-only view where the device's
memory is the host's, and a copy elsewhere. Host memory is shared with a device (not copied) only
where the device reads host memory, the array is contiguous and writable, and its address is a
multiple of `ALIGNMENT`; then the array must stay as it is while the device may read it.
"""

import math
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from edgec.runtime import dlpack
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import DeviceError, InputError, ModuleError
from edgec.runtime.host_memory import ALIGNMENT

if TYPE_CHECKING:
    from edgec.runtime.device import Device

__all__ = ["DeviceArray", "copy_in", "dlpack_in", "dtype_of_hal", "share_in"]

# HAL numerical kind (bits 24-31 of an element type) to the first letters of edgec's name for it.
_KINDS = {0x10: "i", 0x11: "i", 0x12: "u", 0x21: "f", 0x22: "bf", 0x23: "c"}
_HAL_BOOL = 0x13


class DeviceArray:
    """One tensor on a device. It keeps its device alive; `close()` gives the memory back early."""

    def __init__(self, *, device: "Device", view: Any, dtype: DType) -> None:
        self._device = device
        self._view = view
        self._host: np.ndarray | None = None
        self._dtype = dtype
        shape = view.shape
        self._shape = shape if type(shape) is tuple else tuple(map(int, shape))

    @classmethod
    def of_copy(cls, device: "Device", host: np.ndarray, dtype: DType) -> "DeviceArray":
        """A small result that came as an array, which is nobody else's and is not written to.

        The runtime has a tensor of it when `view` is asked for. Only for devices that map memory.
        """
        self = cls.__new__(cls)
        self._device = device
        self._view = None
        self._host = host
        self._dtype = dtype
        self._shape = host.shape
        host.setflags(write=False)
        return self

    @property
    def host(self) -> np.ndarray | None:
        """Its values where they lie on the host and not in a tensor of the runtime's."""
        return self._host

    @property
    def shape(self) -> tuple[int, ...]:
        """Its dimensions."""
        return self._shape

    @property
    def dtype(self) -> DType:
        """Its element type."""
        return self._dtype

    @property
    def device(self) -> "Device":
        """Where it lives."""
        return self._device

    @property
    def nbytes(self) -> int:
        """Its size in bytes."""
        return math.prod(self._shape) * self._dtype.bits // 8

    @property
    def view(self) -> Any:
        """The runtime's own tensor: IREE's `HalBufferView`, or edgert's `EdgertTensor`.

        Raises:
            DeviceError: the array is closed.
        """
        if self._view is None and self._host is not None:
            self._view = self._device.backend.copy_in(self._host, self._dtype)
        if self._view is None:
            raise DeviceError(
                f"this {self._describe()} is closed", hint="use an array before its close()"
            )
        return self._view

    def numpy(self) -> np.ndarray:
        """Its values on the host: a read-only view where memory is shared, a copy elsewhere.

        Raises:
            DeviceError: the array is closed, or the device failed.
        """
        if self._host is not None:
            return self._host
        view = self.view
        if 0 in self._shape:
            return np.zeros(self._shape, self._dtype.numpy)
        backend = self._device.backend
        host = backend.read(view, self._dtype)
        if backend.maps_memory:
            host.flags.writeable = False
        return host

    def close(self) -> None:
        """Let go of the memory; views that `numpy()` gave stay valid."""
        self._view = self._host = None

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """NumPy's protocol: `np.asarray(x)`."""
        host = self.numpy()
        if dtype is not None and np.dtype(dtype) != host.dtype:
            if copy is False:
                raise ValueError(f"{self._describe()} cannot become {dtype} without a copy")
            return host.astype(dtype)
        return host.copy() if copy else host

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's device of `__dlpack__`: the CPU, to which other devices copy."""
        return (dlpack.CPU, 0)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule in host memory: shared on local devices, copied from the others.

        Raises:
            BufferError: another device is asked for, or sharing where only a copy is possible.
        """
        if dl_device is not None and dl_device[0] != dlpack.CPU:
            raise BufferError(f"{self._describe()} can be exported to host memory only")
        if not self._device.maps_memory or copy:
            if copy is False:
                raise BufferError(f"{self._describe()} needs a copy to get to host memory")
            return dlpack.capsule_of(np.array(self.numpy()), self._dtype)
        return self._device.backend.lend(self.view, self._dtype)

    def __len__(self) -> int:
        if not self._shape:
            raise TypeError("a scalar has no length")
        return self._shape[0]

    def __repr__(self) -> str:
        return f"<{self._describe()}>"

    def _describe(self) -> str:
        shape = ", ".join(map(str, self._shape))
        return f"DeviceArray {self._dtype.value}[{shape}] on {self._device.uri}"


def copy_in(device: "Device", array: np.ndarray, dtype: DType) -> DeviceArray:
    """A device array with a copy of the host array's values.

    Raises:
        DeviceError: the device is out of memory, or failed.
    """
    return DeviceArray(device=device, view=device.backend.copy_in(array, dtype), dtype=dtype)


def share_in(device: "Device", array: np.ndarray, dtype: DType) -> DeviceArray | None:
    """A device array on the host array's own memory, or None where that cannot be."""
    can = (
        device.maps_memory
        and array.size > 0
        and array.flags.c_contiguous
        and array.flags.writeable
        and array.ctypes.data % ALIGNMENT == 0
    )
    if not can:
        return None
    return DeviceArray(device=device, view=device.backend.share_in(array, dtype), dtype=dtype)


def dlpack_in(device: "Device", tensor: Any) -> DeviceArray:
    """A device array from a framework's tensor in host memory; its memory is shared if it can be.

    Raises:
        InputError: the tensor is on another device, or its framework does not give it out.
    """
    kind = type(tensor).__name__
    if tensor.__dlpack_device__()[0] != dlpack.CPU:
        raise InputError(
            f"this {kind} is not in host memory", hint="move it to the host first, as with .cpu()"
        )
    try:
        capsule = tensor.__dlpack__()
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise InputError(
            f"this {kind} gives out no memory: {str(error).splitlines()[0]}",
            hint="detach it first, or give a copy (torch: x.detach())",
        ) from error
    array, dtype = dlpack.view_of_capsule(capsule)
    shares = (
        device.maps_memory
        and array.size > 0
        and array.flags.c_contiguous
        and array.ctypes.data % ALIGNMENT == 0
    )
    if not shares:
        return copy_in(device, array, dtype)
    return DeviceArray(
        device=device, view=device.backend.borrow(capsule, array, dtype), dtype=dtype
    )


@cache
def dtype_of_hal(element_type: int) -> DType:
    """The DType of a HAL element type.

    Raises:
        ModuleError: edgec has no such type.
    """
    kind, bits = element_type >> 24, element_type & 0xFFFF
    if kind == _HAL_BOOL and bits == 8:
        return DType.BOOL
    try:
        return DType(f"{_KINDS[kind]}{bits}")
    except (KeyError, ValueError):
        raise ModuleError(
            f"a tensor has the element type {element_type:#x}, unknown here"
        ) from None
