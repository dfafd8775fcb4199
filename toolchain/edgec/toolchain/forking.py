"""Work in a fork of this very process, which has imported what the work needs (Linux only).

Sooner than a new process by all the imports. A fork has this thread alone, so what another thread
holds stays held there: only a process with one thread of Python's is forked, and who calls this
does the work again in a process of its own where a fork dies.
"""

import os
import select
import signal
import subprocess
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

__all__ = ["Answer", "answers_forked", "everything_forked", "run"]

Answer = Callable[[Path, Path], object]
"""A request and where its reply belongs (`edgec.toolchain.isolated.main`)."""

_BEGIN_SECONDS = 60.0
_ALL: ContextVar[Answer | None] = ContextVar("_ALL", default=None)


def run(
    work: Callable[[], object],
    *,
    stderr: Path,
    begin: Callable[[], object] | None = None,
    timeout: float | None = None,
) -> int | None:
    """Do some work in a fork, whose standard error goes into a file.

    Args:
        work: ends the fork with 0, or with 1 where it raises.
        stderr: a file, to be written behind what is there.
        begin: what the fork does first, an import above all; it may take a minute.
        timeout: seconds of the work.

    Returns:
        The exit code, negative for a signal; None where this process cannot be forked, or the fork
        did not come to the work.

    Raises:
        subprocess.TimeoutExpired: it took longer, and was killed.
    """
    if not hasattr(os, "pidfd_open") or threading.active_count() > 1:
        return None
    begun, tell = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads that libraries keep, which do not matter here
        child = os.fork()
    if not child:
        os.close(begun)
        os._exit(_done(work, begin, tell, stderr))
    os.close(tell)
    watched = os.pidfd_open(child)
    try:
        if not _comes(begun, _BEGIN_SECONDS) or not os.read(begun, 1):
            return None
        if not _comes(watched, timeout):
            raise subprocess.TimeoutExpired("a fork", timeout or 0.0)
    finally:
        if not _comes(watched, 0.0):
            os.kill(child, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os.close(watched)
        os.close(begun)
    return code


@contextmanager
def everything_forked(answer: Answer) -> Iterator[None]:
    """Within, tasks of `isolate` run in forks of this process, and no server is started for them.

    For a process that is itself a fork of one that has imported everything.

    Args:
        answer: does what a child would be asked to.
    """
    token = _ALL.set(answer)
    try:
        yield
    finally:
        _ALL.reset(token)


def answers_forked() -> Answer | None:
    """What `everything_forked` was given; None outside of it."""
    return _ALL.get()


def _comes(file: int, seconds: float | None) -> bool:
    return bool(select.select([file], [], [], seconds)[0])


def _done(
    work: Callable[[], object], begin: Callable[[], object] | None, tell: int, stderr: Path
) -> int:
    """Be the fork; its exit code."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        for number, path, flags in (
            (0, os.devnull, os.O_RDONLY),
            (1, os.devnull, os.O_WRONLY),
            (2, str(stderr), os.O_WRONLY | os.O_CREAT | os.O_APPEND),
        ):
            opened = os.open(path, flags, 0o600)
            os.dup2(opened, number)
            os.close(opened)
        if begin is not None:
            begin()
        os.write(tell, b".")
        work()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001 - as the interpreter ends
        os.write(2, traceback.format_exc().encode())
        return 1
    return 0
