"""Kernels for WebAssembly that may call the C library: a linker that leaves those calls open.

The compiler turns some operations into calls of the C library (a maximum that ignores NaN into
`fmaxf`, a remainder into `fmodf`), and its linker refuses what nothing defines. edgert has these
functions, and gives them to kernels as imports; everything else stays an error.
"""

import importlib.util
import os
import shlex
from pathlib import Path

from edgec.targets import Target

__all__ = ["LIBRARY", "linker_flag", "write_linker"]

_FLOATS = (
    *("fmax", "fmin", "fmod", "fma", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p"),
    *("pow", "sin", "cos", "tan", "tanh", "atan", "atan2", "erf", "cbrt", "round"),
)
LIBRARY = tuple(name + suffix for name in _FLOATS for suffix in ("", "f"))
"""Functions of the C library, in f64 and f32, that every edgert for WebAssembly exports."""


def linker_flag(target: Target, module: Path) -> list[str]:
    """The flag of the compiler that names the linker beside the module; nothing for others."""
    triple = target.cpu.triple if target.cpu else ""
    if not triple.startswith("wasm32") or os.name != "posix":
        return []
    return [f"--iree-llvmcpu-wasm-linker-path={_linker(module)}"]


def write_linker(target: Target, module: Path) -> None:
    """Write the linker that `linker_flag` names, a script around the compiler's own."""
    if not linker_flag(target, module):
        return
    found = importlib.util.find_spec("iree.compiler")
    places = found.submodule_search_locations if found else None
    if not places:
        return  # the compiler will be missed before its linker is
    lld = Path(next(iter(places))) / "_mlir_libs" / "iree-lld"
    linker = _linker(module)
    allowed = linker.with_suffix(".names")
    allowed.write_text("\n".join(LIBRARY) + "\n")
    words = [str(lld), '"$@"', f"--allow-undefined-file={allowed}"]
    command = " ".join(word if word == '"$@"' else shlex.quote(word) for word in words)
    linker.write_text(f"#!/bin/sh\nexec {command}\n")
    linker.chmod(0o755)


def _linker(module: Path) -> Path:
    return module.with_suffix(".linker")
