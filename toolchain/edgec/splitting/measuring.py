"""Runs of a program's pieces to their seconds on devices, and chosen ones to a proved folder.

A run's time is from arrays in the host's memory to arrays there, so what a cut costs in transfers
is in it.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from edgec.runtime import Module, load
from edgec.runtime.errors import EdgecError, UsageError, WrongAnswer
from edgec.runtime.golden import Golden
from edgec.runtime.split import LoadedSplit, load_split
from edgec.runtime.split_folder import Place, SplitFolder, SplitStep, write_split
from edgec.splitting.choosing import Run
from edgec.splitting.pieces import Line, Piece
from edgec.targets import Target, find
from edgec.toolchain import CompileOptions, compile_with_report
from edgec.toolchain.program import Program

__all__ = ["GOLDEN", "Measuring", "StageOn", "least", "target_of"]

GOLDEN = "golden.npz"
"""The golden calls of the whole program, in the folder."""
_SECONDS = 0.25
"""How long a run of pieces is timed on a device."""
_CALLS = 3


@dataclass(frozen=True, kw_only=True)
class StageOn:
    """Pieces `start` to `end` (exclusive), and the numbers of the devices that make them."""

    start: int
    end: int
    devices: tuple[int, ...]


def target_of(uri: str) -> Target:
    """What is compiled for a device: `cpu`, `vulkan://0` → `vulkan`, `gpu` → `vulkan`.

    Raises:
        TargetError: there is no such target.
    """
    head = uri.removeprefix("edgert://").partition("?")[0].partition(":")[0]
    by_driver = {"gpu": "vulkan", "local-task": "cpu", "local-sync": "cpu", "edgert": "cpu"}
    return find(by_driver.get(head, head))


class Measuring:
    """Compiles and times runs of pieces, with the values that a golden call has between them."""

    def __init__(
        self,
        program: Program,
        line: Line,
        target_for: Callable[[str], Target],
        folder: Path,
        options: CompileOptions,
        tell: Callable[[str], object],
    ) -> None:
        self.program = program
        self.times: dict[Run, float] = {}
        self.refused: dict[Run, str] = {}
        self._line = line
        self._target_for = target_for
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
        target = self._target_for(run.device)
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
            return least(call)

    def written(
        self, devices: Sequence[str], stages: Sequence[StageOn], *, in_flight: int = 1
    ) -> None:
        """Write the folder's manifest and golden answers for a way through the pieces.

        Args:
            devices: their URIs, by the numbers that the stages name.
            stages: in their order; each of their runs was measured on a device of that target.
            in_flight: how many calls of a stream are under way.
        """
        steps = []
        for stage in stages:
            piece = self._piece(Run(start=stage.start, end=stage.end, device=""))
            places = [(number, self.module(stage, devices[number])) for number in stage.devices]
            steps.append(
                SplitStep(
                    places=tuple(
                        Place(module=module.path.name, digest=module.digest, device=number)
                        for number, module in places
                    ),
                    inputs=piece.inputs,
                    outputs=piece.outputs,
                )
            )
        write_split(
            SplitFolder(
                path=self._folder,
                signature=self._line.signature,
                devices=tuple(devices),
                steps=tuple(steps),
                outputs=self._line.outputs,
                in_flight=in_flight,
            )
        )
        self.golden.save(self._folder / GOLDEN)

    def module(self, stage: StageOn, uri: str) -> Module:
        """The module of a stage for a device."""
        name = self._target_for(uri).name
        return next(
            module
            for run, module in self._modules.items()
            if (run.start, run.end) == (stage.start, stage.end)
            and self._target_for(run.device).name == name
        )

    def has(self, stage: StageOn, uri: str) -> bool:
        """Whether a stage was measured on a device of this one's target."""
        name = self._target_for(uri).name
        return any(
            (run.start, run.end) == (stage.start, stage.end)
            and self._target_for(run.device).name == name
            for run in self.times
        )

    @property
    def golden(self) -> Golden:
        """The golden calls of the whole."""
        return Golden(calls=tuple(self._calls))

    @property
    def inputs(self) -> Sequence[np.ndarray]:
        """Those of the call that is timed."""
        return self._calls[0].inputs

    def proved(self, loaded: LoadedSplit) -> float:
        """The largest difference from a golden answer of what is in the folder.

        Raises:
            WrongAnswer: it is too large.
        """
        result = loaded.check(self.golden, self._options.tolerance)
        if not result.ok and result.worst is not None:
            name, output, comparison = result.worst
            raise WrongAnswer(
                f"the split program computes wrong answers: {output} of {name}: "
                f"{comparison.problem}",
                hint="compile the program for each device alone to see which is at fault",
            )
        return result.max_abs

    def keep(self, devices: Sequence[str], stages: Sequence[StageOn]) -> None:
        """Take out of the folder the modules that these stages do not need."""
        kept = {
            self.module(stage, devices[number]).path for stage in stages for number in stage.devices
        }
        for path in {module.path for module in self._modules.values()} - kept:
            path.unlink(missing_ok=True)

    def open(self) -> LoadedSplit:
        """What is in the folder, on its devices."""
        return load_split(self._folder)


def least(call: Callable[[], object]) -> float:
    """The least seconds of some calls."""
    taken: list[float] = []
    while sum(taken) < _SECONDS or len(taken) <= _CALLS:
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return min(taken)
