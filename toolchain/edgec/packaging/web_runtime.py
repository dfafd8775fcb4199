"""The sources of `runtime/js` and `runtime/c` to the folder `edgec-runtime`, an npm package.

edgert is compiled for WebAssembly by the clang in the wheel `ziglang`, once for one thread and once
for several on a shared memory, and kept: in `build/js` of a checkout, else in edgec's cache.
"""

import hashlib
import importlib.util
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from edgec.runtime.errors import CompileError, MissingExtra
from edgec.toolchain.cache import Cache
from edgec.toolchain.linker import LIBRARY
from edgec.toolchain.sources import runtime_sources

__all__ = ["BUILDS", "edgert_wasm", "runtime_files", "write_runtime"]

EXPORTS = (
    "edgert_device_create",
    "edgert_module_attribute",
    "edgert_module_function_count",
    "edgert_module_function_name",
    "edgert_module_input",
    "edgert_module_input_count",
    "edgert_module_output",
    "edgert_module_output_count",
    "edgert_module_wrap",
    "edgert_session_call",
    "edgert_session_create",
    "edgert_session_resume",
    "edgert_tensor_create",
    "edgert_tensor_data",
    "edgert_tensor_rank",
    "edgert_tensor_read",
    "edgert_tensor_release",
    "edgert_tensor_shape",
    "edgert_tensor_size",
    "edgert_tensor_type",
    "edgert_tensor_write",
    "edgert_weights_wrap",
    "free",
)
"""What `edgert.js` calls."""

STACK = 1 << 20
"""Bytes; kernels may use 256 KiB of it. It lies first, so that running over it is a trap."""

_FLAGS = (
    # The driver takes -Oz for -Os; clang itself does what it is told.
    *("-target", "wasm32-wasi", "-mexec-model=reactor", "-std=c11", "-Oz", "-Xclang", "-Oz"),
    *("-flto", "-g0"),
    *("-D_POSIX_C_SOURCE=200809L", "-DEDGERT_WITH_NULL=0", "-DEDGERT_WITH_FILES=0"),
    *("-Wl,--export-table", "-Wl,--growable-table", "-Wl,--export=__stack_pointer"),
    *("-Wl,--gc-sections", f"-Wl,-z,stack-size={STACK}", "-s"),
    *(f"-Wl,--export={name}" for name in (*EXPORTS, *LIBRARY)),
)

BUILDS = {
    "edgert.wasm": ("-DEDGERT_WITH_WEBGPU=1",),
    "edgert-threads.wasm": (
        *("-DEDGERT_THREADS=1", "-matomics", "-mbulk-memory", "-Wl,--shared-memory"),
        *("-Wl,--import-memory", "-Wl,--export-memory"),
        # What `threads.js` and `shared.mjs` say: 32 pages at first, 65535 at most.
        *("-Wl,--initial-memory=2097152", "-Wl,--max-memory=4294901760"),
    ),
}
"""Files of the package that are compiled, and what flags each has of its own."""


def runtime_files() -> dict[str, Path]:
    """The files of the package by their names, but those of `BUILDS`.

    Raises:
        FileError: this installation does not hold the sources.
    """
    js = runtime_sources("js")
    files = {file.name: file for file in sorted((js / "src").iterdir()) if file.is_file()}
    for file in sorted((runtime_sources("c") / "wasm").glob("*.mjs")):
        files[file.name] = file
    return files | {name: js / name for name in ("package.json", "README.md")}


def write_runtime(folder: Path) -> None:
    """Write the npm package into a folder, which is made.

    Raises:
        MissingExtra: edgert was not compiled before, and `ziglang` is missing.
        CompileError: edgert cannot be compiled.
        FileError: this installation does not hold the sources.
    """
    with ThreadPoolExecutor(len(BUILDS)) as pool:
        compiled = dict(zip(BUILDS, pool.map(edgert_wasm, BUILDS), strict=True))
    folder.mkdir(parents=True, exist_ok=True)
    for name, file in (runtime_files() | compiled).items():
        shutil.copyfile(file, folder / name)


def edgert_wasm(build: str = "edgert.wasm") -> Path:
    """One of `BUILDS`, compiled where these sources have not been yet (some 20 s).

    Raises:
        MissingExtra: `ziglang` is missing.
        CompileError: clang fails.
        FileError: this installation does not hold the sources.
    """
    source = runtime_sources("c")
    flags = (*_FLAGS, *BUILDS[build])
    output = _kept_at(source) / f"edgert-{_fingerprint(source, flags)}.wasm"
    if output.exists():
        return output
    if not _has_ziglang():
        raise MissingExtra(
            "packages for the web need the wheel ziglang, which compiles edgert",
            hint="pip install 'edgec[web]'",
        )
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output.parent) as scratch:
        made = Path(scratch) / "edgert.wasm"
        sources = sorted(source.glob("src/**/*.c"))
        command = [
            *(sys.executable, "-m", "ziglang", "cc", *flags, f"-I{source / 'include'}"),
            *(*map(str, sources), "-lm", "-o", str(made)),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode or not made.exists():
            raise CompileError(
                f"edgert cannot be compiled for WebAssembly: {done.stderr.strip()[-2000:]}",
                hint="install the ziglang that edgec's constraints.txt names",
            )
        made.chmod(0o644)
        made.replace(output)
    return output


def _has_ziglang() -> bool:
    try:
        return importlib.util.find_spec("ziglang") is not None
    except ValueError:  # it is barred from this process
        return False


def _kept_at(source: Path) -> Path:
    root = source.parents[1]
    return (
        root / "build" / "js"
        if (root / "pyproject.toml").is_file()
        else Cache.default().folder / "edgert"
    )


def _fingerprint(source: Path, flags: tuple[str, ...]) -> str:
    sha = hashlib.sha256(" ".join(flags).encode())
    for file in sorted([*source.glob("src/**/*.[ch]"), *source.glob("include/**/*.h")]):
        sha.update(file.read_bytes())
    return sha.hexdigest()[:16]
