"""edgert built here by CMake, once a session, and the helpers that its tests share."""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from edgec import toolchain
from edgec.runtime import edgert
from edgec.toolchain.process import compiler_path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "runtime" / "c"
BUILD = ROOT / "build" / "edgert"

Build = Callable[..., Path]
Compile = Callable[..., Path]


def _missing(what: str) -> None:
    if os.environ.get("CI"):
        pytest.fail(f"{what} is missing: scripts/setup installs it")
    pytest.skip(f"no {what}: run scripts/setup")


def run(*command: str | Path, timeout: float = 600, **options: object) -> str:
    """Run a command that must succeed; what it printed."""
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        **options,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="session")
def build() -> Build:
    """`build(preset)` → the folder with the library and the command; built when it is old."""
    for tool in ("cmake", "ninja", "cc"):
        if shutil.which(tool) is None:
            _missing(tool)

    def make(preset: str) -> Path:
        BUILD.mkdir(parents=True, exist_ok=True)
        with (BUILD / f"{preset}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            run("cmake", "--preset", preset, cwd=SOURCE)
            run("cmake", "--build", "--preset", preset, cwd=SOURCE)
        return BUILD / preset

    return make


@pytest.fixture(scope="session")
def library(build: Build) -> object:
    """The shared library, loaded."""
    return edgert.open_library(build("shared") / "libedgert.so")


@pytest.fixture(scope="session")
def compile_text(tmp_path_factory: pytest.TempPathFactory) -> Compile:
    """`compile_text(text, target, **options)` → a `.vmfb`; the same call gives the same file."""
    made: dict[object, Path] = {}
    folder = tmp_path_factory.mktemp("modules")

    def make(text: str, target: str = "cpu", **options: object) -> Path:
        key = (text, target, repr(sorted(options.items())))
        if key not in made:
            source = folder / f"{len(made)}.mlir"
            source.write_text(text)
            output = source.with_suffix(".vmfb")
            settings = toolchain.CompileOptions(output=output, **options)
            made[key] = toolchain.compile(source, target, settings).path
        return made[key]

    return make


@pytest.fixture(scope="session")
def compile_vm(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], bytes]:
    """`compile_vm(text)` → the bytes of a module written in the compiler's `vm` dialect."""
    folder = tmp_path_factory.mktemp("vm")

    def make(text: str) -> bytes:
        source = folder / "module.mlir"
        source.write_text(text)
        tool = compiler_path()
        run(tool, "--compile-mode=vm", source, "-o", folder / "module.vmfb")
        return (folder / "module.vmfb").read_bytes()

    return make


@pytest.fixture
def close_after() -> Iterator[Callable[[object], object]]:
    """`close_after(handle)` → the handle, closed when the test ends, the last one first."""
    handles: list[object] = []

    def keep(handle: object) -> object:
        handles.append(handle)
        return handle

    yield keep
    for handle in reversed(handles):
        handle.close()


@pytest.fixture(scope="session")
def same_bits() -> Callable[[np.ndarray, np.ndarray], bool]:
    """`same_bits(actual, expected)` → whether all bits agree."""
    return _same_bits


def _same_bits(actual: np.ndarray, expected: np.ndarray) -> bool:
    """Equal in type, shape and every bit; any NaN equals any NaN."""
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        return False
    if actual.tobytes() == expected.tobytes():
        return True
    if actual.dtype.kind not in "fcV":
        return False
    wide = (
        (actual.astype(np.float32), expected.astype(np.float32))
        if actual.dtype.kind == "V"
        else (actual, expected)
    )
    return bool(np.all((wide[0] == wide[1]) | (np.isnan(wide[0]) & np.isnan(wide[1]))))
