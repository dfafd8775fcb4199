"""The server of `fork_server`: imports once, then forks a child a job.

python -m edgec.toolchain.forked
"""

import importlib
import json
import os
import select
import signal
import sys
import traceback
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["main"]

_NEEDED = (
    *("iree.compiler.ir", "edgec.runtime.loaded", "edgec.toolchain.check"),
    "edgec.toolchain.isolated",
    "edgec.toolchain.prepare",
)
"""What children import."""


def main() -> int:
    """The server: a line of JSON a job, and a line with its exit code, until the input ends."""
    for name in _NEEDED:
        importlib.import_module(name)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent says what ends
    warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside NumPy's idle threads
    answers = os.dup(1)
    _become(1, os.devnull, os.O_WRONLY)
    os.write(answers, b"ready\n")
    jobs = open(0, "rb", closefd=False)  # noqa: SIM115 - its end is this process's
    while line := jobs.readline():
        job = json.loads(line)
        child = os.fork()
        if not child:
            os.close(answers)
            os._exit(_work(job))
        os.write(answers, f"{_ended(child)}\n".encode())
    return 0


def _work(job: Mapping[str, Any]) -> int:
    code = 0
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.chdir(job["folder"])
        os.environ.clear()
        os.environ.update(job["environment"])
        _become(0, os.devnull, os.O_RDONLY)
        _become(2, job["stderr"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        importlib.import_module(job["module"]).main(*map(Path, job["arguments"]))
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001 - as the interpreter ends
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def _become(number: int, path: str, flags: int) -> None:
    """Let a file's number stand for another file."""
    opened = os.open(path, flags, 0o600)
    os.dup2(opened, number)
    os.close(opened)


def _ended(child: int) -> int:
    """Wait for the child, and kill it if the parent is gone: its pipe ends."""
    watched = os.pidfd_open(child)
    try:
        ready, _, _ = select.select([watched, 0], [], [])
        if watched not in ready:
            os.kill(child, signal.SIGKILL)
    finally:
        os.close(watched)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    sys.exit(main())
