"""Work that would have a process of its own, in this one: for a process that is itself a child.

Whoever is started to compile, and may die of it (`edgec.plugins.pjrt.server`), saves what starting
three more costs: half of a small program's time.
"""

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

__all__ = ["Answer", "Ended", "answers_here", "compiled_here", "working_here"]

Answer = Callable[[str, Mapping[str, Any]], Any]
"""A task's name and arguments to its result (`edgec.toolchain.isolated.answered`)."""
_HERE: ContextVar[Answer | None] = ContextVar("_HERE", default=None)


class Ended:
    """How the compiler ended: its exit status, what it printed, and seconds."""

    def __init__(self, *, code: int, stderr: str, seconds: float) -> None:
        self.code = code
        self.stderr = stderr
        self.seconds = seconds


@contextmanager
def working_here(answer: Answer) -> Iterator[None]:
    """Within, steps of a compile start no processes: whatever dies of them is this one.

    Args:
        answer: does what a child would be asked to.
    """
    token = _HERE.set(answer)
    try:
        yield
    finally:
        _HERE.reset(token)


def answers_here() -> Answer | None:
    """What `working_here` was given; None outside of it."""
    return _HERE.get()


def compiled_here(command: Sequence[str]) -> Ended | None:
    """Run a command line of the compiler by its library.

    Returns:
        How it ended; None where the library does not know one of the flags.
    """
    from iree.compiler.api import Invocation, Output, Session, Source

    _, source, _, output, *flags = command
    start = time.monotonic()
    session = Session()
    try:
        session.set_flags(*flags)
    except ValueError:
        session.close()
        return None
    session.context.enable_multithreading(False)
    with tempfile.TemporaryFile() as said:
        with _stderr_in(said.fileno()):
            invocation: Invocation = session.invocation()
            invocation.enable_console_diagnostics()
            done = invocation.parse_source(Source.open_file(session, source))
            done = done and invocation.execute()
            if done:
                file = Output.open_file(output)
                invocation.output_vm_bytecode(file)
                file.keep()
                file.close()
            invocation.close()
            session.close()
        said.seek(0)
        printed = said.read().decode(errors="replace")
    if not done:
        Path(output).unlink(missing_ok=True)
    return Ended(code=0 if done else 1, stderr=printed, seconds=time.monotonic() - start)


@contextmanager
def _stderr_in(file: int) -> Iterator[None]:
    """Let what native code prints go into a file."""
    before = os.dup(2)
    os.dup2(file, 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
