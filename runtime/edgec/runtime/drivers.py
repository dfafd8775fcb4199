"""The drivers that edgec knows, by name.

A driver that is not in this build of the runtime is a driver like the others: it finds nothing,
says why, and refuses to open.
"""

from dataclasses import dataclass
from functools import cache

from edgec.runtime.driver import DeviceStatus, Driver, Opened
from edgec.runtime.edgert_driver import EdgertDriver
from edgec.runtime.errors import DeviceMissing
from edgec.runtime.iree_drivers import LOCAL, GpuDriver, LocalDriver, is_built
from edgec.runtime.native import iree_runtime

__all__ = ["DRIVERS", "find_driver"]

DRIVERS = ("edgert", "local-task", "local-sync", "vulkan", "cuda", "hip", "metal")
"""The names, in the order they are listed; each stands for a kind of device."""


@dataclass(frozen=True, kw_only=True)
class AbsentDriver:
    """A driver that this build of the runtime has not."""

    name: str
    reason: str
    hint: str

    def probe(self) -> tuple[DeviceStatus, ...]:
        """That it is absent."""
        return (
            DeviceStatus(
                uri=self.name,
                driver=self.name,
                name="",
                usable=False,
                reason=self.reason,
                hint=self.hint,
            ),
        )

    def open(self, uri: str, path: str, threads: int | None) -> Opened:
        """Refuse."""
        raise DeviceMissing(f"{uri} is not here: {self.reason}", hint=self.hint)


@cache
def find_driver(name: str) -> Driver:
    """The driver of this name; an unknown name gives a driver that refuses."""
    if name not in DRIVERS:
        return AbsentDriver(
            name=name,
            reason="edgec knows no such driver",
            hint=f"use cpu or one of {', '.join(DRIVERS)}, as in vulkan or vulkan://1",
        )
    if name == "edgert":
        return EdgertDriver()
    if not iree_runtime():
        return AbsentDriver(
            name=name,
            reason="it needs IREE's runtime, which is not installed",
            hint="pip install edgec, or iree-base-runtime alone",
        )
    if name in LOCAL:
        return LocalDriver(name=name)
    if is_built(name):
        return GpuDriver(name=name)
    return AbsentDriver(
        name=name,
        reason=f"the {name} driver is not in this build of the runtime",
        hint=_ELSEWHERE.get(name, "pip install iree-base-runtime from another source"),
    )


_ELSEWHERE = {"metal": "run on macOS: iree-base-runtime has the driver there"}
