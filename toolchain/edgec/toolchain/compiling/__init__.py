"""A program and a target to a module: prepare, compile, check, write."""

from edgec.toolchain.compiling.options import VALIDATE_VARIABLE, CompileOptions
from edgec.toolchain.compiling.progress import Phase, Step
from edgec.toolchain.compiling.report import Compiled, CompileReport, PassReport
from edgec.toolchain.compiling.requests import (
    command,
    compile,
    compile_with_report,
    large_constants,
    run_passes,
)
from edgec.toolchain.compiling.task import versions

__all__ = [
    "VALIDATE_VARIABLE",
    "CompileOptions",
    "CompileReport",
    "Compiled",
    "PassReport",
    "Phase",
    "Step",
    "command",
    "compile",
    "compile_with_report",
    "large_constants",
    "run_passes",
    "versions",
]
