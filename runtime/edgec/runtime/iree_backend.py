"""Devices of IREE's runtime: HAL buffer views for tensors, VM contexts for programs."""

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from edgec.runtime.backend import Program
from edgec.runtime.cuda_context import CudaContext
from edgec.runtime.dlpack import CPU
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import DeviceError, ModuleError
from edgec.runtime.host_memory import array_at
from edgec.runtime.mesh.joined import JOIN, LEAVE
from edgec.runtime.module import OVERWRITTEN_ATTRIBUTE, Module
from edgec.runtime.native import native_errors
from edgec.runtime.parameters import WeightsFile
from edgec.runtime.seal import check_weights

__all__ = ["IreeBackend"]

_EXACT = {"i": 0x11, "u": 0x12}


class IreeBackend:
    """A HAL device.

    Attributes:
        hal: IREE's `HalDevice`.
        maps_memory: whether its memory is the host's.
        context: of a CUDA device, what a thread enters before it asks IREE for anything.
    """

    def __init__(
        self, *, hal: Any, uri: str, maps_memory: bool, context: CudaContext | None = None
    ) -> None:
        self.hal = hal
        self.maps_memory = maps_memory
        self.context = context
        self._uri = uri

    def enter(self) -> None:
        """Make the device the one that this thread works on, where a driver needs to be told."""
        if self.context is not None:
            self.context.enter()

    def copy_in(self, array: np.ndarray, dtype: DType) -> Any:
        """A buffer view with a copy of the array's values."""
        from iree.runtime import BufferUsage, HalBufferView, MemoryType

        self.enter()
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        usage = int(BufferUsage.DEFAULT)
        if self.maps_memory:
            usage |= int(BufferUsage.MAPPING)
        with native_errors(f"cannot copy {array.nbytes} bytes to {self._uri}", DeviceError):
            if flat.size:
                buffer = self.hal.allocator.allocate_buffer_copy(
                    memory_type=int(MemoryType.DEVICE_LOCAL),
                    allowed_usage=usage,
                    device=self.hal,
                    buffer=flat,
                )
            else:
                buffer = self.hal.allocator.allocate_buffer(
                    memory_type=int(MemoryType.DEVICE_LOCAL), allowed_usage=usage, allocation_size=0
                )
            return HalBufferView(buffer, list(array.shape), dtype.hal)

    def share_in(self, array: np.ndarray, dtype: DType) -> Any:
        """A buffer view on the array's memory.

        By DLPack, since the buffer then holds the array for as long as anything holds the buffer.
        An allocation imported by address is held by its Python object only, and is gone before a
        result that returns the same buffer.
        """
        from iree.runtime import HalBufferView

        capsule = array.reshape(-1).view(np.uint8).__dlpack__()
        with native_errors(f"cannot share memory with {self._uri}", DeviceError):
            buffer = self.hal.from_dlpack_capsule(capsule).get_buffer()
            return HalBufferView(buffer, list(array.shape), dtype.hal)

    def borrow(self, capsule: Any, array: np.ndarray, dtype: DType) -> Any:
        """A buffer view on a capsule's memory."""
        with native_errors(f"cannot share memory with {self._uri}", DeviceError):
            return self.hal.from_dlpack_capsule(capsule)

    def read(self, tensor: Any, dtype: DType) -> np.ndarray:
        """A buffer view's values, mapped or copied."""
        shape = tuple(int(size) for size in tensor.shape)
        with native_errors(f"cannot read an array back from {self._uri}", DeviceError):
            if not self.maps_memory:
                return self._staged(tensor, dtype)
            mapping = tensor.map()
            size = math.prod(shape) * dtype.bits // 8
            # What `asarray` gives keeps the mapping only itself: a slice of it outlives the memory.
            address = mapping.asarray([size], np.dtype(np.uint8)).ctypes.data
            return array_at(address, size, mapping, shape, dtype.numpy)

    def _staged(self, tensor: Any, dtype: DType) -> np.ndarray:
        """A copy through host-visible memory; mapping device memory fails on Vulkan."""
        from iree.runtime import BufferUsage, HalFence, MemoryType

        self.enter()
        source = tensor.get_buffer()
        staging = self.hal.allocator.allocate_buffer(
            memory_type=int(MemoryType.HOST_LOCAL | MemoryType.DEVICE_VISIBLE),
            allowed_usage=int(BufferUsage.TRANSFER_TARGET | BufferUsage.MAPPING_SCOPED),
            allocation_size=source.byte_length(),
        )
        done = self.hal.create_semaphore(0)
        self.hal.queue_copy(
            source,
            staging,
            wait_semaphores=HalFence.create_at(done, 0),
            signal_semaphores=HalFence.create_at(done, 1),
        )
        HalFence.create_at(done, 1).wait()
        return np.array(staging.map().asarray(list(tensor.shape), dtype.numpy))

    def copy(self, tensor: Any) -> Any:
        """A buffer view of its own with the same values."""
        from iree.runtime import BufferUsage, HalBufferView, HalFence, MemoryType

        self.enter()
        source = tensor.get_buffer()
        target = self.hal.allocator.allocate_buffer(
            memory_type=int(MemoryType.DEVICE_LOCAL),
            allowed_usage=int(BufferUsage.DEFAULT | BufferUsage.MAPPING)
            if self.maps_memory
            else int(BufferUsage.DEFAULT),
            allocation_size=source.byte_length(),
        )
        done = self.hal.create_semaphore(0)
        before, after = HalFence.create_at(done, 0), HalFence.create_at(done, 1)
        self.hal.queue_copy(source, target, wait_semaphores=before, signal_semaphores=after)
        after.wait()
        return HalBufferView(target, list(tensor.shape), tensor.element_type)

    def lend(self, tensor: Any, dtype: DType) -> Any:
        """A capsule on a buffer view's memory, its integers with their signs."""
        from iree.runtime import HalBufferView

        kind = _EXACT.get(dtype.value[0], dtype.hal >> 24)
        if dtype in (DType.BOOL, DType.BF16):
            kind = dtype.hal >> 24
        exact = HalBufferView(tensor.get_buffer(), list(tensor.shape), kind << 24 | dtype.bits)
        return self.hal.create_dlpack_capsule(exact, CPU, 0)

    def load(self, module: Module, weights: WeightsFile | None) -> Program:
        """A module in a VM context of its own."""
        return _IreeProgram(self, module, weights)


class _IreeProgram:
    """A module's VM context, and what a new one is made of."""

    def __init__(self, backend: IreeBackend, module: Module, weights: WeightsFile | None) -> None:
        from iree.runtime import VmModule, create_hal_module, create_io_parameters_module

        if module.key is not None and module.seal is not None and weights is not None:
            check_weights(weights.path, module.seal)
        self._path = module.path
        self._uri = backend._uri
        self._enter = backend.enter
        self._copy = backend.copy
        self._weights = weights
        instance = _instance()
        with native_errors(f"cannot load {module.path}", ModuleError, "compile it again"):
            self._native = VmModule.mmap(instance, str(module.path))
            self._modules = [create_hal_module(instance, backend.hal)]
            if weights is not None:
                providers = weights.providers(module)
                self._modules.append(create_io_parameters_module(instance, *providers))
            self._modules.append(self._native)
        self._functions: dict[str, Any] = {}
        self._overwritten: dict[str, str] = {}
        self.reset()

    def _find(self, function: str) -> Any:
        if function not in self._functions:
            self._functions[function] = self._native.lookup_function(function)
        return self._functions[function]

    def has(self, function: str) -> bool:
        """Whether the module has a function of this name."""
        return self._find(function) is not None

    def attribute(self, function: str, key: str) -> str | None:
        """A function's attribute."""
        found = self._find(function).reflection.get(key)
        return None if found is None else str(found)

    def call(self, function: str, tensors: Sequence[Any]) -> list[Any]:
        """Call a function on buffer views."""
        from iree.runtime import HalBufferView, VmVariantList

        self._enter()
        if function not in self._overwritten:
            self._overwritten[function] = self.attribute(function, OVERWRITTEN_ATTRIBUTE) or ""
        marks = self._overwritten[function].ljust(len(tensors))
        arguments = VmVariantList(len(tensors))
        for tensor, mark in zip(tensors, marks, strict=False):
            arguments.push_ref(self._copy(tensor) if mark == "1" else tensor)
        results = VmVariantList(1)
        with native_errors(f"{function}() failed on {self._uri}", DeviceError):
            self._context.invoke(self._find(function), arguments, results)
        return [results.get_as_object(i, HalBufferView) for i in range(results.size)]

    def join(self, identity: bytes, rank: int, count: int) -> None:
        """Let the module's collectives find the other devices of its group.

        Raises:
            DeviceError: they do not come, or the driver has no NCCL.
        """
        from iree.runtime import VmBuffer, VmVariantList

        self._enter()
        told = VmBuffer(len(identity))
        with memoryview(told) as view:
            view[:] = identity
        arguments = VmVariantList(3)
        arguments.push_ref(told.ref)
        arguments.push_int(rank)
        arguments.push_int(count)
        with native_errors(f"the devices of a mesh do not meet on {self._uri}", DeviceError):
            self._context.invoke(self._find(JOIN), arguments, VmVariantList(0))

    def leave(self) -> None:
        """Leave the group of devices that `join` found.

        Raises:
            DeviceError: the others do not leave it.
        """
        from iree.runtime import VmVariantList

        self._enter()
        with native_errors(f"the devices of a mesh do not part on {self._uri}", DeviceError):
            self._context.invoke(self._find(LEAVE), VmVariantList(0), VmVariantList(0))

    def reset(self) -> None:
        """A new context: the module's globals, and so its state, at their first values."""
        from iree.runtime import VmContext

        self._enter()
        with native_errors(f"cannot load {self._path}", ModuleError, "compile it again"):
            self._context: Any = VmContext(_instance(), self._modules)


@cache
def _instance() -> Any:
    from iree.runtime import VmInstance

    return VmInstance()
