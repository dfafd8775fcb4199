"""What every way to a device can do: say what it is, take files, run a script, give files back.

A transport has a folder of its own on the device, from `open` to `close`. Scripts run in it, by the
device's `sh`; files are named by their plain names in it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from edgec.ondevice.machines import Machine

__all__ = ["Answer", "Facts", "Transport"]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a command gave: its exit code, and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        """Both streams; some devices mix them into one."""
        return f"{self.out}\n{self.err}"


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a device is.

    Attributes:
        model: what its maker calls it, for people.
        machines: those whose programs it runs, its own first; never empty.
    """

    model: str
    machines: tuple[Machine, ...]


class Transport(Protocol):
    """A way to one device.

    Every method raises `DeviceError` where the device went away or has no space left, and
    `DeviceMissing` where it cannot be used at all; the message names the device.

    Attributes:
        name: how messages and results call it (`adb:0123456789`).
        folder: its folder on the device; empty before `open`.
        launcher: words before a program's name (an emulator), mostly none.
    """

    name: str
    folder: str
    launcher: tuple[str, ...]

    def facts(self) -> Facts:
        """Ask the device what it is."""

    def open(self) -> None:
        """Make the folder."""

    def push(self, files: Mapping[str, Path]) -> None:
        """Copy files of this machine into the folder: name there → file here."""

    def shell(self, script: str) -> Answer:
        """Run a script in the folder and wait for its end."""

    def pull(self, name: str, to: Path) -> None:
        """Copy a file of the folder to this machine."""

    def close(self) -> bool:
        """End what still runs in the folder and remove it; False where that cannot be known."""
