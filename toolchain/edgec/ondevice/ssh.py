"""A machine at the other end of `ssh`: a board, a server, a phone with a terminal.

Files go through `cat`, not `scp`: boards with a small ssh server often have nothing else.
"""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from edgec.ondevice.machines import by_kernel
from edgec.ondevice.processes import find_program, run_here
from edgec.ondevice.scripted import SECONDS, Scripted
from edgec.ondevice.scripts import (
    folder_script,
    read_end,
    to_its_end,
)
from edgec.ondevice.transport import Answer, Facts
from edgec.runtime.errors import DeviceError, DeviceMissing, UsageError

__all__ = ["Ssh"]

_OPTIONS = (
    *("-o", "BatchMode=yes", "-o", "ConnectTimeout=15"),
    # A machine that was switched off is noticed within a minute.
    *("-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=4"),
)
# What ssh says, and what a person can do about it.
_REFUSALS = {
    "Permission denied": "let ssh in without a password: `ssh-copy-id {host}`",
    "Host key verification failed": "run `ssh {host}` once, and look at its key",
    "Could not resolve": "see how the host is spelled, or give it a name in ~/.ssh/config",
    "Connection refused": "start an ssh server on it, or name its port in ~/.ssh/config",
}
_FACTS = "uname -s; uname -m; uname -n"


class Ssh(Scripted):
    """One machine, by the name that `ssh` takes: `HOST` or `USER@HOST`.

    Raises:
        DeviceMissing: there is no ssh here.
        UsageError: that is no name of a host.
    """

    def __init__(self, host: str) -> None:
        if not host or host.startswith("-") or any(letter.isspace() for letter in host):
            raise UsageError(f"ssh:{host} names no host", hint="write ssh:HOST or ssh:USER@HOST")
        self._ssh = find_program("ssh", hint="install an ssh client (apt install openssh-client)")
        self._host = host
        self.name = f"ssh:{host}"
        self.launcher: tuple[str, ...] = ()

    def facts(self) -> Facts:
        """Ask the machine what it is."""
        answer = run_here([*self._words, "sh"], given=to_its_end(_FACTS), seconds=SECONDS)
        ended = read_end(answer)
        if ended is None:
            self._refused(answer)
        system, kernel, node = (*ended.out.split(), "", "", "")[:3]
        machine = by_kernel(kernel)
        if system != "Linux" or machine is None:
            raise DeviceMissing(
                f"{self.name} is {system or 'a system'} on {kernel or 'another machine'}",
                hint="edgert is built here for Linux on Arm, RISC-V and x86-64",
            )
        return Facts(model=f"{node}, {system} on {kernel}", machines=(machine,))

    def open(self) -> None:
        """Make the folder."""
        answer = self._ran(folder_script("${TMPDIR:-/tmp}"), "making a folder", SECONDS)
        if answer.code != 0:
            self._fail(answer, "making a folder")
        self.folder = answer.out.strip()

    def push(self, files: Mapping[str, Path]) -> None:
        """Copy files into the folder."""
        for name, file in files.items():
            answer = run_here([*self._words, f"cat > {self._path(name)}"], given=file)
            if answer.code != 0:
                self._fail(answer, f"taking {file.name}")

    def pull(self, name: str, to: Path) -> None:
        """Copy a file to this machine."""
        answer = run_here([*self._words, f"cat {self._path(name)}"], into=to)
        if answer.code != 0:
            self._fail(answer, f"giving back {name}")

    def _path(self, name: str) -> str:
        return shlex.quote(f"{self.folder}/{name}")

    @property
    def _words(self) -> tuple[str, ...]:
        return (self._ssh, *_OPTIONS, self._host)

    def _ran(self, script: str, doing: str, seconds: float | None) -> Answer:
        """A script that came to its end. `sh` reads it, whatever the user's own shell is."""
        answer = run_here([*self._words, "sh"], given=script, seconds=seconds)
        ended = read_end(answer)
        if ended is None:
            self._fail(answer, doing)
        return ended

    def _refused(self, answer: Answer) -> NoReturn:
        hints = (
            hint.format(host=self._host) for word, hint in _REFUSALS.items() if word in answer.err
        )
        lines = answer.err.strip().splitlines()
        raise DeviceMissing(
            f"ssh does not get to {self._host}: {lines[-1].strip() if lines else 'no word'}",
            hint=next(hints, f"see that `ssh {self._host}` works"),
        )

    def _fail(self, answer: Answer, doing: str) -> NoReturn:
        if "No space left" in answer.said:
            raise DeviceError(
                f"{self.name} ran out of space while it was {doing}",
                hint="free some in its /tmp, or set TMPDIR there",
            )
        lines = answer.err.strip().splitlines()
        if answer.code == 255 or not lines:
            raise DeviceError(
                f"{self.name} went away while it was {doing}",
                hint=f"see that `ssh {self._host}` works, and try again",
            )
        raise DeviceError(f"{self.name} failed while it was {doing}: {lines[-1].strip()}")
