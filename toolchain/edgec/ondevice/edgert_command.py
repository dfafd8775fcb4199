"""The `edgert` command for a machine: one static program, built once for each state of its sources.

The clang of the wheel `ziglang` builds it, with musl, so that it runs under Android and under any
Linux. It is kept in edgec's cache.
"""

import hashlib
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from edgec.ondevice import zig
from edgec.ondevice.machines import Machine
from edgec.runtime.errors import CompileError, FileError, MissingExtra
from edgec.runtime.files import FULL, no_space, refuse_full
from edgec.toolchain.cache import Cache
from edgec.toolchain.sources import runtime_sources

__all__ = ["edgert_command", "refuse_unbuildable"]

_FLAGS = (
    *("-std=c11", "-O2", "-D_POSIX_C_SOURCE=200809L", "-static", "-s"),
    # Android has pages of 4 KiB and of 16 KiB.
    "-Wl,-z,max-page-size=65536",
)
_SECONDS = 600.0
_ROOM = 2 << 20
"""Bytes that are there before clang begins; the program takes some 300 KB."""


def edgert_command(machine: Machine, tell: Callable[[str], None]) -> Path:
    """The program; it is built where it has not been yet, which takes seconds, the first a minute.

    Args:
        machine: what it is to run on.
        tell: is told what takes long.

    Raises:
        MissingExtra: it was not built before, and `ziglang` is missing.
        CompileError: clang fails.
        FileError: this installation does not hold the sources, or the cache cannot be written.
    """
    source = runtime_sources("c")
    program = refuse_unbuildable(machine)
    if program.exists():
        return program
    folder = program.parent
    tell(f"building edgert for {machine.name}, once")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        refuse_full(folder, _ROOM)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            made = Path(scratch, "edgert")
            _build(source, machine, made)
            made.replace(program)
    except OSError as error:
        raise FileError(
            f"cannot keep edgert in {folder}: {error.strerror or error}",
            hint="set EDGEC_CACHE_DIR to a folder that can be written to",
        ) from error
    return program


def refuse_unbuildable(machine: Machine) -> Path:
    """Where the program is, or will be once it is built.

    Raises:
        MissingExtra: it was not built before, and `ziglang` is missing.
        FileError: this installation does not hold the sources.
    """
    source = runtime_sources("c")
    program = Cache.default().folder / "edgert" / f"edgert-{machine.name}-{_fingerprint(source)}"
    if not program.exists() and not zig.has_ziglang():
        raise MissingExtra(
            f"edgert has to be built for {machine.name}, which the wheel ziglang does",
            hint="pip install 'edgec[web]'",
        )
    return program


def _build(source: Path, machine: Machine, made: Path) -> None:
    files = [*sorted(source.glob("src/**/*.c")), *sorted(source.glob("cli/*.c"))]
    words = ["-target", machine.triple, *_FLAGS, f"-I{source / 'include'}", *map(str, files)]
    try:
        done = zig.build(words, made, timeout=_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise CompileError(
            f"edgert was not built for {machine.name} within {_SECONDS:.0f} s",
            hint="try again when the machine is less busy",
        ) from error
    if done.returncode and FULL in done.stderr:
        raise no_space(None)
    if done.returncode or not made.exists():
        raise CompileError(
            f"edgert cannot be built for {machine.name}: {done.stderr.strip()[-2000:]}",
            hint="install the ziglang that edgec's constraints.txt names",
        )


def _fingerprint(source: Path) -> str:
    sha = hashlib.sha256(" ".join(_FLAGS).encode())
    for folder in ("src", "cli", "include"):
        for file in sorted((source / folder).glob("**/*.[ch]")):
            sha.update(file.relative_to(source).as_posix().encode())
            sha.update(file.read_bytes())
    return sha.hexdigest()[:16]
