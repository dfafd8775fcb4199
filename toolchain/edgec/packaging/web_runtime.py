"""The sources of `runtime/js` and `runtime/c` to the folder `edgec-runtime`, an npm package.

edgert is compiled for WebAssembly by the clang in the wheel `ziglang`, once for one thread and once
for several on a shared memory, and for language models what reads and writes text by itself. Each
is kept: in `build/js` of a checkout, else in edgec's cache. Scripts go out without their comments
and the space that they do not need.
"""

import hashlib
import shutil
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from edgec.ondevice import zig
from edgec.runtime.errors import CompileError, MissingExtra
from edgec.toolchain.cache import Cache
from edgec.toolchain.linker import LIBRARY
from edgec.toolchain.sources import runtime_sources

__all__ = ["BUILDS", "TEXT", "edgert_wasm", "minified", "runtime_files", "write_runtime"]

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

TEXT_EXPORTS = (
    "edgert_text_stream_add",
    "edgert_text_stream_create",
    "edgert_text_stream_end",
    "edgert_text_stream_release",
    "edgert_tokenizer_chunk",
    "edgert_tokenizer_context",
    "edgert_tokenizer_decode",
    "edgert_tokenizer_encode",
    "edgert_tokenizer_free",
    "edgert_tokenizer_parse",
    "edgert_tokenizer_prefill",
    "edgert_tokenizer_prompt",
    "edgert_tokenizer_recurrent",
    "edgert_tokenizer_stops",
    "edgert_tokenizer_vocabulary",
    "free",
    "malloc",
)
"""What `tokenizer.js` calls."""

STACK = 1 << 20
"""Bytes; kernels may use 256 KiB of it. It lies first, so that running over it is a trap."""

_SMALL = (
    # The driver takes -Oz for -Os; clang itself does what it is told.
    *("-target", "wasm32-wasi", "-mexec-model=reactor", "-std=c11", "-Oz", "-Xclang", "-Oz"),
    *("-flto", "-g0", "-Wl,--gc-sections", f"-Wl,-z,stack-size={STACK}", "-s"),
)
_FLAGS = (
    *_SMALL,
    *("-D_POSIX_C_SOURCE=200809L", "-DEDGERT_WITH_NULL=0", "-DEDGERT_WITH_FILES=0"),
    *("-Wl,--export-table", "-Wl,--growable-table", "-Wl,--export=__stack_pointer"),
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

TEXT = "edgert-text.wasm"
"""The file that is compiled for language models alone."""

_FOR_TEXT = {"text.js", "text.d.ts", "saved.js", "tokenizer.js"}
"""Sources that only they need."""

_SCRIPTS = {".js", ".mjs"}
"""What the sources in JavaScript end in."""

_FOR_BUNDLERS = "webpackIgnore"
"""In a comment: what a bundler leaves for node to import."""


def runtime_files(*, text: bool = False) -> dict[str, Path]:
    """The files of the package by their names, but those that are compiled.

    Args:
        text: with those that only language models need.


    Raises:
        FileError: this installation does not hold the sources.
    """
    js = runtime_sources("js")
    files = {file.name: file for file in sorted((js / "src").iterdir()) if file.is_file()}
    files = {name: file for name, file in files.items() if text or name not in _FOR_TEXT}
    for file in sorted((runtime_sources("c") / "wasm").glob("*.mjs")):
        files[file.name] = file
    return files | {name: js / name for name in ("package.json", "README.md")}


def write_runtime(folder: Path, *, text: bool = False) -> None:
    """Write the npm package into a folder, which is made; `text`: with what language models need.

    Raises:
        MissingExtra: `rjsmin` is missing, or edgert was not compiled before and `ziglang` is.
        CompileError: edgert cannot be compiled.
        FileError: this installation does not hold the sources.
    """
    names = (*BUILDS, *([TEXT] if text else []))
    with ThreadPoolExecutor(len(names)) as pool:
        compiled = dict(zip(names, pool.map(edgert_wasm, names), strict=True))
    folder.mkdir(parents=True, exist_ok=True)
    for name, file in (runtime_files(text=text) | compiled).items():
        if file.suffix in _SCRIPTS:
            small = minified(file.read_text(encoding="utf-8"))
            (folder / name).write_text(small, encoding="utf-8", newline="\n")
        else:
            shutil.copyfile(file, folder / name)


def minified(script: str) -> str:
    """The same JavaScript without comments and the space that it does not need.

    A script whose comments are for bundlers stays as it is.

    Raises:
        MissingExtra: `rjsmin` is missing.
    """
    try:
        import rjsmin
    except ImportError:
        raise MissingExtra(
            "packages for the web need the wheel rjsmin, which makes their scripts small",
            hint="pip install 'edgec[web]'",
        ) from None
    return script if _FOR_BUNDLERS in script else f"{rjsmin.jsmin(script)}\n"


def edgert_wasm(build: str = "edgert.wasm") -> Path:
    """One of `BUILDS`, or `TEXT`, compiled where these sources have not been yet (some 20 s).

    Raises:
        MissingExtra: `ziglang` is missing.
        CompileError: clang fails.
        FileError: this installation does not hold the sources.
    """
    source = runtime_sources("c")
    if build == TEXT:
        flags = (*_SMALL, *(f"-Wl,--export={name}" for name in TEXT_EXPORTS))
        # Generation is JavaScript's own, which can wait for a GPU.
        own = ("answer.c", "model.c", "saved.c")
        sources = [file for file in sorted(source.glob("text/*.c")) if file.name not in own]
    else:
        flags = (*_FLAGS, *BUILDS[build])
        sources = sorted(source.glob("src/**/*.c"))
    output = _kept_at(source) / f"edgert-{_fingerprint(source, flags, sources)}.wasm"
    if output.exists():
        return output
    if not zig.has_ziglang():
        raise MissingExtra(
            "packages for the web need the wheel ziglang, which compiles edgert",
            hint="pip install 'edgec[web]'",
        )
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output.parent) as scratch:
        made = Path(scratch) / "edgert.wasm"
        words = [*flags, f"-I{source / 'include'}", *map(str, sources)]
        done = zig.build(words, made)
        if done.returncode or not made.exists():
            raise CompileError(
                f"edgert cannot be compiled for WebAssembly: {done.stderr.strip()[-2000:]}",
                hint="install the ziglang that edgec's constraints.txt names",
            )
        made.chmod(0o644)
        made.replace(output)
    return output


def _kept_at(source: Path) -> Path:
    root = source.parents[1]
    return (
        root / "build" / "js"
        if (root / "pyproject.toml").is_file()
        else Cache.default().folder / "edgert"
    )


def _fingerprint(source: Path, flags: tuple[str, ...], sources: Sequence[Path]) -> str:
    sha = hashlib.sha256(" ".join(flags).encode())
    headers = [*source.glob("src/**/*.h"), *source.glob("text/*.h"), *source.glob("include/**/*.h")]
    for file in sorted([*sources, *headers]):
        sha.update(file.read_bytes())
    return sha.hexdigest()[:16]
