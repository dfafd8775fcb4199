"""A program and a target to a module: the compiler behind one door."""

from edgec.toolchain.cache import Cache
from edgec.toolchain.compiling import (
    Compiled,
    CompileOptions,
    CompileReport,
    Phase,
    Step,
    command,
    compile,
    compile_with_report,
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
    "Phase",
    "Program",
    "Step",
    "command",
    "compile",
    "compile_with_report",
    "load_program",
]
