"""Settings to a module and its time on the device: what every worker does, wherever it is."""

import hashlib
import shutil
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from edgec.runtime import Profile as DispatchTimes
from edgec.runtime import Tolerance, mark_checked, profile
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import (
    CompileError,
    DeviceMissing,
    EdgecError,
    InputError,
    ProgramError,
    WrongAnswer,
)
from edgec.runtime.fitness import driver_uri
from edgec.runtime.golden import Golden
from edgec.targets import Target
from edgec.toolchain.compiling import (
    CompileOptions,
    PassReport,
    compile_with_report,
    run_passes,
)
from edgec.toolchain.kernels.cpu.source import Cut, KernelKey
from edgec.toolchain.kernels.gpu.tiles import Tile, parse_key
from edgec.toolchain.program import Program
from edgec.toolchain.settings import Settings
from edgec.toolchain.tuning.kernels_alone import YARDSTICK, can_stand_alone, program_of
from edgec.toolchain.tuning.measure import (
    Measured,
    compare_modules,
    device_name,
    record_answers,
)
from edgec.toolchain.tuning.outlook import KernelTimes
from edgec.toolchain.tuning.profile import Outcome, Trial

__all__ = ["Evaluator", "OutOfTime", "Subject"]

_TILE_CALLS = 30
_ALONE_CALLS = 20
_LOAD_TIMEOUT = 60.0
# One mark for all, so that equal code makes equal files.
_MARK = "unchecked: a candidate"
_REFUSALS: dict[type[EdgecError], Outcome] = {
    WrongAnswer: Outcome.WRONG,
    CompileError: Outcome.REFUSED,
    ProgramError: Outcome.REFUSED,
}


class OutOfTime(Exception):
    """The budget ended, or somebody stopped it, before a candidate was measured."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What is tuned, and where.

    Attributes:
        program: the program, with or without golden answers.
        target: what it is compiled for.
        device: the URI of the device that measures; the target's driver without.
        function: what to call; the first of the golden calls, or of the program, without.
        tolerance: how far answers may be off; None for each type's default.
    """

    program: Program
    target: Target
    device: str | None = None
    function: str | None = None
    tolerance: Tolerance | None = None

    @property
    def called(self) -> str:
        """The function that is measured.

        Raises:
            InputError: there is none of that name.
        """
        names = [function.signature.name for function in self.program.info.functions]
        if self.function is not None and self.function not in names:
            raise InputError(
                f"the program has no function {self.function!r}",
                hint=f"it has {', '.join(names)}",
            )
        golden = self.program.golden
        first = golden.calls[0].signature if golden is not None and golden.calls else names[0]
        return self.function or first

    @property
    def uri(self) -> str:
        """Where modules run."""
        return self.device or driver_uri(self.target.driver)

    @property
    def weights(self) -> Path | None:
        """The program's weights file, if it keeps them outside."""
        return self.program.weights_path


class Evaluator:
    """Builds and measures modules of one subject on one device, in a folder of its own.

    Several threads may build at the same time; measuring is one at a time.
    """

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._folder = Path(tempfile.mkdtemp(prefix="edgec-tune-"))
        self._built: dict[str, Path] = {}
        self._lock = threading.Lock()
        self._device = threading.Lock()
        self._stopped = False
        self._making = 0.0

    def close(self) -> None:
        """Stop what still compiles and remove the folder."""
        self._stopped = True
        shutil.rmtree(self._folder, ignore_errors=True)

    def find_device(self) -> str:
        """What the driver calls the device that measures; nothing is compiled for it yet.

        Raises:
            DeviceMissing: it is not here.
            InputError: the function to measure is not there.
        """
        _ = self._subject.called
        return device_name(self._subject.target, self._subject.device)

    def prepare(self) -> float:
        """Build the default and note its answers.

        Returns:
            The seconds that a compile of the program takes.

        Raises:
            EdgecError: the program is refused, or the module does not run.
        """
        self._golden(self.module(Settings(), None))
        return self._making

    def effective_passes(self) -> list[str]:
        """Names of the passes that change the program."""
        return [name for name, changes in self._passes.changes.items() if changes]

    def measure(self, base: Settings, candidate: Settings, seconds: float) -> Measured:
        """Check and measure settings beside others that are known to be right.

        Raises:
            EdgecError: the candidate is refused, wrong or broken.
        """
        return self._compare(self.module(base, None), self.module(candidate, None), seconds)

    def trial(
        self, name: str, base: Settings, candidate: Settings, seconds: float, left: float
    ) -> Trial | None:
        """Try a candidate; whatever it does, there is a trial to show for it.

        Args:
            name: what it changes.
            base: the best so far.
            candidate: the settings to try.
            seconds: how long to measure.
            left: seconds until the budget ends.

        Returns:
            The trial, or None if the time ran out.
        """
        end = time.monotonic() + left
        built = None
        try:
            known = self.module(base, end)
            built = self.module(candidate, end)
            with self._device:
                if time.monotonic() > end or self._stopped:
                    return None
                if candidate.key != base.key and known.read_bytes() == built.read_bytes():
                    self._forget(candidate)
                    return _same(name, candidate)
                found = self._compare(known, built, seconds)
        except OutOfTime:
            return None
        except EdgecError as error:
            if isinstance(error, DeviceMissing):
                raise
            if time.monotonic() > end or self._stopped:
                return None
            return Trial(
                name=name, settings=candidate, outcome=_outcome(error), reason=error.what[:300]
            )
        outcome = Outcome.FASTER if found.is_faster else Outcome.SLOWER
        if outcome is Outcome.SLOWER and candidate.key != base.key:
            self._forget(candidate)
        return Trial(
            name=name,
            settings=candidate,
            outcome=outcome,
            ratio=found.ratio,
            seconds=found.candidate,
        )

    def kernel_times(self, settings: Settings, calls: int, left: float) -> KernelTimes | None:
        """Seconds a call spends in each kernel of edgec's own, of several calls the fastest.

        Kernels that differ only in what follows them in registers count together.

        Returns:
            The times; None if the time ran out.

        Raises:
            EdgecError: the module cannot be made, or does not run.
        """
        try:
            built = self.module(settings, time.monotonic() + left)
        except OutOfTime:
            return None
        golden = Golden.load(self._golden(built))
        name = self._subject.called
        inputs = next((call.inputs for call in golden.calls if call.signature == name), None)
        with self._device:
            found = profile(
                built,
                function=name,
                inputs=inputs,
                device=self._subject.uri,
                weights=self._subject.weights,
                calls=calls,
            )
        return _by_kernel(found)

    def alone_times(
        self, keys: Sequence[str], cuts: Mapping[str, Cut], left: float
    ) -> KernelTimes | None:
        """Seconds of each kernel in a small program that has nothing else, and the machine's rate.

        Args:
            keys: the kernels, as `KernelKey` spells them.
            cuts: how they are cut, where that is not the model's choice.
            left: seconds until the budget ends.

        Returns:
            The times, of those kernels that the small program has; None if the time ran out.

        Raises:
            EdgecError: the module cannot be made, or does not run.
        """
        found = [key for text in keys if (key := KernelKey.parse(text)) is not None]
        if not found or not all(map(can_stand_alone, found)):
            return KernelTimes(own={}, call=0.0)
        name = hashlib.sha256(" ".join(keys).encode()).hexdigest()[:16]
        source = self._folder / f"{name}.mlir"
        with self._lock:
            if not source.exists():
                source.write_text(program_of(list(dict.fromkeys([*found, YARDSTICK]))))
        path = self._folder / f"{name}-{threading.get_ident()}.vmfb"
        options = CompileOptions(cuts=dict(cuts))
        if not self._compiled(source, path, options, time.monotonic() + left):
            return None
        with self._device:
            times = _by_kernel(profile(path, device=self._subject.uri, calls=_ALONE_CALLS))
        rate = YARDSTICK.flops / times.own[str(YARDSTICK)] if str(YARDSTICK) in times.own else 0.0
        return replace(times, rate=rate)

    def _compiled(self, source: Path, path: Path, options: CompileOptions, end: float) -> bool:
        """Compile a program of a few kernels; whether there was the time."""
        left = end - time.monotonic()
        if left <= 0 or self._stopped:
            return False
        try:
            compile_with_report(
                source,
                self._subject.target,
                replace(
                    options,
                    output=path,
                    check=False,
                    cache=False,
                    timeout=left,
                    progress=lambda _: self._watch(end),
                ),
            )
        except OutOfTime:
            return False
        except CompileError:
            if time.monotonic() >= end:
                return False
            raise
        return True

    def tiled(self) -> dict[str, int]:
        """How many of the program's kernels have a tile to choose, by key."""
        return dict(self._passes.tiled)

    def tile_time(self, key: str, tile: Tile | None, left: float) -> float | None:
        """Seconds that one product or convolution takes on the GPU, alone in a module.

        Args:
            key: which; one of `tiled`.
            tile: how it is cut; the model's choice without.
            left: seconds until the budget ends.

        Returns:
            The seconds; None if the time ran out.

        Raises:
            EdgecError: the module cannot be made, or does not run.
        """
        found = parse_key(key)
        if found is None:
            raise InputError(f"{key} is no product or convolution")
        end = time.monotonic() + left
        source = self._folder / f"{key}.mlir"
        source.write_text(found.program)
        with self._lock:
            path = self._folder / f"{key}-{threading.get_ident()}.vmfb"
        options = CompileOptions(tiles={} if tile is None else {key: tile})
        if not self._compiled(source, path, options, end):
            return None
        with self._device:
            times = profile(path, device=self._subject.uri, calls=_TILE_CALLS)
        return sum(each.minimum * each.count for each in times.dispatches) / times.calls

    def module(self, settings: Settings, end: float | None) -> Path:
        """The module of those settings, built when it is first asked for.

        Raises:
            OutOfTime: `end` (monotonic seconds) came first.
            EdgecError: it is refused or wrong.
        """
        with self._lock:
            known = self._built.get(settings.key)
            path = self._folder / f"{len(self._built)}-{threading.get_ident()}.vmfb"
        if known is not None:
            return known
        left = None if end is None else end - time.monotonic()
        if self._stopped or (left is not None and left <= 0):
            raise OutOfTime
        default = settings.key == Settings().key
        try:
            made = compile_with_report(
                self._subject.program,
                self._subject.target,
                CompileOptions(
                    output=path,
                    level=settings.level,
                    disabled=settings.disabled,
                    iree_args=settings.iree_args,
                    cuts=settings.cuts,
                    tiles=settings.tiles,
                    # A target without 64-bit integers chooses between two forms by the check.
                    check=default or not self._subject.target.limits.i64,
                    cache=default,
                    tolerance=self._subject.tolerance,
                    timeout=left,
                    progress=lambda _: self._watch(end),
                ),
            )
        except CompileError as error:
            if end is not None and time.monotonic() >= end:
                raise OutOfTime from error
            raise
        if default:
            self._making = made.report.making
        mark_checked(path, _MARK)
        with self._lock:
            self._built[settings.key] = path
        return path

    @cached_property
    def _passes(self) -> PassReport:
        return run_passes(self._subject.program, self._subject.target)

    @property
    def _tolerance(self) -> Tolerance | None:
        """What was asked for, or what `compile` allows in its own check."""
        halves = self._passes.least_precise
        if self._subject.tolerance is None and halves:
            return Tolerance.of(DType(halves))
        return self._subject.tolerance

    def _forget(self, settings: Settings) -> None:
        if settings.key == Settings().key:
            return
        with self._lock:
            path = self._built.pop(settings.key, None)
        if path is not None:
            path.unlink(missing_ok=True)

    def _watch(self, end: float | None) -> None:
        """Called several times a second while the compiler works, which what is raised ends."""
        if self._stopped or (end is not None and time.monotonic() > end):
            raise OutOfTime

    def _compare(self, base: Path, candidate: Path, seconds: float) -> Measured:
        return compare_modules(
            base,
            candidate,
            self._golden(base),
            function=self._subject.called,
            device=self._subject.uri,
            weights=self._subject.weights,
            seconds=seconds,
            tolerance=self._tolerance,
            timeout=_LOAD_TIMEOUT + 30 * seconds,
        )

    def _golden(self, base: Path) -> Path:
        """The program's golden answers, or those of the module as it is compiled by default."""
        path = self._folder / "golden.npz"
        with self._lock:
            if path.exists():
                return path
            golden = self._subject.program.golden
            if golden is not None and golden.calls:
                golden.save(path)
            else:
                record_answers(base, path, device=self._subject.uri, weights=self._subject.weights)
        return path


def _same(name: str, settings: Settings) -> Trial:
    return Trial(
        name=name,
        settings=settings,
        outcome=Outcome.SLOWER,
        ratio=1.0,
        reason="the compiler makes the same module",
    )


def _outcome(error: EdgecError) -> Outcome:
    for kind, outcome in _REFUSALS.items():
        if isinstance(error, kind):
            return outcome
    return Outcome.BROKEN


def _by_kernel(found: DispatchTimes) -> KernelTimes:
    times: dict[str, float] = {}
    whole = 0.0
    for dispatch in found.dispatches:
        each = dispatch.minimum * dispatch.count / found.calls
        whole += each
        key = KernelKey.parse(dispatch.name)
        if key is not None:
            times[str(key)] = times.get(str(key), 0.0) + each
    outside = 0.0 if found.elapsed is None else max(0.0, found.elapsed - found.total)
    return KernelTimes(own=times, call=whole + outside / found.calls)
