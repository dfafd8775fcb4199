"""Children forked from one process that has imported what they need (Linux only).

A compile has three children, each of which would spend half a second of a core on imports. The
server imports once, forks a child a job, and ends when its parent does; it touches no file of the
user's itself, so what dies is a child. One job at a time.
The server itself is `edgec.toolchain.forked`: an interpreter of its own, or for a process that has
imported everything and holds nothing yet a fork of that (`fork`).
"""

import atexit
import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

__all__ = ["fork", "run"]

_START_SECONDS = 60.0
_PYTHON = sys.executable
# What counts at the start of a process only, so that a change of it asks for another server.
_AT_START = ("PYTHON", "LD_", "OPENBLAS_", "OMP_", "MKL_")


def run(
    request: Path,
    reply: Path,
    *,
    stderr: Path,
    timeout: float,
    module: str = "edgec.toolchain.isolated",
) -> int | None:
    """Run `main(request, reply)` of a module in a forked child.

    Returns:
        Its exit code, negative for a signal; None where there is no server (another system, or
        another thread's job is at work), so that the caller starts a process of its own.

    Raises:
        subprocess.TimeoutExpired: it took longer than `timeout` seconds, and was killed.
    """
    if not hasattr(os, "pidfd_open") or sys.executable != _PYTHON:
        return None
    if not _lock.acquire(blocking=False):
        return None
    try:
        server = _current()
        return None if server is None else server.job(module, request, reply, stderr, timeout)
    finally:
        _lock.release()


def fork(serve: Callable[[], int]) -> None:
    """Start this process's server as a fork of it; nothing on other systems.

    For a process without threads that count: what another thread held would stay held in children.

    Args:
        serve: `edgec.toolchain.forked.main`.
    """
    if hasattr(os, "pidfd_open"):
        _end()
        _servers.append(_Server(_Fork(serve)))


class _Fork:
    """A server that shares all that this process has imported; as `Popen`, as far as needed."""

    def __init__(self, serve: Callable[[], int]) -> None:
        jobs, answers = os.pipe(), os.pipe()
        self.returncode: int | None = None
        self.pid = os.fork()
        if not self.pid:
            _be(serve, jobs, answers)
        os.close(jobs[0])
        os.close(answers[1])
        self.stdin = os.fdopen(jobs[1], "wb", buffering=0)
        self.stdout = os.fdopen(answers[0], "rb", buffering=0)

    def poll(self) -> int | None:
        """Its exit code, None while it runs."""
        return self._waited(os.WNOHANG)

    def wait(self) -> None:
        """Wait for its end."""
        self._waited(0)

    def _waited(self, how: int) -> int | None:
        if self.returncode is None:
            child, status = os.waitpid(self.pid, how)
            self.returncode = os.waitstatus_to_exitcode(status) if child else None
        return self.returncode


def _be(serve: Callable[[], int], jobs: tuple[int, int], answers: tuple[int, int]) -> NoReturn:
    """Be the server, to its end."""
    code = 1
    try:
        nothing = os.open(os.devnull, os.O_WRONLY)
        for number, end in enumerate((jobs[0], answers[1], nothing)):
            os.dup2(end, number)
        for end in (*jobs, *answers, nothing):
            os.close(end)
        code = serve()
    finally:
        os._exit(code)


class _Server:
    """The parent's end."""

    def __init__(self, process: "subprocess.Popen[bytes] | _Fork") -> None:
        self.owner = os.getpid()
        self.start = _start_variables()
        self._process = process
        self._jobs: Any = self._process.stdin
        self._answers: Any = self._process.stdout
        self._rest = b""
        self.ready = self._line(_START_SECONDS) == b"ready"

    def fits(self) -> bool:
        """Whether it is this process's, as this process is now, and takes a job."""
        return (
            self.owner == os.getpid()
            and self.start == _start_variables()
            and self._process.poll() is None
        )

    def job(
        self, module: str, request: Path, reply: Path, stderr: Path, timeout: float
    ) -> int | None:
        """As `run`; whatever goes wrong here ends the server, and with it the job."""
        value = {
            "module": module,
            "arguments": [str(request), str(reply)],
            "stderr": str(stderr),
            "folder": str(Path.cwd()),
            "environment": dict(os.environ),
        }
        finished = False
        try:
            self._jobs.write(json.dumps(value).encode() + b"\n")
            code = self._line(timeout)
            finished = code not in (None, b"")
        except BrokenPipeError:
            return None
        finally:
            if not finished:
                self.close()
        if code is None:
            raise subprocess.TimeoutExpired(module, timeout)
        return int(code) if code else None

    def close(self) -> None:
        """End it, and the child that is at work."""
        if self.owner != os.getpid():
            return
        self._jobs.close()
        self._process.wait()
        self._answers.close()

    def _line(self, seconds: float) -> bytes | None:
        """The next line; empty if the server died, None if it did not come in time."""
        end = time.monotonic() + seconds
        while b"\n" not in self._rest:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self._answers], [], [], left)[0]:
                return None
            piece = self._answers.read(4096)
            if not piece:
                return b""
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\n")
        return line


_lock = threading.Lock()
_servers: list[_Server] = []


def _current() -> _Server | None:
    """The server of this process, started when it is first needed."""
    if _servers and not _servers[0].fits():
        _servers.pop().close()
    if not _servers:
        server = _Server(_started())
        if not server.ready:
            server.close()
            return None
        _servers.append(server)
    return _servers[0]


def _started() -> "subprocess.Popen[bytes]":
    """A server that is an interpreter of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "edgec.toolchain.forked"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=0,
    )


@atexit.register
def _end() -> None:
    while _servers:
        _servers.pop().close()


def _start_variables() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith(_AT_START)}
