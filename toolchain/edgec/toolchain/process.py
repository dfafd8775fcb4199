"""The one place where the compiler runs: a child process that is watched, logged and killed."""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib import metadata
from pathlib import Path

import platformdirs

from edgec.runtime.errors import CompileError, MissingExtra
from edgec.toolchain.inside import answers_here, compiled_here
from edgec.toolchain.signals import signals_held

__all__ = [
    "Finished",
    "compiler_path",
    "compiler_version",
    "keep_log",
    "package_tool",
    "run_compiler",
]

_POLL = 0.2
_READ = 10.0
_KEPT_LOGS = 30
_TOOLS_VARIABLE = "IREE_TOOL_PATH"
"""Where the package's script looks for its program first."""


@dataclass(frozen=True, kw_only=True)
class Finished:
    """How the compiler ended.

    Attributes:
        code: its exit status; negative for a signal.
        stderr: everything it printed.
        seconds: wall time.
        timed_out: it was killed for taking too long.
    """

    code: int
    stderr: str
    seconds: float
    timed_out: bool = False


def compiler_path() -> Path:
    """The `iree-compile` that belongs to this Python: the program, not its script where it can be.

    Raises:
        MissingExtra: iree-base-compiler is not installed.
    """
    inside = None if os.environ.get(_TOOLS_VARIABLE) else package_tool("iree-compile")
    if inside is not None:
        return inside
    beside = Path(sys.executable).with_name("iree-compile")
    found = str(beside) if beside.exists() else shutil.which("iree-compile")
    if not found:
        raise MissingExtra(
            "the compiler is not installed", hint="pip install 'iree-base-compiler==3.13.*'"
        )
    return Path(found)


def package_tool(name: str) -> Path | None:
    """A program in the compiler's package, which its script starts after a Python of its own."""
    try:
        spec = importlib.util.find_spec("iree.compiler")
    except ModuleNotFoundError:  # not even iree
        return None
    folders = spec.submodule_search_locations if spec is not None else None
    names = (name, f"{name}.exe")
    paths = (Path(folder, "_mlir_libs", name) for folder in folders or () for name in names)
    return next((path for path in paths if path.exists()), None)


def compiler_version() -> str:
    """The version of iree-base-compiler.

    Raises:
        MissingExtra: it is not installed.
    """
    try:
        return metadata.version("iree-base-compiler")
    except metadata.PackageNotFoundError as error:
        raise MissingExtra(
            "the compiler is not installed", hint="pip install 'iree-base-compiler==3.13.*'"
        ) from error


def run_compiler(
    command: Sequence[str],
    *,
    timeout: float | None = None,
    memory: int | None = None,
    tick: Callable[[float], None] | None = None,
) -> Finished:
    """Run a command to its end, in a process group of its own.

    Args:
        command: what to run.
        timeout: seconds after which it is killed.
        memory: bytes of address space it may use (Linux only).
        tick: called about five times a second with the seconds since the start.

    Raises:
        CompileError: the command cannot be started.
    """
    here = compiled_here(command) if answers_here() is not None else None
    if here is not None:
        return Finished(code=here.code, stderr=here.stderr, seconds=here.seconds)
    start = time.monotonic()
    printed: list[bytes] = []
    timed_out = False
    child = None
    try:
        with signals_held():  # a child that no name stands for yet, nobody would kill
            child = _started(command)
        # Through a pipe: in a file on a full disk nobody would read that the disk is full.
        reader = threading.Thread(target=_read, args=(child, printed), daemon=True)
        reader.start()
        if memory is not None and sys.platform == "linux":
            import resource

            resource.prlimit(child.pid, resource.RLIMIT_AS, (memory, memory))
        while child.poll() is None:
            elapsed = time.monotonic() - start
            if timeout is not None and elapsed > timeout:
                timed_out = True
                break
            if tick is not None:
                tick(elapsed)
            try:
                child.wait(_POLL)
            except subprocess.TimeoutExpired:
                continue
    finally:
        if child is not None and child.poll() is None:
            _kill(child)
    reader.join(_READ)
    return Finished(
        code=child.returncode,
        stderr=b"".join(printed).decode(errors="replace"),
        seconds=time.monotonic() - start,
        timed_out=timed_out,
    )


def _started(command: Sequence[str]) -> "subprocess.Popen[bytes]":
    """The command's process, at the head of a group of its own."""
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            # Its linker takes the name as it stands, where Python passes over a folder that is
            # full or not there.
            env={**os.environ, "TMPDIR": tempfile.gettempdir()},
        )
    except OSError as error:
        raise CompileError(
            f"cannot start {command[0]}: {error.strerror}", hint="run `edgec doctor`"
        ) from error


def _read(child: "subprocess.Popen[bytes]", into: list[bytes]) -> None:
    """All that the child prints, as it comes."""
    if child.stdout is not None:
        with child.stdout as stream:
            while part := stream.read1(1 << 16):  # type: ignore[attr-defined]
                into.append(part)


def _kill(child: "subprocess.Popen[bytes]") -> None:
    """End the child and whatever it started."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        child.kill()
    child.wait()


def keep_log(name: str, command: Sequence[str], finished: Finished) -> Path | None:
    """Write command and output to the user's log folder; the oldest logs beyond thirty go.

    Returns:
        The log file, or None where the folder cannot be written.
    """
    folder = Path(platformdirs.user_log_dir("edgec", appauthor=False))
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    path = folder / f"compile-{stamp}-{os.getpid()}-{name}.log"
    text = f"$ {' '.join(command)}\nexit status {finished.code} after {finished.seconds:.1f} s\n\n"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(text + finished.stderr, encoding="utf-8")
        others = [log for log in folder.glob("compile-*.log") if log != path]
        by_age = sorted(others, key=lambda log: log.stat().st_mtime_ns, reverse=True)
        for old in by_age[_KEPT_LOGS - 1 :]:
            old.unlink(missing_ok=True)
    except OSError:
        return None
    return path
