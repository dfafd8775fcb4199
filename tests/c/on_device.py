"""Modules on a GPU's driver: opened, without their archive, and with a byte of them changed."""

from collections.abc import Sequence
from pathlib import Path

from edgec.runtime.edgert import EdgertDevice, EdgertModule, EdgertSession
from edgec.runtime.errors import DeviceError, ModuleError, ModuleMismatch

__all__ = ["bare", "opened", "refusals"]


def opened(device: EdgertDevice, source: Path | bytes, **limits: int) -> EdgertSession:
    """A session of a module on a device."""
    return EdgertSession(EdgertModule(source, library=device.library), device, **limits)


def bare(path: Path) -> bytes:
    """A module without the archive around it, whose checksum it would have to fit."""
    data = path.read_bytes()
    name, extra = int.from_bytes(data[26:28], "little"), int.from_bytes(data[28:30], "little")
    assert (30 + name + extra) % 64 == 0
    return data[30 + name + extra :]


def refusals(device: EdgertDevice, data: bytes, places: Sequence[int]) -> int:
    """How often a module is refused that has another byte at a place; each place gets two."""
    refused = 0
    for at in places:
        for value in (0xFF, data[at] ^ 0x40):
            changed = data[:at] + bytes([value]) + data[at + 1 :]
            try:
                opened(device, changed).close()
            except (ModuleError, ModuleMismatch, DeviceError):
                refused += 1
    return refused
