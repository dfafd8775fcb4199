"""One step of a sweep in a process of its own: a crash, a hang or too much memory is a result."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import psutil

__all__ = ["RESULT", "ROOT", "Process", "ended", "in_child", "python_path", "watch"]

ROOT = Path(__file__).resolve().parents[2]
RESULT = "result.json"
_LOOK = 0.2  # seconds between two looks at the child
_DEATH = 60.0  # seconds that a killed child may take to be gone


def python_path() -> str:
    """What makes a child import what this process does: the checkout, and what was said beside."""
    return os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])


def in_child(
    module: str,
    *arguments: str,
    folder: Path | str | None = None,
    seconds: float,
    memory: int | None = None,
) -> Any:
    """What `python -m MODULE ARGUMENTS…` left in result.json in its folder.

    Args:
        module: run as a program; it writes result.json into its current folder.
        arguments: what it is given.
        folder: its current folder; an empty one if None.
        seconds: how long it and what it starts may take.
        memory: how many bytes they may hold together; None for no limit.

    Returns:
        The JSON, or `{"error": Timeout | Memory | Crash, "what": …}`.
    """
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryFile() as stderr:
        where = Path(folder or scratch)
        result = where / RESULT
        result.unlink(missing_ok=True)
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=where,
            env={**os.environ, "PYTHONPATH": python_path(), "TF_CPP_MIN_LOG_LEVEL": "3"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            start_new_session=True,
        )
        failure = watch(process, seconds, memory)
        return failure or ended(process.returncode, stderr, result)


class Process(Protocol):
    """A child that leads a process group of its own."""

    pid: int

    def wait(self, timeout: float) -> int:
        """Its exit code.

        Raises:
            subprocess.TimeoutExpired: it did not end in so many seconds.
        """


def watch(process: Process, seconds: float, memory: int | None) -> dict[str, str] | None:
    """Wait for the process, or end it and say why."""
    end = time.monotonic() + seconds
    while True:
        try:
            process.wait(_LOOK)
            return None
        except subprocess.TimeoutExpired:
            pass
        if time.monotonic() > end:
            _end(process)
            return {"error": "Timeout", "what": f"{seconds:.0f} s were not enough"}
        if memory is not None and _held(process.pid) > memory:
            _end(process)
            return {"error": "Memory", "what": f"{memory / 2**30:.0f} GiB were not enough"}


def ended(code: int, stderr: BinaryIO, result: Path) -> Any:
    """What a process left in its file `result`, which goes away, or how it died."""
    if code != 0:
        stderr.seek(0)
        last = stderr.read().decode(errors="replace").strip().splitlines()[-1:]
        died = f"signal {-code}" if code < 0 else (last or ["no message"])[0]
        return {"error": "Crash", "what": f"the process died: {died}"}
    found = json.loads(result.read_text())
    result.unlink()
    return found


def _end(process: Process) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(_DEATH)


def _held(pid: int) -> int:
    """Bytes of memory that a process and its descendants hold."""
    total = 0
    try:
        family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    for member in family:
        try:
            total += member.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total
