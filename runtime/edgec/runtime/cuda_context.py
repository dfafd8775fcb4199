"""A CUDA device's own context and streams, by the driver's library (`libcuda.so.1`, ctypes).

IREE's CUDA driver allocates in whatever context is current in the calling thread, and makes that of
a device current only in the thread that opened it. With two GPUs, or several threads, each thread
has to enter the context of the device it works on.
"""

import ctypes
import ctypes.util
from functools import cache
from typing import Any

from edgec.runtime.errors import DeviceError

__all__ = ["CudaContext", "cuda_library"]

_NAMES = ("libcuda.so.1", "nvcuda.dll")
_NON_BLOCKING = 1


@cache
def cuda_library() -> Any:
    """NVIDIA's driver library.

    Raises:
        DeviceError: it is not here.
    """
    for name in _NAMES:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise DeviceError("NVIDIA's driver is not here", hint="install it; see `edgec devices`")


class CudaContext:
    """The primary context of one GPU, which IREE's runtime uses, too.

    Attributes:
        ordinal: the GPU's number in this process.
    """

    def __init__(self, ordinal: int, library: Any | None = None) -> None:
        """Hold on to the context.

        Raises:
            DeviceError: the driver is not here, or has no such GPU.
        """
        self.ordinal = ordinal
        self._library = cuda_library() if library is None else library
        self._context = ctypes.c_void_p()
        self._call("cuInit", 0)
        device = ctypes.c_int()
        self._call("cuDeviceGet", ctypes.byref(device), ordinal)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), device)

    def enter(self) -> None:
        """Make it current in this thread.

        Raises:
            DeviceError: the device failed.
        """
        self._call("cuCtxSetCurrent", self._context)

    def stream(self) -> ctypes.c_void_p:
        """A new stream, which waits for no other. In a thread that has entered.

        Raises:
            DeviceError: the device failed.
        """
        made = ctypes.c_void_p()
        self._call("cuStreamCreate", ctypes.byref(made), _NON_BLOCKING)
        return made

    def wait(self, stream: ctypes.c_void_p) -> None:
        """Until all work of a stream is done.

        Raises:
            DeviceError: the work failed.
        """
        self._call("cuStreamSynchronize", stream)

    def zero(self, address: int, size: int, stream: ctypes.c_void_p) -> None:
        """Let a stream write zeros into memory of this device.

        Raises:
            DeviceError: the device failed.
        """
        self._call(
            "cuMemsetD8Async",
            ctypes.c_uint64(address),
            ctypes.c_ubyte(0),
            ctypes.c_size_t(size),
            stream,
        )

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._library, name)(*arguments)
        if status:
            raise DeviceError(
                f"GPU {self.ordinal}: {name} failed with CUDA's error {status}",
                hint="see `edgec devices`",
            )
