"""edgert's devices, and what they tell of each kernel that ran."""

import ctypes
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgec.runtime.edgert.handle import Handle
from edgec.runtime.edgert.native import TIMED, DeviceOptions, Error, Timing, open_library
from edgec.runtime.errors import DeviceMissing

__all__ = ["EdgertDevice", "Ran", "device_names"]


@dataclass(frozen=True, kw_only=True)
class Ran:
    """A kernel that has run once, or what moved bytes between kernels.

    Attributes:
        kernel: its name in the module; `copy`, `fill` or `update` for moves.
        where: `file:line` in the model's source, if the module knows.
        seconds: on the clock, all threads together.
        idle: seconds of a GPU before it, since what it ran last in the same commands.
    """

    kernel: str
    where: str | None
    seconds: float
    idle: float = 0.0


class EdgertDevice(Handle):
    """A device of edgert: `cpu`, `vulkan`, `cuda`, or `null`, which computes nothing.

    Attributes:
        driver: its driver's name.
    """

    _release = "device_release"

    def __init__(
        self,
        driver: str = "cpu",
        *,
        threads: int = 0,
        index: int = 0,
        cache_file: Path | str | None = None,
        unwritten: int = 0,
        timed: Callable[[Ran], None] | None = None,
        library: Any = None,
    ) -> None:
        """Open a device.

        Args:
            driver: its name.
            threads: that compute, with the caller's; 0 is one for each processor.
            index: which of the driver's devices, in the order of `device_names`.
            cache_file: where a driver that compiles kernels keeps them for the next time.
            unwritten: the byte in memory that a program has not written yet, on CPUs.
            timed: told of each kernel that has run; they then run one after the other.
            library: from `open_library`; without it the one that it finds.

        Raises:
            DeviceMissing: there is no such driver, no such device, or no library.
        """
        super().__init__(library or open_library(), None)
        self.driver = driver
        options = DeviceOptions(
            size=ctypes.sizeof(DeviceOptions),
            threads=threads,
            index=index,
            unwritten=unwritten,
            cache_file=None if cache_file is None else os.fsencode(cache_file),
        )
        if timed is not None:
            self._timed = options.timed = TIMED(lambda _, timing: timed(_ran(timing.contents)))
        out, error = ctypes.c_void_p(), Error()
        status = self.library.device_create(
            driver.encode(), ctypes.byref(options), ctypes.byref(out), ctypes.byref(error)
        )
        self.library.check(status, error, DeviceMissing)
        self.pointer = out.value

    @property
    def name(self) -> str:
        """What the device calls itself, or its driver's name."""
        return str(self.library.device_name(self.pointer).decode(errors="replace"))

    @property
    def identity(self) -> int:
        """A number for the device, its driver's version and its features."""
        return int(self.library.device_identity(self.pointer))

    @property
    def maps_memory(self) -> bool:
        """Whether it computes in the host's memory."""
        return self.driver not in ("vulkan", "cuda")


def device_names(driver: str, *, library: Any = None) -> tuple[str, ...]:
    """The names of a driver's devices, in order; none where the system has nothing for it.

    It may load foreign code into this process.
    """
    library = library or open_library()
    names: list[str] = []
    name, error = ctypes.create_string_buffer(256), Error()
    while not library.driver_device(driver.encode(), len(names), name, len(name), error):
        names.append(name.value.decode(errors="replace"))
    return tuple(names)


def _ran(timing: Timing) -> Ran:
    place = None
    if timing.file and timing.line:
        file = ctypes.string_at(timing.file, timing.file_size).decode(errors="replace")
        place = f"{file}:{timing.line}"
    return Ran(
        kernel=timing.kernel.decode(errors="replace"),
        where=place,
        seconds=timing.nanoseconds * 1e-9,
        idle=timing.idle_nanoseconds * 1e-9,
    )
