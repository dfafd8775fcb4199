"""A kernel in C to PTX, by the clang of the wheel `ziglang` and without a GPU.

Triton decides itself how a tile lies in registers, and in a kernel that must keep memory busy at
each moment that decides everything: such a kernel is written in C. `c/gpu.h` says how.
"""

import importlib.metadata
import re
import tempfile
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from edgec.runtime.errors import CompileError
from edgec.toolchain.cache import Cache, key_of
from edgec.toolchain.kernels.cuda.variants import (
    C_SOURCES,
    FAMILIES,
    Constant,
    Variant,
    sources_digest,
)
from edgec.toolchain.kernels.gpu.dispatches import Binary
from edgec.toolchain.kernels.own.c_compiler import has_ziglang, said_by_zig
from edgec.toolchain.kernels.spec import Declined

__all__ = ["compile_c_variant", "find_in_c", "source_of", "types_of", "without_hints"]

_TYPES = {"i8": "i8", "i32": "int", "f16": "_Float16", "bf16": "__bf16", "f32": "float"}
_SHARED = re.compile(r"^.*\bedgec_room_bytes\s*=\s*(\d+);\n", re.MULTILINE)
_HINT = re.compile(r"^.*\.pragma \"used_bytes_mask .*\n", re.MULTILINE)
"""What clang says of loads whatever the version, and assemblers know from 8.3 on only."""
_VERSION = re.compile(r"^\.version \d+\.\d+$", re.MULTILINE)
_WARP = 32
_ROOMY = {"block_digits"}
"""Kernels of which a multiprocessor has few groups: the assembler need not save registers for more,
and does one thing after the other where it saves them."""
_FLAGS = (
    *("-std=c23", "-O3", "-g0", "-ffreestanding", "-nostdlib", "-fno-math-errno", "-Wall"),
    *("-Wno-unused-function", "-ffp-contract=fast", "-fno-unwind-tables"),
    *("-Wno-unused-command-line-argument", "-S"),
)


def find_in_c(variant: Variant, cache: Cache) -> Binary | Declined:
    """The kernel, compiled if it is new, wherever clang is installed."""
    if not has_ziglang():
        return Declined(reason="a kernel in C that needs edgec[cuda] to be compiled")
    version = importlib.metadata.version("ziglang")
    key = key_of("cuda-c", *_ROOMY, version, *_FLAGS, sources_digest(), variant.key)
    entry = cache.get(key)
    if entry is not None:
        return _binary(variant, entry.payload.read_bytes(), entry.note)
    ptx, facts = compile_c_variant(variant)
    cache.put(key, ptx, facts)
    return _binary(variant, ptx, facts)


def _binary(variant: Variant, data: bytes, facts: Mapping[str, int]) -> Binary:
    return Binary(name=variant.symbol, data=data, threads=facts["threads"], shared=facts["shared"])


def compile_c_variant(variant: Variant) -> tuple[bytes, dict[str, int]]:
    """The PTX of a variant in C, and its threads and shared bytes.

    Raises:
        CompileError: clang refuses it, which is an error in edgec, or takes too long.
    """
    with tempfile.TemporaryDirectory(prefix="edgec-") as folder:
        source, made = Path(folder, "kernel.c"), Path(folder, "kernel.ptx")
        source.write_text(_text(variant), encoding="utf-8")
        sources = Path(str(resources.files("edgec.toolchain") / "kernels" / "cuda" / "c"))
        family = FAMILIES[variant.family]
        words = ["clang", *_FLAGS, f"-I{sources}"]
        words += ["-target", "nvptx64-nvidia-cuda", f"-march=sm_{family.capability}"]
        # Nothing newer than the version of PTX that is asked for.
        words += ["-Xclang", "-target-feature", "-Xclang", f"+ptx{variant.ptx_version}"]
        said = said_by_zig(variant.name, [*words, str(source)], made)
        if said is not None:
            raise CompileError(
                f"clang refuses the kernel {variant.name}: {said.strip()[:2000]}",
                hint="this is an error in edgec: please report it",
            )
        text = made.read_text(encoding="utf-8")
    found = _SHARED.search(text)
    shared = int(found[1]) if found else 0
    # Each driver reads PTX of its own version and of all before: this has nothing newer.
    version = f".version {variant.ptx_version // 10}.{variant.ptx_version % 10}"
    text = _VERSION.sub(version, without_hints(_SHARED.sub("", text)), count=1)
    threads = variant.warps * _WARP
    # How many threads a group has decides how many registers each may use.
    facts = f".reqntid {threads}, 1, 1\n"
    facts += ".minnctapersm 1\n" if variant.source in _ROOMY else ""
    cluster = dict(variant.constants).get("CLUSTER", 1)
    facts += f".explicitcluster\n.reqnctapercluster {cluster}, 1, 1\n" if cluster != 1 else ""
    text = re.sub(r"^\)\n\{", f")\n{facts}{{", text, count=1, flags=re.MULTILINE)
    return text.encode(), {"threads": threads, "shared": shared}


def without_hints(ptx: str) -> str:
    """PTX without what clang says of loads, which older assemblers do not know."""
    return _HINT.sub("", ptx)


def source_of(variant: Variant, kernel: str) -> str:
    """The source with what is compiled in.

    Args:
        variant: of which kernel.
        kernel: the definition of the macro KERNEL, which begins the kernel's function.
    """
    lines = ['#include "gpu.h"']
    for name, value in variant.constants:
        lines += _compiled_in(name, value)
    for name, kind in variant.types:
        if kind[0] == "*":
            lines += [f"#define {name}_t {_TYPES[kind[1:]]}", f"#define HAS_{name} 1"]
    text = (C_SOURCES / f"{variant.source}.c").read_text(encoding="utf-8")
    return "\n".join([*lines, kernel, f'#line 1 "{variant.source}.c"', text])


def types_of(variant: Variant) -> dict[str, str]:
    """What a call gives, in C's words and in its order, by name."""
    return {
        name: f"GLOBAL {_TYPES[kind[1:]]} *" if kind[0] == "*" else "int "
        for name, kind in variant.types
    }


def _text(variant: Variant) -> str:
    """The source of PTX, which also says how much memory a group shares."""
    given = ", ".join(f"{kind}{name}" for name, kind in types_of(variant).items())
    return source_of(
        variant,
        "#define KERNEL(name, ...) "
        "GLOBAL __attribute__((used)) const u32 edgec_room_bytes = sizeof(struct memory); "
        f"__attribute__((nvptx_kernel, used)) void edgec_{variant.symbol}({given})",
    )


def _compiled_in(name: str, value: Constant) -> list[str]:
    if value is None:
        return [
            f"#define {name} ((GLOBAL float *)0)",
            f"#define {name}_t float",
            f"#define HAS_{name} 0",
        ]
    if isinstance(value, bool):
        return [f"#define {name} {int(value)}"]
    if isinstance(value, float):
        return [f"#define {name} ({value!r}f)"]
    if isinstance(value, int):
        return [f"#define {name} ({value})"]
    raise ValueError(f"the constant {name} of a kernel in C is {value!r}")
