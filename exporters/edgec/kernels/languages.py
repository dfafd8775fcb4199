"""Kernels in the languages that edgec puts into modules: C, CUDA C++, PTX, GLSL, SPIR-V, Triton."""

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from edgec.kernels.kernel import Kernel
from edgec.kernels.sources import Count, Counts, Definitions, Numbers, Plain
from edgec.kernels.triton_sources import Constants, TritonSource
from edgec.runtime.errors import SourceError, UsageError
from edgec.runtime.files import read_bytes
from edgec.toolchain.own_kernels import Language

__all__ = ["c", "cuda", "glsl", "ptx", "spirv", "triton"]

Reference = Callable[..., Any]

_ENTRIES = {
    Language.C: r"\bvoid\s+(\w+)\s*\(",
    Language.CUDA: r"__global__\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?void\s+"
    r"(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\(",
    Language.PTX: r"\.entry\s+(\w+)\s*\(",
}
"""How the function that is called is declared."""


def c(
    source: str | Path,
    *,
    reference: Reference | None = None,
    entry: str = "",
    groups: Count = 1,
    numbers: Numbers = (),
    defines: Definitions | None = None,
) -> Kernel:
    """A kernel in C11 for processors, compiled by the clang of the wheel `ziglang`.

    The function takes a pointer to each array that is read, one to each that is written, then the
    numbers as `int`; with `groups`, last of all, which group it is, as an `int`. Arrays are dense
    and row by row; no two overlap but those that are read.

    Args:
        source: C, or a file of it.
        reference: what it computes, in JAX or PyTorch.
        entry: the function that is called; without it, the only one in the source.
        groups: how often it is called at a time, for threads to share; or a function of the arrays.
        numbers: integers that it takes, or a function of the arrays that gives them.
        defines: names to define, beside the sizes of arrays (`IN0_SIZE`, `OUT0_DIM1`).

    Raises:
        SourceError: the function that is called is not found in the source.
        FileError: a file cannot be read.
    """
    text = _text(source)
    return _kernel(
        Plain(
            language=Language.C,
            text=text,
            entry=entry or _entry(text, Language.C),
            grid=groups,
            numbers=numbers,
            defines=defines or {},
        ),
        reference,
    )


def cuda(
    source: str | Path,
    *,
    grid: Count,
    block: Counts = 256,
    reference: Reference | None = None,
    entry: str = "",
    shared: int = 0,
    numbers: Numbers = (),
    defines: Definitions | None = None,
) -> Kernel:
    """A kernel in CUDA C++ for NVIDIA's GPUs, compiled where the program is.

    nvcc or NVRTC compiles it, else the clang of the wheel `ziglang`, which has less of CUDA
    (docs/kernels.md).

    The `__global__` function takes a pointer to each array that is read, one to each that is
    written, and then the numbers as `int`.

    Args:
        source: CUDA C++, or a file of it.
        grid: blocks along x, y and z; or a function of the arrays.
        block: threads of a block along x, y and z.
        reference: what it computes, in JAX or PyTorch.
        entry: the kernel that is called; without it, the only one in the source.
        shared: bytes of shared memory beside what the source declares.
        numbers: integers that it takes, or a function of the arrays that gives them.
        defines: names to define, beside the sizes of arrays (`IN0_SIZE`, `OUT0_DIM1`).

    Raises:
        SourceError: the kernel that is called is not found in the source.
        FileError: a file cannot be read.
    """
    text = _text(source)
    return _kernel(
        Plain(
            language=Language.CUDA,
            text=text,
            entry=entry or _entry(text, Language.CUDA),
            grid=grid,
            group=block,
            shared=shared,
            numbers=numbers,
            defines=defines or {},
        ),
        reference,
    )


def ptx(
    source: str | Path,
    *,
    grid: Count,
    block: Counts = 256,
    reference: Reference | None = None,
    entry: str = "",
    shared: int = 0,
    numbers: Numbers = (),
) -> Kernel:
    """A kernel that is PTX already, for NVIDIA's GPUs from the `.target` that it names on.

    As `cuda`; shapes are not defined for it.

    Raises:
        SourceError: it has no entry, or several, or names no target.
        FileError: a file cannot be read.
    """
    text = _text(source)
    target = re.search(r"\.target\s+sm_(\d+)", text)
    if target is None:
        raise SourceError(
            "this PTX names no target", hint="it begins with .version, .target sm_NN, .address_size"
        )
    return _kernel(
        Plain(
            language=Language.PTX,
            text=text,
            entry=entry or _entry(text, Language.PTX),
            grid=grid,
            group=block,
            shared=shared,
            numbers=numbers,
            capability=int(target[1]),
        ),
        reference,
    )


def glsl(
    source: str | Path,
    *,
    grid: Count,
    reference: Reference | None = None,
    name: str = "shader",
    numbers: Numbers = (),
    defines: Definitions | None = None,
) -> Kernel:
    """A compute shader in GLSL for GPUs through Vulkan, and through WebGPU in browsers.

    Its arrays are storage buffers of set 0: bindings 0, 1, … are what it reads, and then what it
    writes. Numbers are the push constants. Its `local_size_x`, `_y` and `_z` say how many threads
    a workgroup has.

    Args:
        source: GLSL, or a file of it.
        grid: workgroups along x, y and z; or a function of the arrays.
        reference: what it computes, in JAX or PyTorch.
        name: what messages call it.
        numbers: integers for its push constants, or a function of the arrays that gives them.
        defines: names to define, beside the sizes of arrays (`IN0_SIZE`, `OUT0_DIM1`).

    Raises:
        FileError: a file cannot be read.
    """
    return _kernel(
        Plain(
            language=Language.GLSL,
            text=_text(source),
            entry=_word(name),
            grid=grid,
            numbers=numbers,
            defines=defines or {},
        ),
        reference,
    )


def spirv(
    binary: bytes | Path,
    *,
    grid: Count,
    reference: Reference | None = None,
    entry: str = "main",
    name: str = "shader",
    numbers: Numbers = (),
) -> Kernel:
    """A compute shader that is SPIR-V already; its buffers and numbers are those of `glsl`.

    Args:
        binary: the words, or a file of them.
        grid: workgroups along x, y and z; or a function of the arrays.
        reference: what it computes, in JAX or PyTorch.
        entry: its entry point.
        name: what messages call it.
        numbers: integers for its push constants, or a function of the arrays that gives them.

    Raises:
        SourceError: it is no SPIR-V.
        FileError: a file cannot be read.
    """
    data = read_bytes(binary) if isinstance(binary, Path) else binary
    if data[:4] != b"\x03\x02\x23\x07" or len(data) % 4:
        raise SourceError("this is no SPIR-V", hint="it begins with the bytes 03 02 23 07")
    text = base64.b64encode(data).decode()
    code = Plain(language=Language.SPIRV, text=text, entry=_word(entry), grid=grid, numbers=numbers)
    return Kernel(name=_word(name), sources=(code,), reference=reference)


def triton(
    function: Any,
    *,
    grid: Count,
    reference: Reference | None = None,
    constants: Constants | None = None,
    numbers: Mapping[str, int] | Callable[..., Mapping[str, int]] | None = None,
    warps: int = 4,
    stages: int = 3,
    capabilities: Sequence[int] = (80, 90),
) -> Kernel:
    """A kernel in Triton for NVIDIA's GPUs, compiled where the model is exported, without a GPU.

    Its parameters are the arrays that are read, those that are written, and then, in any order,
    what `numbers` and `constants` name.

    Args:
        function: what `@triton.jit` made.
        grid: programs along x, y and z; or a function of the arrays.
        reference: what it computes, in JAX or PyTorch.
        constants: values of its `tl.constexpr` parameters, or a function of the arrays.
        numbers: values of its integers, or a function of the arrays.
        warps: of 32 threads, in a program.
        stages: how many steps ahead loops copy.
        capabilities: the compute capabilities that it is compiled for; a GPU takes the highest
            that it has.

    Raises:
        UsageError: it is no Triton kernel.
    """
    name = getattr(function, "__name__", "")
    if not hasattr(function, "arg_names"):
        raise UsageError(
            f"{name or function!r} is no Triton kernel", hint="give what @triton.jit made"
        )
    source = TritonSource(
        function=function,
        grid=grid,
        constants=constants or {},
        numbers=numbers or {},
        warps=warps,
        stages=stages,
        capabilities=tuple(capabilities),
    )
    return Kernel(name=name, sources=(source,), reference=reference)


def _kernel(source: Plain, reference: Reference | None) -> Kernel:
    return Kernel(name=source.entry, sources=(source,), reference=reference)


def _text(source: str | Path) -> str:
    return source if isinstance(source, str) else read_bytes(source).decode()


def _entry(text: str, language: Language) -> str:
    """The one function that can be called."""
    plain = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
    found = [
        match[1]
        for match in re.finditer(_ENTRIES[language], plain)
        if not re.search(r"\bstatic\b[^;{}]*$", plain[: match.start()])
    ]
    names = list(dict.fromkeys(found))
    if len(names) == 1:
        return names[0]
    said = f"{len(names)} functions that could be called: {', '.join(names)}" if names else "none"
    raise SourceError(
        f"the kernel's source has {said}"
        if names
        else "the kernel's source has no function that could be called",
        hint="name one with entry=…" if names else "write `void NAME(…)`; __global__ in CUDA C++",
    )


def _word(name: str) -> str:
    if not (name.isascii() and name.isidentifier()):
        raise UsageError(f"{name!r} cannot name a kernel", hint="letters, digits and underscores")
    return name
