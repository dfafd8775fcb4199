"""A program and a target to a module: the compiler behind one door."""

from edgec.toolchain.cache import Cache
from edgec.toolchain.compiling import (
    Compiled,
    CompileOptions,
    CompileReport,
    PassReport,
    Phase,
    Step,
    command,
    compile,
    compile_with_report,
    run_passes,
)
from edgec.toolchain.flags import LEVELS
from edgec.toolchain.load import load_program
from edgec.toolchain.program import Program

__all__ = [
    "LEVELS",
    "Cache",
    "CompileOptions",
    "CompileReport",
    "Compiled",
    "PassReport",
    "Phase",
    "Program",
    "Step",
    "command",
    "compile",
    "compile_with_report",
    "load_program",
    "run_passes",
]
