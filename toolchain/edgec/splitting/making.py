"""A program and devices to a folder of modules: every run of pieces is timed on every device.

A run's time is from arrays in the host's memory to arrays there, so what a cut costs in transfers
is in it, and the sum over the runs of a way through the program is what a call takes.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from edgec.packaging.folder import new_folder, refuse_occupied
from edgec.runtime import Module, load
from edgec.runtime.errors import EdgecError, UsageError, WrongAnswer
from edgec.runtime.golden import Golden
from edgec.runtime.split import SPLIT, SplitStep, load_split, write_split
from edgec.splitting.choosing import Run, fastest
from edgec.splitting.pieces import Line, Piece
from edgec.targets import Target, find
from edgec.toolchain import CompileOptions, compile_with_report
from edgec.toolchain.program import Program

__all__ = ["GOLDEN", "Split", "split"]

GOLDEN = "golden.npz"
"""The golden calls of the whole program, in the folder."""
_SECONDS = 0.25
"""How long a run of pieces is timed on a device."""
_CALLS = 3


@dataclass(frozen=True, kw_only=True)
class Split:
    """What was measured, and what came of it.

    Attributes:
        folder: where the modules are.
        chosen: the runs that are its modules, in order.
        times: the seconds of every run that was measured.
        refused: why a device does not take a run.
        pieces: how many there are.
        alive: bytes that go over each place between two pieces.
        where: the user's line at each.
        error: the largest difference from a golden answer.
        took: seconds of a call of the modules together, measured when they were joined.
    """

    folder: Path
    chosen: tuple[Run, ...]
    times: Mapping[Run, float]
    refused: Mapping[Run, str]
    pieces: int
    alive: tuple[int, ...]
    where: tuple[str, ...]
    error: float
    took: float

    def alone(self, device: str) -> float | None:
        """The seconds of the whole on one device; None where it does not take it."""
        return self.times.get(Run(start=0, end=self.pieces, device=device))

    @property
    def seconds(self) -> float:
        """The sum of the chosen runs."""
        return sum(self.times[run] for run in self.chosen)


def split(
    program: Program,
    devices: Sequence[str],
    destination: Path,
    *,
    pieces: int = 4,
    options: CompileOptions | None = None,
    tell: Callable[[str], object] = lambda text: None,
    chosen: Sequence[Run] | None = None,
) -> Split:
    """Cut a program where the measured sum of a call's times is least.

    Args:
        program: of one function of fixed sizes, with golden answers.
        devices: two URIs or more; of runs that are as fast, the earlier one gets it.
        destination: the folder; one that holds a split program already is replaced.
        pieces: in how many the program is cut to be timed; of n pieces n (n + 1) / 2 runs are
            compiled for each device.
        options: how to compile; `output` and `check` are not looked at.
        tell: is told what is done.
        chosen: the runs to make, and to time alone; None for the fastest.

    Raises:
        UsageError: the program is none that is cut.
        FileError: the folder holds other things.
        WrongAnswer: the modules together do not give the golden answers; nothing is written.
        EdgecError: no device takes some piece.
    """
    if len(set(devices)) < 2 or pieces < 2:
        raise UsageError(
            f"there is nothing to split: {len(set(devices))} devices, {pieces} pieces",
            hint="name two devices and cut into two pieces at least: --devices=cpu,gpu",
        )
    targets = {uri: _target_of(uri) for uri in devices}
    refuse_occupied(destination, replace=True, marker=SPLIT)
    line = Line(program, pieces)
    count = len(line.cuts) - 1
    with new_folder(destination, replace=True, marker=SPLIT) as folder:
        work = _Measuring(program, line, targets, folder, options or CompileOptions(), tell)
        work.measure(
            chosen
            or [
                Run(start=start, end=end, device=device)
                for start in range(count)
                for end in range(start + 1, count + 1)
                for device in targets
            ]
        )
        way = tuple(chosen) if chosen else _fastest(work, count, list(targets))
        error, took = work.finish(way)
    return Split(
        folder=destination,
        chosen=way,
        times=work.times,
        refused=work.refused,
        pieces=count,
        alive=tuple(line.alive(cut) for cut in line.cuts[1:-1]),
        where=line.where,
        error=error,
        took=took,
    )


def _target_of(uri: str) -> Target:
    """What is compiled for a device: `cpu`, `vulkan://0` → `vulkan`, `gpu` → `vulkan`.

    Raises:
        TargetError: there is no such target.
    """
    head = uri.removeprefix("edgert://").partition("?")[0].partition(":")[0]
    by_driver = {"gpu": "vulkan", "local-task": "cpu", "local-sync": "cpu", "edgert": "cpu"}
    return find(by_driver.get(head, head))


def _fastest(work: "_Measuring", count: int, devices: Sequence[str]) -> tuple[Run, ...]:
    try:
        return fastest(work.times, count, devices)
    except ValueError:
        why = next(iter(work.refused.values()), "nothing was measured")
        raise UsageError(
            f"no device takes every piece of {work.program.name}: {why}",
            hint="compile it for each device alone to see what is refused",
        ) from None


class _Measuring:
    """Compiles and times runs of pieces, with the values that a golden call has between them."""

    def __init__(
        self,
        program: Program,
        line: Line,
        targets: Mapping[str, Target],
        folder: Path,
        options: CompileOptions,
        tell: Callable[[str], object],
    ) -> None:
        self.program = program
        self.times: dict[Run, float] = {}
        self.refused: dict[Run, str] = {}
        self._line = line
        self._targets = targets
        self._folder = folder
        self._options = options
        self._tell = tell
        self._pieces: dict[tuple[int, int], Piece] = {}
        self._modules: dict[Run, Module] = {}
        golden = program.golden
        self._calls = () if golden is None else golden.calls
        self._values: dict[int, np.ndarray] = dict(enumerate(self._calls[0].inputs))

    def measure(self, runs: Sequence[Run]) -> None:
        """Time runs; those that begin first go first, for what they give the others take."""
        for run in sorted(runs, key=lambda run: (run.start, run.end - run.start)):
            try:
                self.times[run] = self._timed(run)
            except EdgecError as error:
                self.refused[run] = error.what
                self._tell(f"pieces {run.start + 1} to {run.end} on {run.device}: {error.what}")
                continue
            self._tell(
                f"pieces {run.start + 1} to {run.end} on {run.device}: "
                f"{self.times[run] * 1e3:.3f} ms"
            )

    def _piece(self, run: Run) -> Piece:
        key = (run.start, run.end)
        if key not in self._pieces:
            self._pieces[key] = self._line.run(*key)
        return self._pieces[key]

    def _timed(self, run: Run) -> float:
        piece = self._piece(run)
        missing = [number for number in piece.inputs if number not in self._values]
        if missing:
            raise UsageError("no device gave what this run takes")
        target = self._targets[run.device]
        file = f"pieces{run.start + 1}to{run.end}.{target.file_name}.vmfb"
        made = compile_with_report(
            piece.program,
            target,
            replace(self._options, output=self._folder / file, check=False),
        )
        self._modules[run] = made.module
        given = [self._values[number] for number in piece.inputs]
        with load(made.module, device=run.device) as loaded:
            (name,) = loaded.signatures

            def call() -> list[np.ndarray]:
                return [array.numpy() for array in loaded[name].call_flat(given)]

            for number, answer in zip(piece.outputs, call(), strict=True):
                self._values.setdefault(number, np.array(answer))
            return _least(call)

    def finish(self, way: Sequence[Run]) -> tuple[float, float]:
        """Write the manifest, take out what is not needed, prove the whole, and time it.

        Raises:
            WrongAnswer: it does not give the golden answers.
        """
        steps = [
            SplitStep(
                module=self._modules[run].path.name,
                digest=self._modules[run].digest,
                device=run.device,
                inputs=self._piece(run).inputs,
                outputs=self._piece(run).outputs,
            )
            for run in way
        ]
        kept = {step.module for step in steps}
        for module in {module.path for module in self._modules.values()}:
            if module.name not in kept:
                module.unlink(missing_ok=True)
        write_split(self._folder, self._line.signature, steps, self._line.outputs)
        golden = Golden(calls=tuple(self._calls))
        golden.save(self._folder / GOLDEN)
        with load_split(self._folder) as loaded:
            result = loaded.check(golden, self._options.tolerance)
            took = _least(lambda: loaded.call_flat(self._calls[0].inputs))
        if not result.ok and result.worst is not None:
            name, output, comparison = result.worst
            raise WrongAnswer(
                f"the split program computes wrong answers: {output} of {name}: "
                f"{comparison.problem}",
                hint="compile the program for each device alone to see which is at fault",
            )
        return result.max_abs, took


def _least(call: Callable[[], object]) -> float:
    """The least seconds of some calls."""
    taken: list[float] = []
    while sum(taken) < _SECONDS or len(taken) <= _CALLS:
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return min(taken)
