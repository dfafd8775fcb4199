"""An artefact of another day and its program to a module of today's compiler, and what changed.

The new module answers the calls that the old artefact brings; the old one is asked, too, where it
still runs.
"""

import hashlib
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from edgec.runtime import Golden, Module, load
from edgec.runtime.errors import CompileError, EdgecError, ProgramError
from edgec.runtime.files import read_bytes, write_atomically
from edgec.runtime.seeded_calls import SeededCalls
from edgec.runtime.signature import Signature
from edgec.runtime.tolerance import Tolerance
from edgec.toolchain.compiling import CompileOptions, compile_with_report
from edgec.toolchain.load import load_program
from edgec.toolchain.program import Program
from edgec.toolchain.seeding import answer_seeds
from edgec.verifying.outputs import Verdict, judged
from edgec.verifying.subject import Calls, Subject, refuse_other

__all__ = ["State", "Upgraded", "find_program", "renewed", "upgrade"]

_PROGRAMS = (".mlirbc", ".mlir")
_SECONDS, _MOST_CALLS = 0.5, 50


@dataclass(frozen=True, kw_only=True)
class State:
    """A module as it is here and now.

    Attributes:
        module: the module.
        size: bytes of its file.
        verdict: how far its answers are from those that the old artefact brings; None where it does
            not run here.
        milliseconds: the median of a call of the first of them; None where it does not run.
        refused: why it does not run.
    """

    module: Module
    size: int
    verdict: Verdict | None = None
    milliseconds: float | None = None
    refused: str = ""

    @property
    def worst(self) -> float | None:
        """The largest difference of any output."""
        if self.verdict is None:
            return None
        outputs = [output for call in self.verdict.calls for output in call.outputs]
        return max((output.worst for output in outputs), default=0.0)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types."""
        facts = self.module.facts
        return {
            "file": str(self.module.path),
            "bytes": self.size,
            "target": facts.target,
            "edgec": facts.edgec,
            "compiler": facts.compiler,
            "runs": self.verdict is not None,
            "refused": self.refused,
            "ok": None if self.verdict is None else self.verdict.ok,
            "max_abs": self.worst,
            "milliseconds": self.milliseconds,
        }


@dataclass(frozen=True, kw_only=True)
class Upgraded:
    """What came of it.

    Attributes:
        new: the module of today's compiler, right by the old artefact's answers.
        old: the module that was given; None where a program was.
        program: what was compiled.
        source: whose answers they are.
        notes: what the user should know.
    """

    new: State
    old: State | None
    program: Program
    source: str
    notes: tuple[str, ...] = ()


def find_program(module: Module, folder: Path | str | None = None) -> Path:
    """The program that a module was compiled of, beside it: by the digest in it, else by its name.

    Args:
        module: the module.
        folder: where to look; None for the module's own.

    Raises:
        ProgramError: there is none.
    """
    folder = module.path.parent if folder is None else Path(folder)
    names = (module.path.stem, module.path.name.partition(".")[0])
    beside = sorted(file for file in folder.iterdir() if file.suffix in _PROGRAMS)
    beside.sort(key=lambda file: file.stem not in names)
    for file in beside:
        if module.facts.program and _digest(file) == module.facts.program:
            return file
    for file in beside:
        if file.stem in names:
            return file
    digest = f" (SHA-256 {module.facts.program})" if module.facts.program else ""
    raise ProgramError(
        f"{module.path} holds no program, and the one it was compiled of{digest} is not beside it",
        hint="name it with --program=FILE.mlirbc, or export the model again and compile that",
    )


def upgrade(
    old: Path | str,
    *,
    output: Path | str,
    program: Path | str | None,
    target: str | None,
    options: CompileOptions,
) -> Upgraded:
    """Compile again, and prove the result by what the old artefact knows.

    Args:
        old: a module, or a program.
        output: where the new module goes; it is there only if its answers are right.
        program: what a module was compiled of; None for the one beside it.
        target: what to compile for; None for the old module's own, or this machine's CPU.
        options: how to compile.

    Raises:
        ProgramError: there is no program, or there are no answers to prove by.
        FileError: a file cannot be read or written.
        CompileError: today's compiler refuses the program.
        WrongAnswer: the new module's answers are not the old artefact's.
    """
    old, output = Path(old), Path(output)
    program = None if program is None else Path(program)
    module = None if old.suffix in _PROGRAMS else Module.read(old)
    found = program or (old if module is None else find_program(module))
    source = load_program(found, cache=options.cache)
    known = _known(old, module, source)
    notes = []
    if module is not None and module.facts.program not in ("", _digest(found)):
        notes.append(f"{found} is not the very program that {old} was compiled of")
    if module is not None and module.seal is not None:
        notes.append(f"{old} is signed, and {output} is not: `edgec sign` signs it")
    wanted = target or (module.facts.target if module is not None else "") or "cpu"
    if module is None or module.golden:
        try:
            options = replace(options, seeded=answer_seeds(source, options))
        except EdgecError as error:
            notes.append(f"the new module brings no golden answers: {error.what}")
    with tempfile.TemporaryDirectory(prefix="edgec-") as scratch:
        unproved = Path(scratch, output.name)
        compiled = compile_with_report(source, wanted, replace(options, output=unproved))
        tolerance = compiled.report.tolerance
        proved = _proved(old, module, compiled.module, source, known, tolerance)
        with write_atomically(output) as stream:
            stream.write(read_bytes(unproved))
    new = replace(proved.new, module=replace(proved.new.module, path=output))
    more = [note.replace(str(unproved), str(output)) for note in proved.notes]
    return replace(proved, new=new, notes=(*notes, *more, *compiled.report.notes))


def renewed(old: Module, new: Module, program: Program) -> Upgraded:
    """A module of another day and one of today of the same program: the new proved by the old.

    Raises:
        ProgramError: there are no answers to prove by.
        CompileError: the new one has other functions.
        WrongAnswer: its answers are not the old one's.
    """
    return _proved(old.path, old, new, program, _known(old.path, old, program), None)


def _proved(
    file: Path,
    old: Module | None,
    new: Module,
    program: Program,
    known: tuple[Calls, str],
    tolerance: Tolerance | None,
) -> Upgraded:
    """Ask both, where they run."""
    calls, whose = known
    if old is not None:
        _refuse_others(old, new)
    if isinstance(calls, Golden):
        refuse_other(new, calls.calls, file)
    now = _state(new, calls, whose, tolerance=tolerance)
    notes: tuple[str, ...] = ()
    if now.verdict is None:
        notes = (f"nobody has asked {new.path}: it does not run here ({now.refused})",)
    else:
        failure = now.verdict.failure(f"{file}, compiled again,")
        if failure is not None:
            raise failure
    before = None if old is None else _state(old, calls, whose, tolerance=tolerance)
    return Upgraded(new=now, old=before, program=program, source=whose, notes=notes)


def _known(old: Path, module: Module | None, program: Program) -> tuple[Calls, str]:
    """The calls that the old artefact brings, and whose answers they are."""
    beside = Golden.path_for(old)
    if module is not None and beside.exists():
        return Golden.load(beside), str(beside)
    if module is not None and module.golden:
        seeded = SeededCalls.read(module.golden)
        return seeded, seeded.source
    if program.golden is not None and program.golden.calls:
        return program.golden, program.info.provenance.framework
    raise ProgramError(
        f"neither {old} nor its program has golden answers that a new module could be proved by",
        hint="export the model again with edgec, which records them",
    )


def _refuse_others(old: Module, new: Module) -> None:
    """Refuse another interface than the old module's.

    Raises:
        CompileError: a function is another, or gone.
    """
    # Another compiler's module says nothing of names, and IREE's own are others than ours.
    is_named = bool(old.facts.edgec)
    for name, signature in old.signatures.items():
        found = new.signatures.get(name)
        if found is None or _interface(found, is_named) != _interface(signature, is_named):
            raise CompileError(
                f"the program has no function {signature} any more, as {old.path} has",
                hint="name the program that the module was compiled of with --program",
            )


def _interface(signature: Signature, is_named: bool) -> object:
    """What has to be alike: all that is said of a function, or its types and sizes alone."""
    if is_named:
        return str(signature)
    specs = (*signature.inputs, *signature.outputs)
    types = [
        (spec.dtype, *(size if isinstance(size, int) else None for size in spec.shape))
        for spec in specs
    ]
    return len(signature.inputs), types


def _state(module: Module, calls: Calls, source: str, *, tolerance: Tolerance | None) -> State:
    """Make the calls, where the module runs, and time the first."""
    subject = Subject(module=module, calls=calls, source=source, tolerance=tolerance, program=None)
    size = module.path.stat().st_size
    try:
        with load(module) as loaded:
            results = [
                [np.array(array.numpy()) for array in loaded[name].call_flat(inputs)]
                for name, inputs in subject.asked
            ]
            name, inputs = subject.asked[0]
            times = _times(loaded[name].call_flat, inputs)
    except EdgecError as error:
        return State(module=module, size=size, refused=error.what)
    return State(
        module=module,
        size=size,
        verdict=judged(subject, results),
        milliseconds=statistics.median(times) * 1e3,
    )


def _times(call: Any, inputs: Sequence[np.ndarray]) -> list[float]:
    times: list[float] = []
    while len(times) < 3 or (sum(times) < _SECONDS and len(times) < _MOST_CALLS):
        begin = time.perf_counter()
        for array in call(inputs):
            array.numpy()
        times.append(time.perf_counter() - begin)
    return times


def _digest(file: Path) -> str:
    return hashlib.sha256(read_bytes(file)).hexdigest()
