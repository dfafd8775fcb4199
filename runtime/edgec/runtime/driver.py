"""What a driver is: it finds devices of one kind, says what is wrong with them, and opens them."""

from dataclasses import dataclass
from typing import Any, Protocol

from edgec.runtime.backend import Backend

__all__ = ["DeviceStatus", "Driver", "Opened"]


@dataclass(frozen=True, kw_only=True)
class DeviceStatus:
    """One device, or one driver without a device: whether it can be used, and if not, why.

    Attributes:
        uri: what `Device.open` takes.
        driver: the HAL driver.
        name: what the driver calls the device; empty where there is none.
        usable: whether it was opened.
        runtime: the runtime that drives it, with its version; empty where it is not known.
        reason: why it is not usable, as one sentence.
        hint: the command or step that mends it.
    """

    uri: str
    driver: str
    name: str
    usable: bool
    runtime: str = ""
    reason: str = ""
    hint: str = ""

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {
            "uri": self.uri,
            "driver": self.driver,
            "name": self.name,
            "usable": self.usable,
            "runtime": self.runtime,
            "reason": self.reason,
            "hint": self.hint,
        }


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A device that a driver opened.

    Attributes:
        backend: the runtime behind it.
        name: what the driver calls it.
        runtime: the runtime behind it and its version.
        native_uri: its URI for IREE's own tools; empty where they do not know it.
        native_flags: the flags with which IREE's own tools treat it as edgec does.
        runs: the driver that modules for it name; empty: the one that opened it.
        identity: of device and driver version, where the runtime tells; what was found out on one
            says nothing of another.
    """

    backend: Backend
    name: str
    runtime: str
    native_uri: str = ""
    native_flags: tuple[str, ...] = ()
    runs: str = ""
    identity: str = ""


class Driver(Protocol):
    """What finds and opens devices of one kind."""

    def probe(self) -> tuple[DeviceStatus, ...]:
        """What is here; never raises for a device that is missing or broken."""
        ...

    def open(self, uri: str, path: str, threads: int | None) -> Opened:
        """The device.

        Raises:
            DeviceMissing: there is no such device.
            DeviceError: it is there and does not open.
        """
        ...
