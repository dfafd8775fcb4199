"""The C library's functions for kernels: a linker around the compiler's own.

The compiler turns some operations into calls of the C library (a maximum that ignores NaN into
`fmaxf`, a remainder into `fmodf`), and its linker refuses what nothing defines. For WebAssembly
those calls stay open: edgert has these functions, and gives them to kernels as imports. For 32-bit
Arm, which has no instructions for divisions and roundings, they are linked in (`armv7/`).
Everything else stays an error.
"""

import os
import shlex
from pathlib import Path

from edgec.targets import Target
from edgec.toolchain.process import package_tool

__all__ = ["LIBRARY", "linker_flag", "write_linker"]

_FLOATS = (
    *("fmax", "fmin", "fmod", "fma", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p"),
    *("pow", "sin", "cos", "tan", "tanh", "atan", "atan2", "erf", "cbrt", "round"),
)
LIBRARY = tuple(name + suffix for name in _FLOATS for suffix in ("", "f"))
"""Functions of the C library, in f64 and f32, that every edgert for WebAssembly exports."""


_WASM = "--iree-llvmcpu-wasm-linker-path"
_EMBEDDED = "--iree-llvmcpu-embedded-linker-path"
# The compiler links what it works out while it compiles, too, for its own machine: byte 18 of an
# ELF object says which one it is for, and 40 is Arm.
_FOR_ARM = """for word; do case $word in *.o) last=$word;; esac; done
if [ "$(od -An -tu1 -j18 -N1 "$last" | tr -d ' ')" = 40 ]; then set -- "$@" {}; fi
"""
_FUNCTIONS = Path(__file__).parent / "armv7" / "functions.o"


def linker_flag(target: Target, module: Path) -> list[str]:
    """The flag of the compiler that names the linker beside the module; nothing for others."""
    flag = _flag(target)
    return [f"{flag}={_linker(module)}"] if flag and os.name == "posix" else []


def write_linker(target: Target, module: Path) -> None:
    """Write the linker that `linker_flag` names, a script around the compiler's own."""
    if not linker_flag(target, module):
        return
    lld = package_tool("iree-lld")
    if lld is None:
        return  # the compiler will be missed before its linker is
    linker = _linker(module)
    if _flag(target) == _WASM:
        allowed = linker.with_suffix(".names")
        allowed.write_text("\n".join(LIBRARY) + "\n")
        more = f'set -- "$@" {shlex.quote(f"--allow-undefined-file={allowed}")}\n'
    else:
        more = _FOR_ARM.format(shlex.quote(str(_FUNCTIONS)))
    linker.write_text(f'#!/bin/sh\n{more}exec {shlex.quote(str(lld))} "$@"\n')
    linker.chmod(0o755)


def _flag(target: Target) -> str:
    triple = target.cpu.triple if target.cpu else ""
    if triple.startswith("wasm32"):
        return _WASM
    return _EMBEDDED if triple.startswith("armv7") else ""


def _linker(module: Path) -> Path:
    return module.with_suffix(".linker")
