"""A program and devices to the folder that lets most calls of a stream through, as measured.

From the times of all runs of pieces a few ways are estimated to be the best: stages one behind the
other, whole programs side by side, and both. They are written, proved by the golden answers and
timed as streams, beside each device alone with one call at a time; the fastest stays.
"""

import contextlib
import itertools
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edgec.packaging.folder import new_folder, refuse_occupied
from edgec.runtime.device import parse_uri
from edgec.runtime.errors import EdgecError, UsageError
from edgec.runtime.split import SPLIT, LoadedSplit
from edgec.splitting.choosing import Run
from edgec.splitting.measuring import Measuring, StageOn, least, target_of
from edgec.splitting.pieces import Line
from edgec.splitting.sharing import Way, most_calls
from edgec.targets import Target
from edgec.toolchain import CompileOptions
from edgec.toolchain.program import Program

__all__ = ["Streamed", "TriedStream", "seconds_a_call", "shared_out", "split_for_stream"]

_SECONDS, _ROUNDS = 0.4, 3
"""How long a stream is timed, and how often; the best counts."""
_EACH = 2
"""Calls under way for each device: one that it makes, and one that waits for it."""
_THREADED = ("cpu", "edgert", "local-task")


@dataclass(frozen=True, kw_only=True)
class TriedStream:
    """A way that was made.

    Attributes:
        devices: URIs by number.
        stages: its pieces, and who makes them.
        in_flight: how many calls were under way.
        estimate: seconds a call, from the times of its stages alone.
        seconds: seconds a call as measured; None where it was refused.
        latency: seconds of one call with no other under way.
        refused: why.
    """

    devices: tuple[str, ...]
    stages: tuple[StageOn, ...]
    in_flight: int
    estimate: float
    seconds: float | None = None
    latency: float = 0.0
    refused: str = ""


@dataclass(frozen=True, kw_only=True)
class Streamed:
    """What was measured, and what came of it.

    Attributes:
        folder: where the modules are.
        tried: the ways that were timed as streams, the fastest first; it is in the folder.
        times: the seconds of every run that was measured, each device alone.
        refused: why a device does not take a run.
        pieces: how many there are.
        alive: bytes that go over each place between two pieces.
        where: the user's line at each.
        error: the largest difference from a golden answer.
    """

    folder: Path
    tried: tuple[TriedStream, ...]
    times: Mapping[Run, float]
    refused: Mapping[Run, str]
    pieces: int
    alive: tuple[int, ...]
    where: tuple[str, ...]
    error: float


def split_for_stream(
    program: Program,
    devices: Sequence[str],
    destination: Path,
    *,
    pieces: int = 4,
    tries: int = 3,
    target: Target | None = None,
    options: CompileOptions | None = None,
    tell: Callable[[str], object] = lambda text: None,
) -> Streamed:
    """Cut a program so that most calls a second go through devices that work at the same time.

    Args:
        program: of one function of fixed sizes, with golden answers.
        devices: two URIs or more. Alike ones may be named several times: processors without
            a number of threads then have a part of the cores each.
        destination: the folder; one that holds a split program already is replaced.
        pieces: in how many the program is cut to be timed.
        tries: how many ways are timed as streams, besides each device alone.
        target: of every device; None for what each URI names.
        options: how to compile; `output` and `check` are not looked at.
        tell: is told what is done.

    Raises:
        UsageError: the program is none that is cut, or no device takes some piece.
        FileError: the folder holds other things.
        WrongAnswer: the fastest way does not give the golden answers; nothing is written.
    """
    if len(devices) < 2 or pieces < 2:
        raise UsageError(
            f"there is nothing to stream through: {len(devices)} devices, {pieces} pieces",
            hint="name two devices and cut into two pieces at least: --devices=cpu,cpu",
        )
    parts = shared_out(devices)
    kinds = Counter(parts)
    refuse_occupied(destination, replace=True, marker=SPLIT)
    line = Line(program, pieces)
    count = len(line.cuts) - 1
    with new_folder(destination, replace=True, marker=SPLIT) as folder:
        target_for = target_of if target is None else lambda uri: target
        work = Measuring(program, line, target_for, folder, options or CompileOptions(), tell)
        work.measure(
            [
                Run(start=start, end=end, device=device)
                for start in range(count)
                for end in range(start + 1, count + 1)
                for device in kinds
            ]
        )
        ways = [_alone(work, uri, count) for uri in dict.fromkeys(devices)]
        ways += [_placed(way, parts) for way in most_calls(work.times, count, kinds, ways=tries)]
        tried = [_tried(work, way, tell) for way in ways if way is not None]
        good = sorted(
            (way for way in tried if way.seconds is not None), key=lambda way: way.seconds or 0.0
        )
        if not good:
            why = next((way.refused for way in tried), next(iter(work.refused.values()), ""))
            raise UsageError(
                f"no device takes every piece of {program.name}: {why}",
                hint="compile it for each device alone to see what is refused",
            )
        best = good[0]
        work.written(best.devices, best.stages, in_flight=best.in_flight)
        work.keep(best.devices, best.stages)
        with work.open() as loaded:
            error = work.proved(loaded)
    return Streamed(
        folder=destination,
        tried=(*good, *(way for way in tried if way.seconds is None)),
        times=work.times,
        refused=work.refused,
        pieces=count,
        alive=tuple(line.alive(cut) for cut in line.cuts[1:-1]),
        where=line.where,
        error=error,
    )


def shared_out(devices: Sequence[str]) -> tuple[str, ...]:
    """Processors that are named several times, and no number of threads, as parts of the cores."""
    named = Counter(devices)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    found = []
    for uri in devices:
        driver, _, threads = parse_uri(uri)
        divided = named[uri] > 1 and threads is None and driver in _THREADED
        divided = divided and target_of(uri).name.startswith("cpu")
        each = max(1, (cores or 1) // named[uri])
        found.append(f"{uri}?threads={each}" if divided else uri)
    return tuple(found)


def _alone(work: Measuring, uri: str, count: int) -> TriedStream | None:
    """One device with all that it has, and one call at a time; None where it refuses the whole."""
    stage = StageOn(start=0, end=count, devices=(0,))
    if not work.has(stage, uri):
        return None
    return TriedStream(devices=(uri,), stages=(stage,), in_flight=1, estimate=0.0)


def _placed(way: Way, parts: Sequence[str]) -> TriedStream:
    """A way with the devices that it needs, by number."""
    chosen: list[str] = []
    stages = []
    for stage in way.stages:
        uris = [uri for uri, many in stage.counts.items() for _ in range(many)]
        numbers = tuple(range(len(chosen), len(chosen) + len(uris)))
        stages.append(StageOn(start=stage.start, end=stage.end, devices=numbers))
        chosen += uris
    alone = len(chosen) == 1
    return TriedStream(
        devices=tuple(chosen),
        stages=tuple(stages),
        in_flight=1 if alone else _EACH * len(chosen),
        estimate=way.seconds,
    )


def _tried(work: Measuring, way: TriedStream, tell: Callable[[str], object]) -> TriedStream:
    """Prove a way and time it."""
    try:
        work.written(way.devices, way.stages, in_flight=way.in_flight)
        with work.open() as loaded:
            work.proved(loaded)
            latency = least(lambda: loaded.call_flat(work.inputs))
            seconds = seconds_a_call(loaded, work.inputs)
    except EdgecError as error:
        return replace(way, refused=error.what)
    tell(f"{len(way.stages)} stages on {', '.join(way.devices)}: {seconds * 1e3:.3f} ms a call")
    return replace(way, seconds=seconds, latency=latency, estimate=way.estimate or latency)


def seconds_a_call(loaded: LoadedSplit, inputs: Sequence[object]) -> float:
    """The least seconds a call of a stream, of some rounds."""
    found = []
    with contextlib.closing(loaded.stream(itertools.repeat(inputs))) as stream:
        for _ in range(2 * loaded.folder.in_flight):
            next(stream)
        for _ in range(_ROUNDS):
            start, calls, took = time.perf_counter(), 0, 0.0
            while took < _SECONDS or calls < loaded.folder.in_flight:
                next(stream)
                calls, took = calls + 1, time.perf_counter() - start
            found.append(took / calls)
    return min(found)
