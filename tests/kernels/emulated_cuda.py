"""CUDA C++ by edgec's own headers on a processor: functions of arrays, kernels thread by thread.

The headers are those that clang makes PTX of; `emulated_device.h` stands for what is PTX in them.
"""

import ctypes
import functools
import hashlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path

import numpy as np

_KERNELS = Path(str(resources.files("edgec.toolchain") / "kernels"))
_HERE = Path(__file__).parent
_SHARED = 48 * 1024
_C_TYPES = {np.float32: "float", np.float64: "double", np.int32: "int", np.uint32: "unsigned"}
_FLAGS = ("-O2", "-g0", "-fPIC", "-fno-sanitize=all", "-w", "-DEDGEC_EMULATED")

Function = Callable[..., np.ndarray]


def functions(texts: Sequence[str], kind: type = np.float32, more: str = "") -> dict[str, Function]:
    """What expressions of `x`, `y` and `z` are, as functions of as many arrays.

    Args:
        texts: such as `expf(x)`.
        kind: what the variables are, and the result.
        more: C++ that comes before.
    """
    c_type = _C_TYPES[kind]
    text = more
    for at, each in enumerate(texts):
        names = "xyz"[: _count(each)]
        reads = "".join(f"{c_type} {v} = in[{j}][i]; " for j, v in enumerate(names))
        text += (
            f'extern "C" void f{at}(const {c_type} *const *in, {c_type} *out, long n) {{\n'
            f"  for (long i = 0; i < n; ++i) {{ {reads}out[i] = ({c_type})({each}); }}\n}}\n"
        )
    library = _library(text, "")
    return {each: _called(library[f"f{at}"], kind) for at, each in enumerate(texts)}


def _count(text: str) -> int:
    return max(i + 1 for i, v in enumerate("xyz") if re.search(rf"\b{v}\b", text))


def _called(function: Callable[..., None], kind: type) -> Function:
    def call(*arrays: np.ndarray) -> np.ndarray:
        given = [np.ascontiguousarray(each, kind) for each in arrays]
        out = np.empty_like(given[0])
        places = (ctypes.c_void_p * len(given))(*(each.ctypes.data for each in given))
        function(places, ctypes.c_void_p(out.ctypes.data), ctypes.c_long(out.size))
        return out

    return call


def run(
    source: str,
    entry: str,
    grid: Sequence[int],
    block: Sequence[int],
    given: Sequence[np.ndarray | int],
) -> None:
    """Run a kernel, which writes to the arrays that it is given."""
    shared = re.findall(r"extern\s+__shared__\s+(?:\w+\s+)+(\w+)\s*\[", source)
    text = re.sub(r"extern\s+__shared__", "extern", source)
    found = re.search(rf"\b{entry}\s*\((.*?)\)\s*{{", text, re.DOTALL)
    assert found is not None
    kinds = [re.sub(r"\w+\s*$", "", each) for each in found[1].split(",")]
    kinds = [kind.replace("__restrict__", "") for kind in kinds]
    calls = ", ".join(f"*({kind} *)emulated_values[{i}]" for i, kind in enumerate(kinds))
    text += (
        '\nextern "C" { void **emulated_values; }\n'
        f'extern "C" void emulated_kernel() {{ {entry}({calls}); }}\n'
    )
    rooms = "".join(f"_Alignas(16) char {name}[{_SHARED}];\n" for name in shared)
    library = _library(text, f'#include "emulated_threads.c"\n{rooms}')
    values = [
        ctypes.c_void_p(each.ctypes.data) if isinstance(each, np.ndarray) else ctypes.c_int(each)
        for each in given
    ]
    places = (ctypes.c_void_p * len(values))(*(ctypes.addressof(each) for each in values))
    ctypes.c_void_p.in_dll(library, "emulated_values").value = ctypes.addressof(places)
    sizes = [(ctypes.c_uint * 3)(*each, *[1] * (3 - len(each))) for each in (grid, block)]
    library.emulated_run(*sizes)


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="edgec-emulated-")


@functools.cache
def _library(text: str, threads: str) -> ctypes.CDLL:
    """C++ after the headers, and the C of what runs it."""
    name = hashlib.sha256((text + threads).encode()).hexdigest()[:16]
    source, kernel, other, made = (
        Path(_folder().name, f"{name}{end}") for end in (".cc", ".o", ".c", ".so")
    )
    source.write_text(f'#include "edgec_cuda.h"\n{text}', encoding="utf-8")
    other.write_text(threads, encoding="utf-8")
    clang = [sys.executable, "-m", "ziglang"]
    headers = _KERNELS / "own" / "cuda"
    words = [*clang, "c++", *_FLAGS, "-c", "-std=c++17", "-fdeclspec", "-ffreestanding"]
    words += [f"-I{headers}", f"-I{headers / 'headers'}", f"-I{_HERE}"]
    _run([*words, str(source), "-o", str(kernel)])
    words = [*clang, "cc", *_FLAGS, "-shared", f"-I{_HERE}", f"-I{_KERNELS / 'cuda' / 'c'}"]
    words += [f"-I{_HERE.parent / 'toolchain' / 'kernels' / 'cuda'}"]
    _run([*words, str(kernel), str(other), "-lm", "-o", str(made)])
    return ctypes.CDLL(str(made))


def _run(words: list[str]) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
