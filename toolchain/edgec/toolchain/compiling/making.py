"""A task to its module: from the cache, or prepared, compiled, checked, kept and written."""

import atexit
import contextlib
import dataclasses
import functools
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgec.runtime import Module
from edgec.runtime.errors import CompileError, FileError, WrongAnswer
from edgec.runtime.files import write_atomically
from edgec.runtime.kernel_share import KernelShare
from edgec.toolchain.cache import Cache, Entry, key_of
from edgec.toolchain.check import Outcome
from edgec.toolchain.compiling.command_lines import Files, line_for
from edgec.toolchain.compiling.notes import asked_notes, half_notes
from edgec.toolchain.compiling.progress import Step
from edgec.toolchain.compiling.proving import prove_kernels
from edgec.toolchain.compiling.report import Compiled, CompileReport, PassReport
from edgec.toolchain.compiling.steps import check, compile_files, fold, prepare
from edgec.toolchain.compiling.task import Task
from edgec.toolchain.outside import Constant, unpack
from edgec.toolchain.passes.place.own_kernels import OwnKernels
from edgec.toolchain.precision import Integers

__all__ = ["constants_of", "make", "prepare_only"]

_NARROWED = (
    "64-bit integers are computed in 32 bits, since the compiler does not take them as they are: "
    "values beyond 2^31 would wrap"
)
_PAIRED = (
    "64-bit integers are computed as two words of 32 bits, slower than one, since the compiler "
    "does not take them as they are"
)
_OTHERWISE = {
    Integers.NARROW: _NARROWED,
    Integers.PAIRS: _PAIRED,
    Integers.WRAPPING: _NARROWED,
}
"""How 64-bit integers are tried where they are not had as declared, and what is said of it."""
_SPARED = (
    "convolutions of 3 x 3 are computed plainly, slower than by Winograd: with that a call would "
    "hold {:.1f} MB at once, and a kernel may reach into {:.1f} of them"
)


@dataclass(frozen=True, kw_only=True)
class _Built:
    """How a module was made: its check, what to tell the user, and what its cache entry keeps."""

    outcome: Outcome
    notes: tuple[str, ...]
    halves: str
    kernels: KernelShare | None
    seconds: float
    held: int | None = None

    def note(self) -> dict[str, Any]:
        """What the cache remembers beside the module."""
        return {
            "check": self.outcome.text,
            "proof": self.outcome.proof,
            "error": self.outcome.error,
            "check_note": self.outcome.note,
            "notes": list(self.notes),
            "least_precise": self.halves,
            "kernels": None if self.kernels is None else self.kernels.to_json(),
            "seconds": self.seconds,
            "held": self.held,
        }


def make(task: Task) -> Compiled:
    """Make, check and write the module."""
    store = Cache.default() if task.options.cache else None
    key = task.key
    entry = store.get(key) if store and task.options.keep_temps is None else None
    with tempfile.TemporaryDirectory(prefix="edgec-") as scratch:
        files = _files(task, Path(scratch))
        built = _build(task, files, Path(scratch)) if entry is None else _kept(task, files, entry)
        with task.clock.step(Step.WRITE):
            made = Module.read(files.module)
            data = files.module.read_bytes()
            note = built.note()
            if store and (entry is None or dict(entry.note) != note):
                store.put(key, data, note)
            output = _output(task)
            with write_atomically(output) as stream:
                stream.write(data)
    return Compiled(
        module=dataclasses.replace(made, path=output),
        report=CompileReport(
            target=task.target.name,
            command=tuple(line_for(files, task.target, task.options, task.program.info)),
            seconds=task.clock.seconds,
            cached=entry is not None,
            making=built.seconds,
            check=built.outcome.text,
            notes=(
                *task.program.doubts,
                *asked_notes(task),
                *half_notes(task, built.halves, built.outcome),
                *([built.outcome.note] if built.outcome.note else []),
                *built.notes,
            ),
            kernels=built.kernels,
            tolerance=task.tolerance(built.halves),
            held=built.held,
        ),
    )


def prepare_only(task: Task, scratch: Path) -> PassReport:
    """Run edgec's passes, and nothing after them."""
    return prepare(task, _files(task, scratch), scratch)


def constants_of(task: Task, pool: Path) -> dict[str, Constant]:
    """Run the compiler's first half, and write the large constants into a pool."""
    store = Cache.default() if task.options.cache else None
    key = key_of("constants", task.key)
    entry = store.get(key) if store else None
    if store and entry:
        known = {name: Constant.from_json(value) for name, value in entry.note.items()}
        kept = store.get(key_of("pool", *known))
        if kept is not None:
            unpack(kept.payload, known, pool)
            return known
    with tempfile.TemporaryDirectory(prefix="edgec-") as folder:
        scratch = Path(folder)
        files = _files(task, scratch)
        prepare(task, files, scratch)
        found = fold(task, files, scratch, pool)
    if store:
        store.put(key, b"", {name: found[name].to_json() for name in found})
        store.put(key_of("pool", *found), b"".join((pool / n).read_bytes() for n in found), {})
    return found


def _kept(task: Task, files: Files, entry: Entry) -> _Built:
    """The module as the cache has it, checked again where that was not done here."""
    shutil.copyfile(entry.payload, files.module)
    halves = str(entry.note.get("least_precise", ""))
    share = entry.note.get("kernels")
    return _Built(
        outcome=check(task, files.module, entry, halves),
        notes=tuple(entry.note["notes"]),
        halves=halves,
        kernels=None if share is None else KernelShare.from_json(share),
        seconds=float(entry.note.get("seconds", 0.0)),
        held=entry.note.get("held"),
    )


def _build(task: Task, files: Files, scratch: Path) -> _Built:
    """Make and check the module; on a device without 64-bit integers, in three ways.

    Computing them in 32 bits wraps what does not fit, so it is done only where the compiler
    refuses to emulate them, or does so wrongly. Where that is wrong, too, or constants or results
    made of arguments show that more may be meant, they are computed in two words, which is right
    and slower; and such results in 32 bits where nothing else is taken.
    """
    try:
        return _made(task, files, scratch, prepare(task, files, scratch))
    except (CompileError, WrongAnswer) as error:
        if task.target.limits.i64:
            raise
        refused = error
    for integers, note in _OTHERWISE.items():
        prepared = prepare(task, files, scratch, integers=integers)
        if prepared.changes.get(integers.pass_name):
            with contextlib.suppress(CompileError, WrongAnswer):
                return _made(task, files, scratch, prepared, (note,), integers=integers)
    raise refused


def _made(
    task: Task,
    files: Files,
    scratch: Path,
    prepared: PassReport,
    notes: tuple[str, ...] = (),
    *,
    integers: Integers = Integers.DECLARED,
) -> _Built:
    """Compile what was prepared into `files.module`, and check it."""
    own = prepared.changes.get(OwnKernels.name)
    proved = prove_kernels(task, scratch, make) if own else ()

    def made(prepared: PassReport, *, verify: bool) -> _Built:
        prepared, retried, held = _compiled(
            task, files, scratch, prepared, integers=integers, verify=verify
        )
        return _Built(
            outcome=check(task, files.module, None, prepared.least_precise),
            notes=(*notes, *prepared.comparisons, *prepared.notes, *proved, *retried),
            halves=prepared.least_precise,
            kernels=prepared.kernels,
            seconds=sum(task.clock.seconds.get(step, 0.0) for step in (Step.PASSES, Step.COMPILE)),
            held=held,
        )

    if task.may_be_proved:
        # What is not proved after all, or fails, is compiled once more with the compiler's checks.
        try:
            built = made(prepared, verify=False)
            if built.outcome.proof:
                return built
        except (CompileError, WrongAnswer):
            limit = task.options.timeout
            if limit is not None and task.clock.seconds.get(Step.COMPILE, 0.0) >= limit:
                raise
        if prepared.roomy:  # others may have been prepared in its place
            prepared = prepare(task, files, scratch, integers=integers)
    return made(prepared, verify=True)


def _compiled(
    task: Task,
    files: Files,
    scratch: Path,
    prepared: PassReport,
    *,
    integers: Integers,
    verify: bool,
) -> tuple[PassReport, tuple[str, ...], int | None]:
    """Compile what was prepared; where it takes too much memory for its kernels, plainer ones.

    Returns:
        What the module was made of, what to tell of it, and the most bytes that a call holds for a
        while, where that was asked for.
    """
    most = task.target.limits.binding
    compiled = functools.partial(compile_files, task, files, scratch, verify=verify)
    wide = most > 0 and prepared.may_hold(most)
    told: list[int] = []
    asked = told.append if prepared.roomy or task.options.weighed else None
    notes = compiled(asked, wide=wide, bytes=prepared.bytes)
    if not prepared.roomy or not most or told[-1] <= most:
        return prepared, notes, told[-1] if told else None
    held = told[-1]
    spared = prepare(task, files, scratch, integers=integers, spares=True)
    asked = told.append if task.options.weighed else None
    notes = (
        _SPARED.format(held / 1e6, most / 1e6),
        *compiled(asked, wide=spared.may_hold(most), bytes=spared.bytes),
    )
    return spared, notes, told[-1] if asked else None


def _files(task: Task, scratch: Path) -> Files:
    folder = Path(task.options.keep_temps or scratch)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot make {folder}: {error.strerror}") from error
    return Files.in_folder(folder, task.name, task.target)


def _output(task: Task) -> Path:
    if task.options.output is not None:
        return Path(task.options.output)
    return Path(tempfile.mkdtemp(dir=_process_folder())) / f"{task.name}.vmfb"


@functools.cache
def _process_folder() -> Path:
    """A folder for modules without a place of their own, removed when this process ends."""
    folder = Path(tempfile.mkdtemp(prefix="edgec-modules-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
