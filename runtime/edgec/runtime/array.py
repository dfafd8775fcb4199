"""Tensors that live on a device: host arrays in, host arrays and DLPack out.

Memory rules. A `DeviceArray` never changes: `numpy()` gives a read-only view where the device's
memory is the host's, and a copy elsewhere. Host memory is shared with a device (not copied) only
where the device reads host memory, the array is contiguous and writable, and its address is a
multiple of `ALIGNMENT`; then the array must stay as it is while the device may read it.
"""

import ctypes
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from edgec.runtime import dlpack
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import DeviceError, InputError, ModuleError
from edgec.runtime.native import native_errors

if TYPE_CHECKING:
    from edgec.runtime.device import Device

__all__ = ["ALIGNMENT", "DeviceArray", "aligned_empty", "copy_in", "dlpack_in", "share_in"]

ALIGNMENT = 64
"""Bytes; compiled code may use aligned vector loads on the first element."""

# HAL numerical kind (bits 24-31 of an element type) to the first letters of edgec's name for it.
_KINDS = {0x10: "i", 0x11: "i", 0x12: "u", 0x21: "f", 0x22: "bf", 0x23: "c"}
_HAL_BOOL = 0x13
_EXACT = {"i": 0x11, "u": 0x12}


class DeviceArray:
    """One tensor on a device. It keeps its device alive; `close()` gives the memory back early."""

    def __init__(self, *, device: "Device", view: Any, dtype: DType) -> None:
        self._device = device
        self._view = view
        self._dtype = dtype
        self._shape = tuple(int(size) for size in view.shape)

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
        """IREE's `HalBufferView` of it, for use with `iree.runtime`.

        Raises:
            DeviceError: the array is closed.
        """
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
        view = self.view
        if 0 in self._shape:
            return np.zeros(self._shape, self._dtype.numpy)
        with native_errors(f"cannot read {self._describe()} back", DeviceError):
            if not self._device.maps_memory:
                return self._staged(view)
            host = _bytes_of(view.map(), self.nbytes)
            host = host.view(self._dtype.numpy).reshape(self._shape)
            host.setflags(write=False)
            return host

    def _staged(self, view: Any) -> np.ndarray:
        """A copy through host-visible memory; mapping device memory fails on Vulkan."""
        from iree.runtime import BufferUsage, HalFence, MemoryType

        hal = self._device.hal
        source = view.get_buffer()
        staging = hal.allocator.allocate_buffer(
            memory_type=int(MemoryType.HOST_LOCAL | MemoryType.DEVICE_VISIBLE),
            allowed_usage=int(BufferUsage.TRANSFER_TARGET | BufferUsage.MAPPING_SCOPED),
            allocation_size=source.byte_length(),
        )
        done = hal.create_semaphore(0)
        hal.queue_copy(
            source,
            staging,
            wait_semaphores=HalFence.create_at(done, 0),
            signal_semaphores=HalFence.create_at(done, 1),
        )
        HalFence.create_at(done, 1).wait()
        return np.array(staging.map().asarray(list(self._shape), self._dtype.numpy))

    def close(self) -> None:
        """Let go of the memory; views that `numpy()` gave stay valid."""
        self._view = None

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
            array = copy_in(_host_device(), np.array(self.numpy()), self._dtype)
            return array.__dlpack__()
        from iree.runtime import HalBufferView

        kind = _EXACT.get(self._dtype.value[0], self._dtype.hal >> 24)
        if self._dtype in (DType.BOOL, DType.BF16):
            kind = self._dtype.hal >> 24
        exact = HalBufferView(
            self.view.get_buffer(), list(self._shape), kind << 24 | self._dtype.bits
        )
        return self._device.hal.create_dlpack_capsule(exact, dlpack.CPU, 0)

    def __len__(self) -> int:
        if not self._shape:
            raise TypeError("a scalar has no length")
        return self._shape[0]

    def __repr__(self) -> str:
        return f"<{self._describe()}>"

    def _describe(self) -> str:
        shape = ", ".join(map(str, self._shape))
        return f"DeviceArray {self._dtype.value}[{shape}] on {self._device.uri}"


def _bytes_of(mapping: Any, size: int) -> np.ndarray:
    """The mapped bytes as an array; it and every view of it keep the mapping.

    What `mapping.asarray` gives keeps it only itself: a slice of that array outlives the memory.
    """
    address = mapping.asarray([size], np.dtype(np.uint8)).ctypes.data
    memory = (ctypes.c_char * size).from_address(address)
    memory.mapping = mapping  # type: ignore[attr-defined]  # lives as long as any view
    return np.frombuffer(memoryview(memory), np.uint8)


def aligned_empty(shape: tuple[int, ...], dtype: DType) -> np.ndarray:
    """A host array, not initialised, at an address that devices can share."""
    size = math.prod(shape) * dtype.bits // 8
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size].view(dtype.numpy).reshape(shape)


def copy_in(device: "Device", array: np.ndarray, dtype: DType) -> DeviceArray:
    """A device array with a copy of the host array's values.

    Raises:
        DeviceError: the device is out of memory, or failed.
    """
    from iree.runtime import BufferUsage, HalBufferView, MemoryType

    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    usage = int(BufferUsage.DEFAULT)
    if device.maps_memory:
        usage |= int(BufferUsage.MAPPING)
    with native_errors(f"cannot copy {array.nbytes} bytes to {device.uri}", DeviceError):
        if flat.size:
            buffer = device.hal.allocator.allocate_buffer_copy(
                memory_type=int(MemoryType.DEVICE_LOCAL),
                allowed_usage=usage,
                device=device.hal,
                buffer=flat,
            )
        else:
            buffer = device.hal.allocator.allocate_buffer(
                memory_type=int(MemoryType.DEVICE_LOCAL), allowed_usage=usage, allocation_size=0
            )
        view = HalBufferView(buffer, list(array.shape), dtype.hal)
    return DeviceArray(device=device, view=view, dtype=dtype)


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
    from iree.runtime import HalBufferView

    # By DLPack, since the buffer then holds the array for as long as anything holds the buffer.
    # An allocation imported by address is held by its Python object only, and is gone before a
    # result that returns the same buffer.
    capsule = array.reshape(-1).view(np.uint8).__dlpack__()
    with native_errors(f"cannot share memory with {device.uri}", DeviceError):
        buffer = device.hal.from_dlpack_capsule(capsule).get_buffer()
        view = HalBufferView(buffer, list(array.shape), dtype.hal)
    return DeviceArray(device=device, view=view, dtype=dtype)


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
    with native_errors(f"cannot share this {kind}'s memory", DeviceError):
        view = device.hal.from_dlpack_capsule(capsule)
    return DeviceArray(device=device, view=view, dtype=dtype)


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


def _host_device() -> "Device":
    from edgec.runtime.device import Device

    return Device.open("local-sync")
