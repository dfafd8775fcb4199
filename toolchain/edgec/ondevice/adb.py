"""A device at the other end of `adb`: a phone, a board with Android, an emulator."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from edgec.ondevice.machines import by_android, by_kernel
from edgec.ondevice.processes import find_program, run_here
from edgec.ondevice.scripted import SECONDS, Scripted
from edgec.ondevice.scripts import (
    folder_script,
    read_end,
    to_its_end,
)
from edgec.ondevice.transport import Answer, Facts
from edgec.runtime.errors import DeviceError, DeviceMissing, UsageError

__all__ = ["Adb"]

_PARENT = "/data/local/tmp"
"""Where the shell's user may write and run programs."""

_INSTALL = "install Android's platform tools (apt install adb), and put adb on the PATH"
_FACTS = (
    "uname -m; getprop ro.product.cpu.abilist; "
    "getprop ro.product.manufacturer; getprop ro.product.model"
)
# What each state but `device` asks of a person; beginnings, as adb writes them.
_STATES = {
    "unauthorized": "unlock it, and allow USB debugging from this computer",
    "authorizing": "unlock it, and allow USB debugging from this computer",
    "offline": "unplug it and plug it in again, or run `adb reconnect`",
    "no permissions": "let your user open USB devices (a udev rule), then `adb kill-server`",
    "recovery": "start it into its system",
    "bootloader": "start it into its system",
    "sideload": "start it into its system",
}
_GONE = re.compile(
    r"device( '.*')? not found|offline|no devices|closed|protocol fault|still connecting"
)


class Adb(Scripted):
    """One device, found by its serial number, or the only one.

    Args:
        serial: as `adb devices` lists it; empty for the only device.

    Raises:
        DeviceMissing: there is no adb, no such device, or it lets nobody in.
        UsageError: no serial number, and several devices.
    """

    def __init__(self, serial: str) -> None:
        self._adb = find_program("adb", hint=_INSTALL)
        self._serial = self._choose(serial)
        self.name = f"adb:{self._serial}"
        self.launcher: tuple[str, ...] = ()

    def facts(self) -> Facts:
        """Ask the device what it is."""
        answer = self._ran(to_its_end(_FACTS), "saying what it is", SECONDS)
        lines = [line.strip() for line in answer.out.splitlines()]
        kernel, abis, maker, model = (*lines, "", "", "", "")[:4]
        own = by_kernel(kernel)
        machines = by_android(abis) or ((own,) if own is not None else ())
        if not machines:
            raise DeviceMissing(
                f"{self.name} is a machine that edgert is not built for: {abis or kernel}"
            )
        return Facts(model=f"{maker} {model}".strip() or self.name, machines=machines)

    def open(self) -> None:
        """Make the folder."""
        answer = self._ran(folder_script(_PARENT), "making a folder", SECONDS)
        if answer.code != 0:
            self._fail(answer, f"making a folder in {_PARENT}")
        self.folder = answer.out.strip()

    def push(self, files: Mapping[str, Path]) -> None:
        """Copy files into the folder."""
        for name, file in files.items():
            answer = self._call(["push", str(file), f"{self.folder}/{name}"])
            if answer.code != 0:
                self._fail(answer, f"taking {file.name}")

    def pull(self, name: str, to: Path) -> None:
        """Copy a file to this machine."""
        answer = self._call(["pull", f"{self.folder}/{name}", str(to)])
        if answer.code != 0:
            self._fail(answer, f"giving back {name}")

    def _choose(self, serial: str) -> str:
        """The serial number of the device that is meant, if it can be used."""
        answer = run_here([self._adb, "devices"], seconds=SECONDS)
        if answer.code != 0:
            raise DeviceMissing(
                f"adb does not work here: {_last_line(answer.said)}", hint="try `adb kill-server`"
            )
        _, _, listing = answer.out.partition("List of devices attached")
        pairs = (line.split(None, 1) for line in listing.splitlines() if line.strip())
        states = {pair[0]: pair[1].strip() if len(pair) > 1 else "" for pair in pairs}
        if not serial and len(states) > 1:
            raise UsageError(
                f"there are several devices: {', '.join(states)}",
                hint=f"name one, as in --on=adb:{next(iter(states))}",
            )
        chosen = serial or next(iter(states), "")
        if chosen not in states:
            what = f"device {serial}" if serial else "device"
            known = f"; adb knows {', '.join(states)}" if states else ""
            raise DeviceMissing(
                f"adb knows no {what} here{known}",
                hint="plug it in, switch USB debugging on, and see `adb devices`",
            )
        state = states[chosen]
        if state != "device":
            hints = (hint for begin, hint in _STATES.items() if state.startswith(begin))
            raise DeviceMissing(
                f"adb:{chosen} cannot be used: it is {state.split(';')[0]}",
                hint=next(hints, "see `adb devices`"),
            )
        return chosen

    def _ran(self, script: str, doing: str, seconds: float | None) -> Answer:
        """A script that came to its end."""
        answer = self._call(["shell", script], seconds)
        ended = read_end(answer)
        if ended is None:
            self._fail(answer, doing, is_cut=True)
        return ended

    def _call(self, words: Sequence[str], seconds: float | None = None) -> Answer:
        return run_here([self._adb, "-s", self._serial, *words], seconds=seconds)

    def _fail(self, answer: Answer, doing: str, *, is_cut: bool = False) -> NoReturn:
        """Turn adb's complaint into an error; `is_cut` if a script did not come to its end."""
        said = answer.said
        if "No space left" in said:
            raise DeviceError(
                f"{self.name} ran out of space while it was {doing}",
                hint=f"free some of {_PARENT} on it",
            )
        if "unauthorized" in said:
            raise DeviceMissing(f"{self.name} is unauthorized", hint=_STATES["unauthorized"])
        if is_cut or not said.strip() or _GONE.search(said):
            raise DeviceError(
                f"{self.name} went away while it was {doing}",
                hint="see its cable and `adb devices`, and try again",
            )
        raise DeviceError(f"{self.name} failed while it was {doing}: {_last_line(said)}")


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1].removeprefix("adb: error: ").removeprefix("error: ") if lines else "no word"
