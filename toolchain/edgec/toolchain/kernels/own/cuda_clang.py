"""CUDA C++ to PTX by the clang of the wheel `ziglang`, with headers of edgec's own.

NVIDIA's headers and its library of functions on the GPU come with NVIDIA's compilers alone. The
folder `cuda` beside this file stands for what kernels ordinarily use of them; what it has not is
refused by name.
"""

import functools
import importlib.metadata
import importlib.util
import re
import tempfile
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path

from edgec.runtime.errors import CompileError, MissingExtra
from edgec.toolchain.cache import key_of
from edgec.toolchain.fingerprint import digest
from edgec.toolchain.kernels.cuda.c_compiler import without_hints
from edgec.toolchain.kernels.own.c_compiler import said_by_zig

__all__ = ["by_clang", "clang_version", "headers_digest"]

_HEADERS = Path(str(resources.files("edgec.toolchain") / "kernels" / "own" / "cuda"))

_VERSIONS: Mapping[int, int] = {
    **dict.fromkeys((50, 52, 53, 60, 61, 62, 70, 72, 75), 63),
    **{80: 70, 86: 71, 87: 74, 89: 78, 90: 78, 100: 86, 103: 88, 110: 90, 120: 87, 121: 88},
}
"""Of a compute capability, the oldest version of PTX that has it, times 10.

From the PTX ISA's table of targets; 6.3 has all that the headers use of older GPUs.
"""

_FLAGS = (
    *("-x", "cuda", "--cuda-device-only", "-nocudainc", "-nocudalib", "-std=c++17", "-O3", "-S"),
    # It is a GPU's code whatever this machine is, and no toolkit that lies here is looked at.
    *("-target", "x86_64-unknown-linux-gnu", "--cuda-path=/nowhere", "-nostdinc"),
    *("-fdeclspec", "-fno-exceptions", "-fno-rtti", "-fno-math-errno", "-w"),
    # As nvcc does, but where the headers say otherwise.
    "-ffp-contract=fast-honor-pragmas",
    *("-fno-caret-diagnostics", "-fno-color-diagnostics", "-fno-show-column"),
)

_DRIVERS = ("vprintf", "__assertfail")
"""Functions that the driver brings."""

_NAMES = r"undeclared|unknown type|no matching|no member|no type|no template|ambiguous|incomplete"
"""In what clang says of names that it does not know."""

_NVIDIA = (
    "where the program is compiled, `pip install nvidia-cuda-nvrtc` or install the CUDA toolkit: "
    "NVIDIA's compilers have all of CUDA"
)


def clang_version() -> str:
    """What compiles, with its version."""
    return f"clang of ziglang {importlib.metadata.version('ziglang')}"


@functools.cache
def headers_digest() -> str:
    """What stands for CUDA's headers, and how clang is called, to one digest."""
    files = (path for path in _HEADERS.rglob("*") if path.is_file())
    return key_of(digest(files, _HEADERS), *_FLAGS)


def by_clang(name: str, text: str, defines: Sequence[str], capability: int) -> str:
    """The PTX of a source.

    Args:
        name: the kernel's.
        text: CUDA C++; its file is called `NAME.cu` in it.
        defines: flags that define names.
        capability: of the GPU; for one that is newer than clang, PTX for the newest before it,
            which a driver takes too.

    Raises:
        MissingExtra: it needs NVIDIA's headers or library.
        CompileError: clang refuses it.
    """
    known = max(each for each in _VERSIONS if each <= max(capability, min(_VERSIONS)))
    with tempfile.TemporaryDirectory(prefix="edgec-") as folder:
        source, made = Path(folder, "kernel.cu"), Path(folder, "kernel.ptx")
        source.write_text(text, encoding="utf-8")
        words = ["clang", *_FLAGS, f"--cuda-gpu-arch=sm_{known}"]
        words += ["-Xclang", "-target-feature", "-Xclang", f"+ptx{_VERSIONS[known]}"]
        words += [f"-I{_HEADERS}", "-isystem", str(_HEADERS / "headers")]
        words += ["-isystem", str(_clangs_headers()), "-include", "edgec_cuda.h", *defines]
        said = said_by_zig(name, [*words, str(source)], made)
        if said is not None:
            raise _refused(name, said)
        ptx = without_hints(made.read_text(encoding="utf-8"))
    called = re.findall(r"^\.extern \.func\s+(?:\([^)]*\)\s*)?([\w$]+)", ptx, re.MULTILINE)
    missing = sorted(set(called) - set(_DRIVERS))
    if missing:
        raise CompileError(
            f"the kernel {name} calls {', '.join(missing)}, which it does not define",
            hint="a kernel's source is one file: write out in it what it calls",
        )
    return ptx


def _clangs_headers() -> Path:
    """Where clang's own headers are, `stdint.h` and `float.h` among them."""
    found = importlib.util.find_spec("ziglang")
    places = found.submodule_search_locations if found is not None else None
    return Path((places or [""])[0], "lib", "include")


def _refused(name: str, said: str) -> CompileError | MissingExtra:
    """What clang says, in one line, at a line of the kernel's own."""
    errors = re.findall(r"^(?:.*?:\d+: )?(?:fatal )?error: (.*)$", said, re.MULTILINE)
    first = errors[0] if errors else (said.strip().splitlines() or ["no word"])[-1]
    line = re.search(rf"\b{re.escape(name)}\.cu:(\d+)", said)
    where = f"{name}.cu:{line[1]}" if line else None
    header = re.fullmatch(r"'(.*)' file not found", first)
    if header is not None:
        return MissingExtra(
            f"the kernel {name} includes {header[1]}, and clang, which compiles it here, has only "
            "edgec's own headers of CUDA",
            where=where,
            hint=f"if it is CUDA's: {_NVIDIA}; if it is your own, write it into the source",
        )
    ours = re.search(r"edgec: (.*)", first)
    if ours is not None and "compute capability" in ours[1]:
        return CompileError(
            f"clang refuses the kernel {name}: {ours[1]}",
            where=where,
            hint="compile for a GPU that has it (--target=cuda:sm_90), or mend its source",
        )
    if ours is not None:
        return MissingExtra(
            f"the kernel {name} needs more than clang, which compiles it here: {ours[1]}",
            where=where,
            hint=_NVIDIA,
        )
    host = re.search(r"call to __host__ function|reference to __host__", said)
    hint = "mend its source, and export the model again"
    if host is not None:
        hint = "write __device__ before each function that the kernel calls"
    elif re.search(_NAMES, first) is not None:
        hint += f"; if it is right, and names what edgec's own headers of CUDA lack: {_NVIDIA}"
    return CompileError(f"clang refuses the kernel {name}: {first}", where=where, hint=hint)
