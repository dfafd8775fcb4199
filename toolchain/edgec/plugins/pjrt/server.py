"""The process that compiles for the PJRT plugin: programs in by one pipe, modules' paths out.

python -m edgec.plugins.pjrt.server

A message is a count of parts and each part's size and bytes (`runtime/pjrt/compiler.c`). A module
that was made before comes from edgec's cache, which needs none of the compiler's own imports: these
are made for the first program that is new.
"""

import os
import sys
from array import array
from typing import Any, BinaryIO

from edgec.plugins.pjrt import FUNCTION
from edgec.plugins.pjrt.spread import Spread, is_spread
from edgec.plugins.pjrt.store import Made, Store
from edgec.runtime.errors import (
    CompileError,
    CompilerCrash,
    EdgecError,
    ExportError,
    ProgramError,
)
from edgec.toolchain.cache import key_of

__all__ = ["main"]

_INVALID_ARGUMENT, _UNIMPLEMENTED, _INTERNAL = 3, 12, 13


def main() -> int:
    """Answer jobs until the input ends."""
    jobs = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whoever prints must not print into answers
    server = _Server()
    while (job := _receive(jobs)) is not None:
        _send(answers, server.answer(job))
    return 0


class _Server:
    """What jobs are answered from."""

    def __init__(self) -> None:
        self._store = Store()
        self._elsewhere: Any = None

    def answer(self, job: list[bytes]) -> list[bytes]:
        """What becomes of a job: a program to compile, or one to run on XLA's CPU."""
        what, *rest = job
        if what == b"run":
            return self._run(*rest)
        device, program, how, refused, count = rest
        devices = int(count)
        try:
            return self._made(device.decode(), program, devices, apart=how == b"apart")
        except EdgecError as error:
            taken = refused == b"xla" and devices == 1 and self._take(program, error)
            return taken or _refusal(error)

    def _made(self, device: str, program: bytes, devices: int, *, apart: bool) -> list[bytes]:
        if not is_spread(program, devices):
            return _module(self._store.find(device, program, apart=apart))
        made = self._store.find_spread(device, program, devices, apart=apart)
        if made.spread is None:
            raise ProgramError(f"edgec's cache holds another program than {made.name}")
        return _spread(made, made.spread)

    def _take(self, program: bytes, refusal: EdgecError) -> list[bytes]:
        """Give a refused program to XLA, and say so; nothing where XLA refuses it, too."""
        from edgec.plugins.pjrt.elsewhere import Elsewhere

        self._elsewhere = self._elsewhere or Elsewhere()
        try:
            taken = self._elsewhere.take(program)
        except (RuntimeError, ValueError, EdgecError):
            return []
        where = f" (at {refusal.where})" if refusal.where else ""
        print(
            f"edgec: XLA's CPU runs {taken.name}, since {refusal.what}{where}",
            file=sys.stderr,
            flush=True,
        )
        return [
            b"elsewhere",
            str(taken.handle).encode(),
            array("q", taken.outputs).tobytes(),
            taken.name.encode(),
            key_of("elsewhere", program).encode(),
            bytes(taken.donated),
        ]

    def _run(self, handle: bytes, *inputs: bytes) -> list[bytes]:
        try:
            return [b"results", *self._elsewhere.call(int(handle), inputs)]
        except (AttributeError, IndexError):
            what = "the process that held this program of XLA's has ended"
            return [b"refused", str(_INTERNAL).encode(), what.encode()]
        except RuntimeError as error:
            return [b"refused", str(_INTERNAL).encode(), str(error).encode()]


def _module(made: Made) -> list[bytes]:
    return [
        b"module",
        os.fsencode(made.path),
        FUNCTION.encode(),
        made.name.encode(),
        made.key.encode(),
        bytes(made.donated),
        b"",
        array("q", made.outputs).tobytes(),
        array("q", made.costs).tobytes(),
    ]


def _spread(made: Made, told: Spread) -> list[bytes]:
    return [
        b"spread",
        os.fsencode(made.path) if told.functions else b"",
        "\n".join(told.functions).encode(),
        made.name.encode(),
        made.key.encode(),
        bytes(made.donated),
        array("q", told.route).tobytes(),
        array("q", told.arrays).tobytes(),
        array("q", made.costs).tobytes(),
        b"".join(len(each).to_bytes(8, sys.byteorder) + each for each in told.shardings),
        told.shown,
    ]


def _refusal(error: EdgecError) -> list[bytes]:
    """The error as PJRT has it: a code, and all that edgec says."""
    code = _INTERNAL
    if isinstance(error, CompileError | ExportError) and not isinstance(error, CompilerCrash):
        code = _UNIMPLEMENTED
    elif isinstance(error, ProgramError):
        code = _INVALID_ARGUMENT
    lines = [f"edgec: {error.what}"]
    if error.where:
        lines.append(f"  at {error.where}")
    if error.hint:
        lines.append(f"  hint: {error.hint}")
    if error.log:
        lines.append(f"  log: {error.log}")
    return [b"refused", str(code).encode(), "\n".join(lines).encode()]


def _receive(stream: BinaryIO) -> list[bytes] | None:
    """The next message; None where the input has ended."""
    head = stream.read(8)
    if len(head) < 8:
        return None
    parts = []
    for _ in range(int.from_bytes(head, sys.byteorder)):
        size = int.from_bytes(stream.read(8), sys.byteorder)
        parts.append(stream.read(size))
    return parts


def _send(stream: Any, parts: list[bytes]) -> None:
    stream.write(len(parts).to_bytes(8, sys.byteorder))
    for part in parts:
        stream.write(len(part).to_bytes(8, sys.byteorder))
        stream.write(part)
    stream.flush()


if __name__ == "__main__":
    sys.exit(main())
