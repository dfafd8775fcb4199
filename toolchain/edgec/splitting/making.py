"""A program and devices to a folder of modules: every run of pieces is timed on every device.

A run's time is from arrays in the host's memory to arrays there, so what a cut costs in transfers
is in it, and the sum over the runs of a way through the program is what a call takes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgec.packaging.folder import new_folder, refuse_occupied
from edgec.runtime.errors import UsageError
from edgec.runtime.split import SPLIT
from edgec.splitting.choosing import Run, fastest
from edgec.splitting.measuring import Measuring, StageOn, least, target_of
from edgec.splitting.pieces import Line
from edgec.toolchain import CompileOptions
from edgec.toolchain.program import Program

__all__ = ["Split", "split"]


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
    targets = {uri: target_of(uri) for uri in devices}
    refuse_occupied(destination, replace=True, marker=SPLIT)
    line = Line(program, pieces)
    count = len(line.cuts) - 1
    with new_folder(destination, replace=True, marker=SPLIT) as folder:
        work = Measuring(
            program, line, targets.__getitem__, folder, options or CompileOptions(), tell
        )
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
        uris = list(targets)
        stages = [
            StageOn(start=run.start, end=run.end, devices=(uris.index(run.device),)) for run in way
        ]
        work.written(uris, stages)
        work.keep(uris, stages)
        with work.open() as loaded:
            error = work.proved(loaded)
            took = least(lambda: loaded.call_flat(work.inputs))
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


def _fastest(work: Measuring, count: int, devices: Sequence[str]) -> tuple[Run, ...]:
    try:
        return fastest(work.times, count, devices)
    except ValueError:
        why = next(iter(work.refused.values()), "nothing was measured")
        raise UsageError(
            f"no device takes every piece of {work.program.name}: {why}",
            hint="compile it for each device alone to see what is refused",
        ) from None
