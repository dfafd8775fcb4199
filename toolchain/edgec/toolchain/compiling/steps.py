"""The steps of a compile, each in a process of its own: edgec's passes, the compiler, the check."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from edgec.runtime import mark_checked
from edgec.runtime.errors import CompileError, EdgecError
from edgec.targets import Backend
from edgec.toolchain import diagnostics, isolate
from edgec.toolchain.cache import Entry
from edgec.toolchain.check import Outcome, check_module, unchecked
from edgec.toolchain.compiling.command_lines import Files, line_for, part
from edgec.toolchain.compiling.pauses import Change, halving, pauses
from edgec.toolchain.compiling.progress import Step
from edgec.toolchain.compiling.report import PassReport
from edgec.toolchain.compiling.task import Task
from edgec.toolchain.flags import without_evaluation, without_tiling, without_verification
from edgec.toolchain.folded import FIRST_HALF
from edgec.toolchain.idle_threads import alone
from edgec.toolchain.kernels_in_place import change_kernels
from edgec.toolchain.linker import write_linker
from edgec.toolchain.nan_kept import keeping_nan_in_place
from edgec.toolchain.outside import Constant
from edgec.toolchain.precision import Integers, Precision
from edgec.toolchain.process import keep_log, run_compiler

__all__ = ["check", "compile_files", "fold", "prepare"]

_PREPARE_TIMEOUT = 1800.0
_HALF = "half.mlirbc"
"""The program between two parts of the compiler's way."""

_WITHOUT_TILING = (
    "compiled without data tiling, which makes products outside of edgec's own kernels slower, "
    "because the compiler failed with it"
)
_WITHOUT_EVALUATION = (
    "compiled without working out constants beforehand, which the device does when the module is "
    "loaded, because the compiler failed in it"
)
_ADVICE = {
    Precision.DECLARED: "the compiler's code for this target is at fault: try another target or "
    "-O1; --no-check keeps the module unproved",
    Precision.F16: "f16 is too coarse for this model: leave out --precision=f16, or say with "
    "--atol how far off its answers may be",
}


def prepare(
    task: Task,
    files: Files,
    scratch: Path,
    *,
    integers: Integers = Integers.DECLARED,
    spares: bool = False,
) -> PassReport:
    """Run edgec's passes into `files.source`.

    Args:
        task: the program and its target.
        files: where it goes.
        scratch: a folder for what lies between.
        integers: how 64-bit integers are computed.
        spares: do without kernels that take more memory than plain ones.
    """
    with task.clock.step(Step.PASSES):
        source = scratch / "program.mlirbc"
        source.write_bytes(task.program.bytecode)
        request = {
            "source": str(source),
            "output": str(files.source),
            "info": task.program.info.to_json(),
            "facts": task.facts,
            "target": task.target.to_json(),
            "settings": task.options.settings.to_json(),
            "integers": integers.value,
            "spares": spares,
            "validate": task.options.validate,
            "f32": task.options.f32.value,
            "precision": task.options.precision.value,
            "golden": task.golden,
            "identity": task.identity,
        }
        try:
            return PassReport.from_json(_isolated(task, "prepare", request))
        except EdgecError as error:
            error.where = task.place(error.where)
            raise


def compile_files(
    task: Task,
    files: Files,
    scratch: Path,
    told: Callable[[int], None] | None = None,
    *,
    wide: bool = False,
    bytes: bool = False,
    verify: bool = True,
) -> tuple[str, ...]:
    """Run the compiler on `files.source`, in parts where edgec changes what it has made.

    Args:
        task: the program and its target.
        files: what it reads and writes.
        scratch: a folder for what lies between.
        told: takes the most bytes that a call holds for a while.
        wide: whether a buffer may be larger than a kernel may reach into.
        bytes: whether kernels may hold bytes that the device may have no room for.
        verify: let the compiler check what each of its steps gives, and where it fails try it
            without what may be left out.

    Returns:
        What the user should know of that.
    """

    notes: list[str] = []

    def work(line: list[str]) -> None:
        notes.clear()
        source, entering = files.source, tuple[str, ...]()
        for number, pause in enumerate(pauses(task, told, wide=wide, bytes=bytes)):
            half = scratch / f"{number}-{_HALF}"
            _run(task, part(line, source, half, (*entering, *pause.before)), half)
            source, said = _change(task, half, pause.changes)
            notes.extend(said)
            entering = pause.after
        _run(task, part(line, source, files.module, entering), files.module)
        if task.target.backend is Backend.VULKAN:
            lanes = task.target.gpu.subgroup if task.target.gpu else 0
            change_kernels(files.module, (alone, keeping_nan_in_place), lanes)

    retried = _tried(task, files, work, verify=verify)
    return (*notes, *retried)


def fold(task: Task, files: Files, scratch: Path, pool: Path) -> dict[str, Constant]:
    """Run the compiler's first half on `files.source`; the large constants, written into a pool."""
    half = scratch / _HALF

    def work(line: list[str]) -> None:
        _run(task, part(line, files.source, half, FIRST_HALF), half)

    _tried(task, files, work)
    changed, _ = _change(task, half, halving(task))
    found = _isolated(task, "collect", {"source": str(changed), "pool": str(pool)})
    return {key: Constant.from_json(found[key]) for key in sorted(found)}


def check(task: Task, module: Path, entry: Entry | None, halves: str) -> Outcome:
    """Prove the module, or say why it is not proved; the module itself says it, too."""
    known = entry.note if entry is not None else {}
    options, golden = task.options, task.golden_to_meet
    if not options.check and known.get("proof"):
        return Outcome(text=known["check"], proof=known["proof"])
    if golden is not None:
        with task.clock.step(Step.CHECK):
            return check_module(
                module,
                golden,
                task.target,
                weights=task.weights_of(module),
                tolerance=task.tolerance(halves),
                known=known,
                advice=_ADVICE[options.precision],
                timeout=options.check_timeout,
                elsewhere=options.elsewhere,
            )
    outcome = unchecked("no golden answers" if options.check else "not asked for")
    mark_checked(module, outcome.text)
    return outcome


def _change(task: Task, source: Path, changes: Sequence[Change]) -> tuple[Path, list[str]]:
    """Let edgec change what the compiler has made; the program then, and what to tell of it."""
    notes: list[str] = []
    with task.clock.step(Step.COMPILE):
        for number, change in enumerate(changes):
            changed = source.with_name(f"{source.stem}-{number}{source.suffix}")
            places = {"source": str(source), "output": str(changed)}
            notes += change.said(_isolated(task, change.task, {**places, **change.arguments}))
            source = changed
    return source, notes


def _isolated(task: Task, name: str, arguments: Mapping[str, Any]) -> Any:
    return isolate.call(name, arguments, subject=task.name, timeout=_PREPARE_TIMEOUT)


def _tried(
    task: Task, files: Files, work: Callable[[list[str]], None], *, verify: bool = True
) -> tuple[str, ...]:
    """Give the compiler's command to `work`; where it fails, again without what may be left out.

    Without `verify` it is tried once, without the compiler's check of its own steps.
    """
    line = line_for(files, task.target, task.options, task.program.info)
    write_linker(task.target, files.module)
    if not verify:
        work(without_verification(line))
        return ()
    try:
        work(line)
    except CompileError as refusal:
        at = f" (at {refusal.where})" if refusal.where else ""
        for plainer, note in (
            (without_evaluation(line, refusal.what), _WITHOUT_EVALUATION),
            (without_tiling(line), _WITHOUT_TILING),
        ):
            if plainer is not None:
                with contextlib.suppress(CompileError):
                    work(plainer)
                    return (f"{note}: {refusal.what}{at}",)
        raise
    return ()


def _run(task: Task, line: list[str], output: Path) -> None:
    """Run one command line of the compiler, which writes `output`."""
    output.unlink(missing_ok=True)
    with task.clock.step(Step.COMPILE):
        finished = run_compiler(
            line,
            timeout=task.options.timeout,
            memory=task.options.memory,
            tick=lambda seconds: task.clock.tell(Step.COMPILE, seconds),
        )
    if finished.code != 0 or not output.exists():
        log = keep_log(f"{task.name}-{task.target.file_name}", line, finished)
        raise diagnostics.explain(finished, task.target, log, task.program.path)
