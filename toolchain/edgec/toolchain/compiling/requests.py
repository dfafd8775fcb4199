"""What may be asked of a program and a target: module, report, command line, passes, constants."""

import tempfile
from pathlib import Path

from edgec.runtime import Module
from edgec.runtime.files import full_disk_said
from edgec.targets import Target, find
from edgec.toolchain.compiling.command_lines import Files, line_for
from edgec.toolchain.compiling.making import constants_of, make, prepare_only
from edgec.toolchain.compiling.options import CompileOptions
from edgec.toolchain.compiling.progress import Clock, Step
from edgec.toolchain.compiling.report import Compiled, PassReport
from edgec.toolchain.compiling.task import Task
from edgec.toolchain.early_refusals import refuse_halves, refuse_missing_types
from edgec.toolchain.load import load_program
from edgec.toolchain.outside import Constant
from edgec.toolchain.passes import refuse_unknown
from edgec.toolchain.precision import Precision
from edgec.toolchain.program import Program, ProgramInfo
from edgec.toolchain.tuning.profile import program_key

__all__ = ["command", "compile", "compile_with_report", "large_constants", "run_passes"]


def compile(
    program: Program | Path | str,
    target: str | Target = "cpu",
    options: CompileOptions = CompileOptions(),
) -> Module:
    """Compile a program for a target, prove the module on its device, and write it.

    Args:
        program: a `Program`, or the path of a `.mlirbc` or `.mlir` file.
        target: a target or its name (`edgec.targets.find`).
        options: how to compile. Without `output` the module is a temporary file that lives as
            long as this process.

    Raises:
        FileError: a file cannot be read or written.
        ProgramError: the program is damaged.
        TargetError: there is no such target.
        CompileError: the compiler refused the program, or died (CompilerCrash).
        WrongAnswer: the module's answers differ from the golden ones; nothing is written.
        ProfileError: `options.tuned` is of another program or target.
    """
    return compile_with_report(program, target, options).module


def command(
    program_path: Path | str,
    target: str | Target = "cpu",
    options: CompileOptions = CompileOptions(),
    info: ProgramInfo | None = None,
) -> list[str]:
    """The command line that `compile` would run; nothing is run, read or written.

    `info` is what `load_program` says of the program; without it, plain StableHLO is assumed.

    The compiler reads what edgec's passes wrote: `NAME.TARGET.mlirbc` in `keep_temps`, or in a
    temporary folder, for which the system's one stands here.
    """
    chosen = find(target) if isinstance(target, str) else target
    folder = Path(options.keep_temps or tempfile.gettempdir())
    files = Files.in_folder(folder, Path(program_path).stem, chosen)
    return line_for(files, chosen, options, info)


def compile_with_report(
    program: Program | Path | str,
    target: str | Target = "cpu",
    options: CompileOptions = CompileOptions(),
) -> Compiled:
    """As `compile`, with the report of what was done."""
    with full_disk_said():
        return make(_task(program, target, options))


def run_passes(
    program: Program | Path | str,
    target: str | Target = "cpu",
    options: CompileOptions = CompileOptions(),
) -> PassReport:
    """Run edgec's passes as `compile` would, and nothing after them.

    With `options.keep_temps` the compiler's input is kept there.

    Raises:
        As `compile`, but for what the compiler itself raises.
    """
    task = _task(program, target, options)
    with full_disk_said(), tempfile.TemporaryDirectory(prefix="edgec-") as scratch:
        return prepare_only(task, Path(scratch))


def large_constants(
    program: Program | Path | str,
    target: str | Target,
    options: CompileOptions,
    pool: Path,
) -> dict[str, Constant]:
    """The large constants of the module that `compile` would make, as they would lie in it.

    Args:
        program: as for `compile`.
        target: as for `compile`.
        options: as for `compile`.
        pool: a folder for their bytes, each in a file called by its key; what is there stays.

    Raises:
        As `compile`.
    """
    return constants_of(_task(program, target, options), pool)


def _task(program: Program | Path | str, target: str | Target, options: CompileOptions) -> Task:
    refuse_unknown(options.disabled)
    chosen = find(target) if isinstance(target, str) else target
    clock = Clock(target=chosen.name, progress=options.progress)
    with clock.step(Step.READ):
        if not isinstance(program, Program):
            program = load_program(program, cache=options.cache)
    refuse_missing_types(program.info, chosen)
    if options.precision is Precision.F16:
        refuse_halves(program.info, chosen)
    task = Task(program=program, target=chosen, options=options, clock=clock)
    if options.tuned is not None:
        options.tuned.refuse_other(program_key(program), task.name, chosen.name)
    return task
