"""A program and a target to a module: prepare, compile, check, write."""

import atexit
import dataclasses
import functools
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from importlib import metadata
from pathlib import Path
from typing import Any

from edgec.runtime import Module, Tolerance, mark_checked
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import CompileError, EdgecError, FileError, WrongAnswer
from edgec.runtime.files import full_disk_said, write_atomically
from edgec.runtime.kernel_share import KernelShare
from edgec.targets import Backend, Target, find
from edgec.toolchain import diagnostics, isolate
from edgec.toolchain.cache import Cache, Entry, key_of
from edgec.toolchain.check import Elsewhere, Outcome, check_module, unchecked
from edgec.toolchain.early_refusals import TEXT
from edgec.toolchain.fingerprint import fingerprint
from edgec.toolchain.flags import command_line, compile_flags, without_tiling
from edgec.toolchain.kernels.cpu.source.cut import Cut
from edgec.toolchain.kernels.gpu.tiles import Tile
from edgec.toolchain.linker import linker_flag, write_linker
from edgec.toolchain.load import load_program
from edgec.toolchain.outside import FIRST_HALF, SECOND_HALF, Constant, Outside, unpack
from edgec.toolchain.passes import refuse_unknown
from edgec.toolchain.passes.legalise.narrow_integers import NarrowIntegers
from edgec.toolchain.precision import F32, Precision
from edgec.toolchain.process import compiler_path, compiler_version, keep_log, run_compiler
from edgec.toolchain.program import Dialect, Program, ProgramInfo
from edgec.toolchain.settings import Settings
from edgec.toolchain.tuning.profile import Profile, program_key

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

VALIDATE_VARIABLE = "EDGEC_VALIDATE"
"""The environment variable that asks for `CompileOptions.validate` everywhere."""

_PREPARE_TIMEOUT = 1800.0
_ROUNDED = (
    "products of f32 are rounded to TF32, as asked: 11 bits of each number, so that a product is "
    "off by about 3e-4"
)
_NARROWED = (
    "64-bit integers are computed in 32 bits, since the compiler does not take them as they are: "
    "values beyond 2^31 would wrap"
)


_WITHOUT_TILING = (
    "compiled without data tiling, which makes products outside of edgec's own kernels slower, "
    "because the compiler failed with it"
)


_ADVICE = {
    Precision.DECLARED: "the compiler's code for this target is at fault: try another target or "
    "-O1; --no-check keeps the module unproved",
    Precision.F16: "f16 is too coarse for this model: leave out --precision=f16, or say with "
    "--atol how far off its answers may be",
}


class Step(Enum):
    """The steps of a compile, in order."""

    READ = "read"
    PASSES = "passes"
    COMPILE = "compile"
    CHECK = "check"
    WRITE = "write"


@dataclass(frozen=True, kw_only=True)
class Phase:
    """Progress: which step is at work, on which target, and for how many seconds now."""

    step: Step
    target: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class CompileOptions:
    """How to compile.

    Attributes:
        output: where the module goes; without it, into edgec's cache folder.
        level: 0 to 3, as in `-O2`; None for the profile's, or 2.
        disabled: names of edgec's passes to leave out (`edgec.toolchain.passes.CATALOGUE`).
        iree_args: passed on to iree-compile after edgec's own flags and the profile's.
        cuts: how kernels of edgec's own are cut, by `KernelKey`; they win over the profile's.
        tiles: the same for kernels of GPUs.
        tuned: what `edgec tune` found for this program and target.
        check: run the golden answers where the device is present.
        cache: take and keep finished modules.
        keep_temps: a folder that keeps the compiler's input and intermediate files; the program
            is then compiled even if its module is in the cache.
        progress: called with each `Phase`, several times a second while the compiler works.
        timeout: seconds the compiler may take.
        memory: bytes of address space the compiler may take (Linux only).
        check_timeout: seconds the check may take.
        elsewhere: what makes the golden calls where the target's device is not here.
        tolerance: how far answers may be off in the check; None for each type's default.
        f32: how products of f32 are computed, where the device has a choice.
        precision: what f32 is computed in; arguments and results stay as they are declared.
        validate: compare each match of operations with what these compute, and refuse a wrong one;
            `EDGEC_VALIDATE=1` in the environment asks for it, too.
        outside: constants that the module reads from a weights file (`large_constants`).
    """

    output: Path | str | None = None
    level: int | None = None
    disabled: tuple[str, ...] = ()
    iree_args: tuple[str, ...] = ()
    cuts: Mapping[str, Cut] = field(default_factory=dict)
    tiles: Mapping[str, Tile] = field(default_factory=dict)
    tuned: Profile | None = None
    check: bool = True
    cache: bool = True
    keep_temps: Path | str | None = None
    progress: Callable[[Phase], None] | None = None
    timeout: float | None = None
    memory: int | None = None
    check_timeout: float = 300.0
    elsewhere: Elsewhere | None = None
    tolerance: Tolerance | None = None
    f32: F32 = F32.FULL
    precision: Precision = Precision.DECLARED
    validate: bool = field(default_factory=lambda: os.environ.get(VALIDATE_VARIABLE) == "1")
    outside: Outside | None = None

    @property
    def settings(self) -> Settings:
        """What was asked for here over what the profile says, over the defaults."""
        found = self.tuned.winner if self.tuned is not None else Settings()
        return Settings(
            level=found.level if self.level is None else self.level,
            disabled=tuple(sorted({*found.disabled, *self.disabled})),
            iree_args=(*found.iree_args, *self.iree_args),
            cuts={**found.cuts, **self.cuts},
            tiles={**found.tiles, **self.tiles},
        )


@dataclass(frozen=True, kw_only=True)
class PassReport:
    """What edgec's passes did to a program.

    Attributes:
        changes: in how many places each pass changed it, by name; only those that ran, in order.
        seconds: how long each took, by name, and `parse` and `write`.
        least_precise: `bf16` or `f16` if the program multiplies matrices in it; else empty.
        validated: how many matches of each kind agree with their operations, if that was asked for.
        unvalidated: why other matches were not compared.
        kernels: what share of the work edgec's own kernels do; None for another dialect.
        tiled: how many kernels of a GPU there are of each key that a tile is chosen by.
    """

    changes: Mapping[str, int]
    seconds: Mapping[str, float]
    least_precise: str = ""
    validated: Mapping[str, int] = field(default_factory=dict)
    unvalidated: Sequence[str] = ()
    kernels: KernelShare | None = None
    tiled: Mapping[str, int] = field(default_factory=dict)

    @property
    def comparisons(self) -> tuple[str, ...]:
        """What a person should know of `validated` and `unvalidated`."""
        agree = ", ".join(f"{count} {what}" for what, count in self.validated.items())
        return (
            *((f"matches that agree with their operations: {agree}",) if agree else ()),
            *(f"not compared: {why}" for why in self.unvalidated),
        )

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "PassReport":
        """From the reply of the process that ran them."""
        share = value["kernels"]
        return cls(
            changes=value["changes"],
            seconds=value["seconds"],
            least_precise=value["least_precise"],
            validated=value["validated"],
            unvalidated=value["unvalidated"],
            kernels=None if share is None else KernelShare.from_json(share),
            tiled=value["tiled"],
        )


@dataclass(frozen=True, kw_only=True)
class CompileReport:
    """What a compile did.

    Attributes:
        target: the target's name.
        command: the compiler's command line.
        seconds: wall time of each step that ran.
        cached: whether the module came from the cache.
        check: `checked on …` or `unchecked: …`, as the module says.
        notes: what the user should know of how the module was made.
        kernels: what share of the work edgec's own kernels do, and all that was left to the
            compiler, with the reason; None for a program that is not StableHLO.
        tolerance: how far answers may be off; None for each type's default.
    """

    target: str
    command: tuple[str, ...]
    seconds: dict[Step, float]
    cached: bool
    check: str
    notes: tuple[str, ...] = ()
    kernels: KernelShare | None = None
    tolerance: Tolerance | None = None

    @property
    def total(self) -> float:
        """Seconds of all steps."""
        return sum(self.seconds.values())


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """A module with the report of its making."""

    module: Module
    report: CompileReport


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
    files = _Files.in_folder(folder, Path(program_path).stem, chosen)
    return _command(files, chosen, options, info)


@dataclass(frozen=True, kw_only=True)
class _Files:
    """Where one compile keeps the compiler's input and output."""

    source: Path
    module: Path

    @classmethod
    def in_folder(cls, folder: Path, name: str, target: Target) -> "_Files":
        stem = f"{name}.{target.file_name}"
        return cls(source=folder / f"{stem}.mlirbc", module=folder / f"{stem}.vmfb")


def _command(
    files: _Files, target: Target, options: CompileOptions, info: ProgramInfo | None
) -> list[str]:
    flags = _flags(target, options, info)
    if options.keep_temps is not None:
        flags.append(f"--iree-hal-dump-executable-files-to={files.module.with_suffix('.kernels')}")
    flags += linker_flag(target, files.module)
    return command_line(
        compiler_path(), files.source, files.module, flags, options.settings.iree_args
    )


def _flags(target: Target, options: CompileOptions, info: ProgramInfo | None) -> list[str]:
    level = options.settings.level
    if info is None:
        return compile_flags(target, level=level)
    return compile_flags(target, level=level, dialect=info.dialect, doubles=info.needs_doubles)


def compile_with_report(
    program: Program | Path | str,
    target: str | Target = "cpu",
    options: CompileOptions = CompileOptions(),
) -> Compiled:
    """As `compile`, with the report of what was done."""
    with full_disk_said():
        return _job(program, target, options).run()


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
    job = _job(program, target, options)
    with full_disk_said(), tempfile.TemporaryDirectory(prefix="edgec-") as scratch:
        return job.prepare(Path(scratch))


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
    return _job(program, target, options).constants(pool)


def _job(program: Program | Path | str, target: str | Target, options: CompileOptions) -> "_Job":
    refuse_unknown(options.disabled)
    chosen = find(target) if isinstance(target, str) else target
    clock = _Clock(target=chosen.name, progress=options.progress)
    with clock.step(Step.READ):
        if not isinstance(program, Program):
            program = load_program(program, cache=options.cache)
    _refuse_missing_types(program, chosen)
    if options.precision is Precision.F16:
        _refuse_halves(program, chosen)
    job = _Job(program=program, target=chosen, options=options, clock=clock)
    if options.tuned is not None:
        options.tuned.refuse_other(program_key(program), job.name, chosen.name)
    return job


@dataclass(frozen=True, kw_only=True)
class _Clock:
    """Times the steps of one compile and tells who asked."""

    target: str
    progress: Callable[[Phase], None] | None
    seconds: dict[Step, float] = field(default_factory=dict)

    def tell(self, step: Step, seconds: float) -> None:
        if self.progress is not None:
            self.progress(Phase(step=step, target=self.target, seconds=seconds))

    @contextmanager
    def step(self, step: Step) -> Iterator[None]:
        self.tell(step, 0.0)
        start = time.monotonic()
        try:
            yield
        finally:
            self.seconds[step] = self.seconds.get(step, 0.0) + time.monotonic() - start


@dataclass(frozen=True, kw_only=True)
class _Built:
    """How a module was made: its check, what to tell the user, and what its cache entry keeps."""

    outcome: Outcome
    notes: tuple[str, ...]
    halves: str
    kernels: KernelShare | None

    def note(self) -> dict[str, Any]:
        """What the cache remembers beside the module."""
        return {
            "check": self.outcome.text,
            "proof": self.outcome.proof,
            "error": self.outcome.error,
            "notes": list(self.notes),
            "least_precise": self.halves,
            "kernels": None if self.kernels is None else self.kernels.to_json(),
        }


@dataclass(frozen=True, kw_only=True)
class _Job:
    """One program for one target."""

    program: Program
    target: Target
    options: CompileOptions
    clock: _Clock

    def run(self) -> Compiled:
        """Make, check and write the module."""
        store = Cache.default() if self.options.cache else None
        key = self._key()
        entry = store.get(key) if store and self.options.keep_temps is None else None
        with tempfile.TemporaryDirectory(prefix="edgec-") as scratch:
            files = self._files(Path(scratch))
            if entry is not None:
                shutil.copyfile(entry.payload, files.module)
                halves = str(entry.note.get("least_precise", ""))
                share = entry.note.get("kernels")
                built = _Built(
                    outcome=self._check(files.module, entry, halves),
                    notes=tuple(entry.note["notes"]),
                    halves=halves,
                    kernels=None if share is None else KernelShare.from_json(share),
                )
            else:
                built = self._build(files, Path(scratch))
            with self.clock.step(Step.WRITE):
                made = Module.read(files.module)
                data = files.module.read_bytes()
                note = built.note()
                if store and (entry is None or dict(entry.note) != note):
                    store.put(key, data, note)
                output = self._output()
                with write_atomically(output) as stream:
                    stream.write(data)
        return Compiled(
            module=dataclasses.replace(made, path=output),
            report=CompileReport(
                target=self.target.name,
                command=tuple(_command(files, self.target, self.options, self.program.info)),
                seconds=self.clock.seconds,
                cached=entry is not None,
                check=built.outcome.text,
                notes=(
                    *self.program.doubts,
                    *_tuned_notes(self.options),
                    *_disabled_notes(self.options),
                    *self._f32_notes(),
                    *self._half_notes(built),
                    *built.notes,
                ),
                kernels=built.kernels,
                tolerance=self._tolerance(built.halves),
            ),
        )

    @property
    def _rounds_f32(self) -> bool:
        return self.options.f32 is F32.TF32 and self.target.backend is Backend.CUDA

    def _f32_notes(self) -> tuple[str, ...]:
        if self.options.f32 is F32.FULL:
            return ()
        if not self._rounds_f32:
            return (f"--f32={self.options.f32.value} changes nothing for {self.target.name}",)
        return (_ROUNDED,)

    def _half_notes(self, built: "_Built") -> tuple[str, ...]:
        if self.options.precision is not Precision.F16:
            return ()
        if built.halves != "f16":
            return ("--precision=f16 changes nothing: there is no product of f32 in the program",)
        said = "how far its answers are off was not checked"
        if built.outcome.proof:
            most = Tolerance.of(DType.F16).spread / 3
            said = (
                f"answers are off by {built.outcome.error:.1e} of their spread from the "
                f"framework's in f32, where {most:.1e} is allowed"
            )
        return (f"computed in f16, as asked: {said}",)

    def prepare(self, scratch: Path) -> PassReport:
        """Run edgec's passes only."""
        return self._prepare(self._files(scratch), scratch, narrow=False)

    def constants(self, pool: Path) -> dict[str, Constant]:
        """Run the compiler's first half, and write the large constants into a pool."""
        store = Cache.default() if self.options.cache else None
        key = key_of("constants", self._key())
        entry = store.get(key) if store else None
        if store and entry:
            known = {name: Constant.from_json(value) for name, value in entry.note.items()}
            kept = store.get(key_of("pool", *known))
            if kept is not None:
                unpack(kept.payload, known, pool)
                return known
        found = self._constants(pool)
        if store:
            store.put(key, b"", {name: found[name].to_json() for name in found})
            store.put(key_of("pool", *found), b"".join((pool / n).read_bytes() for n in found), {})
        return found

    def _constants(self, pool: Path) -> dict[str, Constant]:
        with tempfile.TemporaryDirectory(prefix="edgec-") as folder:
            scratch = Path(folder)
            files = self._files(scratch)
            self._prepare(files, scratch, narrow=False)
            half = scratch / _HALF
            self._tried(files, lambda line: self._run(_first_half(line, half), half, scratch))
            found = self._isolated("collect", {"source": str(half), "pool": str(pool)})
        return {key: Constant.from_json(found[key]) for key in sorted(found)}

    def _isolated(self, task: str, arguments: Mapping[str, Any]) -> Any:
        return isolate.call(task, arguments, subject=self.name, timeout=_PREPARE_TIMEOUT)

    def _files(self, scratch: Path) -> _Files:
        folder = Path(self.options.keep_temps or scratch)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileError(f"cannot make {folder}: {error.strerror}") from error
        return _Files.in_folder(folder, self.name, self.target)

    def _build(self, files: _Files, scratch: Path) -> "_Built":
        """Make and check the module; on a device without 64-bit integers, in two ways.

        Computing them in 32 bits wraps what does not fit, so it is done only where the compiler
        refuses to emulate them, or does so wrongly.
        """
        try:
            return self._make(files, scratch, self._prepare(files, scratch, narrow=False))
        except (CompileError, WrongAnswer) as error:
            if self.target.limits.i64:
                raise
            prepared = self._prepare(files, scratch, narrow=True)
            if not prepared.changes.get(NarrowIntegers.name):
                raise
            refused = error
        try:
            return self._make(files, scratch, prepared, (_NARROWED,))
        except (CompileError, WrongAnswer):
            raise refused from None

    def _make(
        self, files: _Files, scratch: Path, prepared: "PassReport", notes: tuple[str, ...] = ()
    ) -> "_Built":
        """Compile what was prepared into `files.module`, and check it."""
        retried = self._compile(files, scratch)
        return _Built(
            outcome=self._check(files.module, None, prepared.least_precise),
            notes=(*notes, *prepared.comparisons, *retried),
            halves=prepared.least_precise,
            kernels=prepared.kernels,
        )

    def _prepare(self, files: _Files, scratch: Path, *, narrow: bool) -> "PassReport":
        """Run edgec's passes into `files.source`."""
        with self.clock.step(Step.PASSES):
            source = scratch / "program.mlirbc"
            source.write_bytes(self.program.bytecode)
            try:
                prepared = isolate.call(
                    "prepare",
                    {
                        "source": str(source),
                        "output": str(files.source),
                        "info": self.program.info.to_json(),
                        "facts": self._facts(),
                        "target": self.target.to_json(),
                        "settings": self.options.settings.to_json(),
                        "narrow": narrow,
                        "validate": self.options.validate,
                        "f32": self.options.f32.value,
                        "precision": self.options.precision.value,
                    },
                    subject=self.name,
                    timeout=_PREPARE_TIMEOUT,
                )
            except EdgecError as error:
                error.where = self._place(error.where)
                raise
        return PassReport.from_json(prepared)

    def _place(self, where: str | None) -> str | None:
        """A place with the user's file where it is in the program's text."""
        if where and where.startswith(f"{TEXT}:") and self.program.path:
            return f"{self.program.path}{where.removeprefix(TEXT)}"
        return where

    def _compile(self, files: _Files, scratch: Path) -> tuple[str, ...]:
        """Run the compiler on `files.source`, in two halves where constants go outside.

        Returns:
            What the user should know of that.
        """
        outside = self.options.outside

        def work(line: list[str]) -> None:
            if outside is None:
                self._run(line, files.module, scratch)
                return
            half, moved = scratch / _HALF, scratch / f"moved-{_HALF}"
            self._run(_first_half(line, half), half, scratch)
            arguments = {"source": str(half), "output": str(moved), "file": outside.file}
            self._isolated("move_out", {**arguments, "keys": sorted(outside.keys)})
            self._run(_second_half(line, moved), files.module, scratch)

        return self._tried(files, work)

    def _tried(self, files: _Files, work: Callable[[list[str]], None]) -> tuple[str, ...]:
        """Give the compiler's command to `work`; where it fails with data tiling, again without."""
        line = _command(files, self.target, self.options, self.program.info)
        write_linker(self.target, files.module)
        try:
            work(line)
        except CompileError as refusal:
            plainer = without_tiling(line)
            if plainer is None:
                raise
            try:
                work(plainer)
            except CompileError:
                raise refusal from None
            at = f" (at {refusal.where})" if refusal.where else ""
            return (f"{_WITHOUT_TILING}: {refusal.what}{at}",)
        return ()

    def _run(self, line: list[str], output: Path, scratch: Path) -> None:
        """Run one command line of the compiler, which writes `output`."""
        output.unlink(missing_ok=True)
        with self.clock.step(Step.COMPILE):
            finished = run_compiler(
                line,
                timeout=self.options.timeout,
                memory=self.options.memory,
                tick=lambda seconds: self.clock.tell(Step.COMPILE, seconds),
            )
        if finished.code != 0 or not output.exists():
            log = keep_log(f"{self.name}-{self.target.file_name}", line, finished)
            raise diagnostics.explain(finished, self.target, log, self.program.path)

    def _check(self, module: Path, entry: Entry | None, halves: str) -> Outcome:
        """Prove the module, or say why it is not proved; the module itself says it, too."""
        known = entry.note if entry is not None else {}
        golden = self.program.golden
        if not self.options.check and known.get("proof"):
            return Outcome(text=known["check"], proof=known["proof"])
        if self.options.check and golden is not None and golden.calls:
            advice = _ADVICE[self.options.precision]
            with self.clock.step(Step.CHECK):
                return check_module(
                    module,
                    golden,
                    self.target,
                    weights=self._weights_of(module),
                    tolerance=self._tolerance(halves),
                    known=known,
                    advice=advice,
                    timeout=self.options.check_timeout,
                    elsewhere=self.options.elsewhere,
                )
        outcome = unchecked("no golden answers" if self.options.check else "not asked for")
        mark_checked(module, outcome.text)
        return outcome

    def _tolerance(self, halves: str) -> Tolerance | None:
        """How far answers may be off; None for each type's default.

        A program that multiplies in 16-bit floats (`halves` is their type) is no more precise than
        they are, whatever the type of its results.
        """
        if self.options.tolerance is not None:
            return self.options.tolerance
        if self._rounds_f32 and not halves:
            halves = "f16"  # TF32 has as many bits after the point.
        return Tolerance.of(DType(halves)) if halves else None

    def _key(self) -> str:
        flags = _flags(self.target, self.options, self.program.info)
        return key_of(
            "module",
            self.program.bytecode,
            self.program.info.to_json(),
            json.dumps(flags),
            self.options.settings.key,
            json.dumps(self._facts(), sort_keys=True),
            json.dumps(self.target.to_json(), sort_keys=True),
            json.dumps([fingerprint(), self.options.validate]),
            self.options.f32.value,
            self.options.precision.value,
            *self._outside_key(),
        )

    def _outside_key(self) -> tuple[str, ...]:
        outside = self.options.outside
        return () if outside is None else (outside.file, *sorted(outside.keys))

    def _weights_of(self, module: Path) -> Path | None:
        """The weights file of the module as it is before it has its place."""
        outside = self.options.outside
        if outside is not None and Module.read(module).facts.weights is not None:
            return outside.path
        return self._weights

    def _facts(self) -> dict[str, Any]:
        """What the module says of itself; see `edgec.runtime.ModuleFacts`."""
        weights = self.program.info.weights
        return {
            "target": self.target.name,
            "driver": self.target.driver,
            "edgec": metadata.version("edgec"),
            "compiler": compiler_version(),
            "cpu_features": list(self.target.required_features),
            "weights": None
            if weights is None
            else {
                "scope": weights.scope,
                "file": self._weights_reference(),
                "names": list(weights.names),
            },
            "states": [state.to_json() for state in self.program.info.states],
        }

    @property
    def name(self) -> str:
        """The program's name."""
        return self.program.name

    @property
    def _weights(self) -> Path | None:
        """Where the program's weights file is."""
        weights = self.program.info.weights
        if weights is None:
            return None
        base = self.program.path.parent if self.program.path is not None else Path()
        return (base / weights.file).resolve()

    def _weights_reference(self) -> str:
        """How the module names its weights file: relative to the module where it can be."""
        path = self._weights
        output = self.options.output
        if path is None or output is None:
            return str(path)
        return os.path.relpath(path, Path(output).parent.resolve())

    def _output(self) -> Path:
        if self.options.output is not None:
            return Path(self.options.output)
        return Path(tempfile.mkdtemp(dir=_process_folder())) / f"{self.name}.vmfb"


_HALF = "half.mlirbc"
"""The program between the two halves of the compiler, where constants go outside."""


def _first_half(line: Sequence[str], output: Path) -> list[str]:
    compiler, source, flag, _, *flags = line
    return [compiler, source, flag, str(output), *flags, *FIRST_HALF]


def _second_half(line: Sequence[str], source: Path) -> list[str]:
    compiler, _, *rest = line
    return [compiler, str(source), *rest, *SECOND_HALF]


@functools.cache
def _process_folder() -> Path:
    """A folder for modules without a place of their own, removed when this process ends."""
    folder = Path(tempfile.mkdtemp(prefix="edgec-modules-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def versions() -> dict[str, str]:
    """What a module depends on besides its program and settings."""
    return {
        "edgec": metadata.version("edgec"),
        "compiler": compiler_version(),
        "passes": fingerprint(),
    }


def _tuned_notes(options: CompileOptions) -> tuple[str, ...]:
    profile = options.tuned
    if profile is None:
        return ()
    words = ", ".join(profile.winner.words()) or "the default settings, which were the fastest"
    note = f"tuned on {profile.device} ({profile.gain:.2f} times as fast there): {words}"
    stale = profile.stale(versions())
    if not stale:
        return (note,)
    return (note, f"the profile is of other versions ({stale}): `edgec tune` again may find more")


def _disabled_notes(options: CompileOptions) -> tuple[str, ...]:
    left_out = options.disabled  # what a profile leaves out stands in its own note
    return (f"left out, as asked: {', '.join(left_out)}",) if left_out else ()


def _refuse_halves(program: Program, target: Target) -> None:
    """Refuse to compute in f16 where that gains nothing, or where edgec does not rewrite."""
    if target.backend is Backend.CPU:
        raise CompileError(
            f"{target.name} computes f16 as f32 and keeps its weights so: --precision=f16 would "
            "only make the answers worse",
            hint="leave it out for CPUs; it is for GPUs (vulkan, cuda, rocm, metal)",
        )
    if program.info.dialect is not Dialect.STABLEHLO:
        raise CompileError(
            f"--precision=f16 is for StableHLO, and this program is {program.info.dialect.value}",
            hint="export the model again; what is left in another dialect is computed as declared",
        )


def _refuse_missing_types(program: Program, target: Target) -> None:
    """Refuse 64-bit floats at the surface of a program for a device that has none."""
    if target.limits.f64:
        return
    for function in program.info.functions:
        signature = function.signature
        for spec in (*signature.inputs, *signature.outputs, *program.info.states):
            if spec.dtype in (DType.F64, DType.C128):
                raise CompileError(
                    f"{signature.name} has {spec}, and {target.name} has no 64-bit floats",
                    hint="convert the model to 32-bit floats and export again, "
                    "or choose another target",
                )
