"""One GPU that speaks by NCCL: its context, its stream, and buffers with an address."""

import weakref
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from edgec.runtime.array import DeviceArray
from edgec.runtime.cuda_context import CudaContext
from edgec.runtime.device import Device
from edgec.runtime.dlpack import address_of
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import DeviceError
from edgec.runtime.native import native_errors

__all__ = ["Buffer", "Speaker"]

_CUDA = 2
"""DLPack's device type."""


class Buffer:
    """Memory of a device with an address that others may use."""

    def __init__(self, hal: Any, size: int, ordinal: int) -> None:
        from iree.runtime import BufferUsage, HalBufferView, MemoryType

        self.size = size
        self.hal = hal.allocator.allocate_buffer(
            memory_type=int(MemoryType.DEVICE_LOCAL),
            allowed_usage=int(BufferUsage.DEFAULT),
            allocation_size=size,
        )
        view = HalBufferView(self.hal, [size], DType.U8.hal)
        self.address = address_of(hal.create_dlpack_capsule(view, _CUDA, ordinal))


class Speaker:
    """One device: its context, its stream, and its buffers that are free, by size."""

    def __init__(self, device: Device, context: CudaContext) -> None:
        self.device = device
        self.context = context
        self.hal = device.hal
        context.enter()
        self.stream = context.stream()
        self._free: dict[int, list[Buffer]] = defaultdict(list)

    def buffer(self, size: int) -> Buffer:
        """One that nobody else holds.

        Raises:
            DeviceError: out of memory.
        """
        if self._free[size]:
            return self._free[size].pop()
        with native_errors(f"cannot allocate {size} bytes on {self.device.uri}", DeviceError):
            return Buffer(self.hal, size, self.context.ordinal)

    def reserve(self, wanted: Counter[int]) -> None:
        """Have at least so many of each size free.

        Raises:
            DeviceError: out of memory.
        """
        for size, count in wanted.items():
            if len(self._free[size]) < count:
                made = [self.buffer(size) for _ in range(count)]
                self._free[size] += made

    def give_back(self, buffer: Buffer) -> None:
        """Let it be used again."""
        self._free[buffer.size].append(buffer)

    def copied(self, array: DeviceArray) -> Buffer:
        """A buffer with the array's values; the copy is done.

        Raises:
            DeviceError: the device failed.
        """
        from iree.runtime import HalFence

        buffer = self.buffer(array.nbytes)
        with native_errors(f"cannot copy on {self.device.uri}", DeviceError):
            done = self.hal.create_semaphore(0)
            self.hal.queue_copy(
                array.view.get_buffer(),
                buffer.hal,
                wait_semaphores=HalFence.create_at(done, 0),
                signal_semaphores=HalFence.create_at(done, 1),
            )
            HalFence.create_at(done, 1).wait()
        return buffer

    def array(self, buffer: Buffer, shape: Sequence[int], dtype: DType) -> DeviceArray:
        """A buffer as an array, which gives it back when it is gone."""
        from iree.runtime import HalBufferView

        view = HalBufferView(buffer.hal, list(shape), dtype.hal)
        made = DeviceArray(device=self.device, view=view, dtype=dtype)
        weakref.finalize(made, self.give_back, buffer)
        return made

    def forget(self) -> None:
        """Let go of the buffers that are free."""
        self._free.clear()
