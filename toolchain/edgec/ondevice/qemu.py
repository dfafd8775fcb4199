"""Another machine's programs on this one, by qemu: for trying things out, and for tests.

The same path as with a real device, with a folder of this machine for the device's. Times say
little here, and the peak of memory is that of the emulator. `QEMU_CPU` names a processor.
"""

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from edgec.ondevice.machines import MACHINES, by_emulator
from edgec.ondevice.processes import find_program, run_here
from edgec.ondevice.scripted import Scripted
from edgec.ondevice.scripts import read_end
from edgec.ondevice.transport import Answer, Facts
from edgec.runtime.errors import DeviceError, DeviceMissing, UsageError

__all__ = ["Qemu"]


class Qemu(Scripted):
    """An emulated machine: `aarch64`, `armv7`, `riscv64` or `x86_64`.

    Args:
        machine: its name.
        seconds: how long a program may run there; for ever without.

    Raises:
        DeviceMissing: qemu for it is not here.
        UsageError: there is no machine of that name.
    """

    def __init__(self, machine: str, *, seconds: float | None = None) -> None:
        found = by_emulator(machine)
        if found is None:
            known = ", ".join(m.emulator.removeprefix("qemu-") for m in MACHINES)
            raise UsageError(f"qemu:{machine} is no machine", hint=f"there are {known}")
        self._machine = found
        self.name = f"qemu:{machine}"
        emulator = find_program(
            found.emulator, hint="install qemu's user mode (apt install qemu-user)"
        )
        ending = () if seconds is None else ("timeout", f"{seconds:.0f}")
        self.launcher: tuple[str, ...] = (*ending, emulator)

    def facts(self) -> Facts:
        """What is emulated."""
        return Facts(model=f"{self._machine.emulator} on this machine", machines=(self._machine,))

    def open(self) -> None:
        """Make the folder."""
        try:
            self.folder = tempfile.mkdtemp(prefix="edgec-on-")
        except OSError as error:
            raise DeviceMissing(
                f"{self.name} cannot make a folder in {tempfile.gettempdir()}: {error.strerror}",
                hint="set TMPDIR to a folder that can be written to",
            ) from error

    def push(self, files: Mapping[str, Path]) -> None:
        """Copy files into the folder."""
        for name, file in files.items():
            self._copy(file, Path(self.folder, name), f"taking {file.name}")

    def pull(self, name: str, to: Path) -> None:
        """Copy a file out of the folder."""
        self._copy(Path(self.folder, name), to, f"giving back {name}")

    def _ran(self, script: str, doing: str, seconds: float | None) -> Answer:
        """A script that came to its end."""
        ended = read_end(run_here(["sh", "-c", script], seconds=seconds))
        if ended is None:
            raise DeviceError(f"{self.name} went away while it was {doing}")
        return ended

    def _copy(self, source: Path, to: Path, doing: str) -> None:
        try:
            shutil.copyfile(source, to)
        except OSError as error:
            raise DeviceError(
                f"{self.name} failed while it was {doing}: {error.strerror or error}",
                hint="see the space and the rights in the folder for temporary files (TMPDIR)",
            ) from error
