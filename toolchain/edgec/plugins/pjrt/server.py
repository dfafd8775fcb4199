"""The process that compiles for the PJRT plugin: programs in by one pipe, modules' paths out.

python -m edgec.plugins.pjrt.server

A message is a count of parts and each part's size and bytes (`runtime/pjrt/compiler.c`). A module
that was made before comes from edgec's cache, which needs none of the compiler's own imports: these
are made for the first program that is new.
"""

import os
import sys
from typing import Any, BinaryIO

from edgec.plugins.pjrt import FUNCTION
from edgec.plugins.pjrt.store import Made, Store
from edgec.runtime.errors import CompileError, CompilerCrash, EdgecError, ProgramError

__all__ = ["main"]

_INVALID_ARGUMENT, _UNIMPLEMENTED, _INTERNAL = 3, 12, 13


def main() -> int:
    """Answer jobs until the input ends."""
    jobs = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whoever prints must not print into answers
    store = Store()
    while (job := _receive(jobs)) is not None:
        _send(answers, _answer(store, job))
    return 0


def _answer(store: Store, job: list[bytes]) -> list[bytes]:
    try:
        driver, program, how = job
        return _module(store.find(driver.decode(), program, apart=how == b"apart"))
    except EdgecError as error:
        return _refusal(error)


def _module(made: Made) -> list[bytes]:
    return [
        b"module",
        os.fsencode(made.path),
        FUNCTION.encode(),
        made.name.encode(),
        made.key.encode(),
        bytes(made.donated),
    ]


def _refusal(error: EdgecError) -> list[bytes]:
    """The error as PJRT has it: a code, and all that edgec says."""
    code = _INTERNAL
    if isinstance(error, CompileError) and not isinstance(error, CompilerCrash):
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
