"""The name of a device to the way there: `adb:SERIAL`, `ssh:HOST`, `qemu:MACHINE`."""

from collections.abc import Callable, Mapping

from edgec.ondevice.adb import Adb
from edgec.ondevice.qemu import Qemu
from edgec.ondevice.ssh import Ssh
from edgec.ondevice.transport import Transport
from edgec.runtime.errors import UsageError

__all__ = ["WAYS", "connect"]

WAYS: Mapping[str, Callable[[str], Transport]] = {"adb": Adb, "ssh": Ssh, "qemu": Qemu}
"""What stands before the colon, to what takes the rest."""


def connect(name: str) -> Transport:
    """The way to a device.

    Raises:
        UsageError: the name makes no sense, or leaves open which device is meant.
        DeviceMissing: the device, or the program that reaches it, is not here.
    """
    way, _, rest = name.partition(":")
    if way not in WAYS:
        raise UsageError(
            f"--on={name} names no device", hint="write adb:SERIAL, adb:, ssh:HOST or qemu:aarch64"
        )
    return WAYS[way](rest)
