"""A kernel for NVIDIA's GPUs to PTX: CUDA C++ by nvcc, NVRTC or clang, PTX as it is."""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from edgec.runtime.errors import CompileError, MissingExtra
from edgec.targets import Target
from edgec.toolchain.cache import Cache, key_of
from edgec.toolchain.kernels.own.c_compiler import has_ziglang
from edgec.toolchain.kernels.own.cuda_clang import by_clang, clang_version, headers_digest
from edgec.toolchain.kernels.own.nvrtc import Nvrtc, NvrtcRefused
from edgec.toolchain.own_kernels import Code, Language

__all__ = ["Ptx", "ptx_of"]

_TIMEOUT = 300.0
_STANDARD = ("--std=c++17",)
_OLDEST = 50
"""The compute capability that is compiled for where a target names none."""


@dataclass(frozen=True, kw_only=True)
class Ptx:
    """A kernel for NVIDIA's GPUs.

    Attributes:
        data: the PTX.
        by: what compiled it, with its version; empty where PTX was given.
    """

    data: bytes
    by: str


def ptx_of(name: str, code: Code, defines: Mapping[str, str], entry: str, target: Target) -> Ptx:
    """The PTX of a kernel, whose entry point is `entry`.

    nvcc compiles CUDA C++ where it is on the path, else NVRTC; both have all of CUDA. Where
    neither is here, clang does (`cuda_clang.py`).

    Args:
        name: the kernel's.
        code: its source.
        defines: names that are defined.
        entry: what its entry point is called in the module.
        target: the GPU.

    Raises:
        CompileError: the compiler refuses it, or PTX without its entry point was given.
        MissingExtra: there is no compiler of CUDA C++ here, or it needs NVIDIA's.
    """
    text, by = code.text, ""
    if code.language is Language.CUDA:
        text, by = _compiled(name, code, defines, target)
    pattern = rf"(\.entry\s+){re.escape(code.entry)}\b"
    if not re.search(pattern, text):
        raise CompileError(
            f"the PTX of the kernel {name} has no entry point {code.entry}",
            hint="name one that it has with entry=…",
        )
    return Ptx(data=re.sub(pattern, rf"\g<1>{entry}", text).encode(), by=by)


def _compiled(name: str, code: Code, defines: Mapping[str, str], target: Target) -> tuple[str, str]:
    """The PTX of CUDA C++, and what compiled it."""
    nvcc = shutil.which("nvcc")
    library = Nvrtc.find() if nvcc is None else None
    if nvcc is None and library is None and not has_ziglang():
        raise MissingExtra(
            f"the kernel {name} is in CUDA C++, which NVIDIA's nvcc or NVRTC or the clang of the "
            "wheel ziglang compiles, and none of them is here",
            hint="where the program is compiled, `pip install ziglang` (edgec[cuda] brings it), "
            "`pip install nvidia-cuda-nvrtc` or install the CUDA toolkit; or give the kernel as "
            "PTX (edgec.kernels.ptx) or in Triton",
        )
    capability = (target.gpu.capability if target.gpu else 0) or _OLDEST
    flags = [f"-D{key}={value}" for key, value in defines.items()]
    # Its entry point keeps its name only where C++ does not encode the types in it.
    declared = re.sub(r"(?<!extern \"C\" )__global__", 'extern "C" __global__', code.text)
    text = f'#line 1 "{name}.cu"\n{declared}\n'
    if nvcc is not None:
        said = _version(nvcc)
        number = re.search(r"release ([\d.]+)", said)
        by, version = f"nvcc {number[1]}" if number else "nvcc", said
    elif library is not None:
        by = version = f"NVRTC {library.version}"
    else:
        by = clang_version()
        version = f"{by} {headers_digest()}"
    key = key_of("own-cuda", version, str(capability), *_STANDARD, *flags, text)
    cache = Cache.default()
    kept = cache.get(key)
    if kept is not None:
        return kept.payload.read_text(), by
    if nvcc is not None:
        made = _by_nvcc(nvcc, name, [f"-arch=sm_{capability}", *_STANDARD, *flags], text)
    elif library is not None:
        try:
            made = library.ptx(
                text, f"{name}.cu", [f"-arch=compute_{capability}", *_STANDARD, *flags]
            )
        except NvrtcRefused as refused:
            raise _refused("NVRTC", name, str(refused)) from refused
    else:
        made = by_clang(name, text, flags, capability)
    cache.put(key, made.encode(), {})
    return made, by


def _by_nvcc(nvcc: str, name: str, flags: list[str], text: str) -> str:
    with tempfile.TemporaryDirectory(prefix="edgec-") as folder:
        source, made = Path(folder, "kernel.cu"), Path(folder, "kernel.ptx")
        source.write_text(text, encoding="utf-8")
        said = _run([nvcc, "--ptx", "-O3", *flags, str(source), "-o", str(made)], name)
        if not made.exists():
            raise _refused("nvcc", name, said)
        return made.read_text()


def _run(command: list[str], name: str) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise CompileError(
            f"the kernel {name} was not compiled within {_TIMEOUT:.0f} s",
            hint="try again when the machine is less busy",
        ) from error
    return done.stderr + done.stdout


def _version(nvcc: str) -> str:
    return _run([nvcc, "--version"], "nvcc")


def _refused(compiler: str, name: str, said: str) -> CompileError:
    lines = said.strip().splitlines() or ["no word"]
    first = next((line for line in lines if "error" in line), lines[-1])
    found = re.match(r"(.*?)\((\d+)\): error: (.*)", first)
    return CompileError(
        f"{compiler} refuses the kernel {name}: {found[3] if found else first}",
        where=f"{found[1]}:{found[2]}" if found else None,
        hint="mend its source, and export the model again",
    )
