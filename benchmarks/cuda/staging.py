"""A result on a GPU to its bytes, copied through memory of the host; runs there, too."""

from typing import Any

import numpy as np

__all__ = ["bytes_of"]


def bytes_of(device: Any, results: Any) -> np.ndarray:
    """The bytes of the first of a call's results, once they are there.

    Args:
        device: the `HalDevice`; Vulkan's own way to the host fails where imported memory must be
            aligned in another way.
        results: the call's `VmVariantList`.
    """
    import iree.runtime as rt

    source = results.get_as_object(0, rt.HalBufferView).get_buffer()
    staging = device.allocator.allocate_buffer(
        memory_type=int(rt.MemoryType.HOST_LOCAL | rt.MemoryType.DEVICE_VISIBLE),
        allowed_usage=int(rt.BufferUsage.TRANSFER_TARGET | rt.BufferUsage.MAPPING_SCOPED),
        allocation_size=source.byte_length(),
    )
    done = device.create_semaphore(0)
    device.queue_copy(
        source,
        staging,
        wait_semaphores=rt.HalFence.create_at(done, 0),
        signal_semaphores=rt.HalFence.create_at(done, 1),
    )
    rt.HalFence.create_at(done, 1).wait()
    return np.array(staging.map().asarray([source.byte_length()], np.dtype(np.uint8)))
