"""How long a program for several devices takes: one call at a time, and several under way."""

import contextlib
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from edgec.cli.report import Grid, Report
from edgec.cli.session import Session
from edgec.runtime.errors import InputError, UsageError

if TYPE_CHECKING:
    from edgec.runtime.signature import Signature
    from edgec.runtime.split import LoadedSplit

__all__ = ["bench_mesh", "bench_split", "signature_of"]

_WARM = 3


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """How long to measure: seconds, or so many calls."""

    seconds: float
    calls: int | None

    def over(self, took: float, made: int) -> bool:
        if self.calls is not None:
            return made >= self.calls
        return took >= self.seconds and made >= _WARM


def signature_of(path: Path, function: str | None) -> "Signature":
    """The function of a folder that is measured: the one named, or the first.

    Raises:
        InputError: the folder has no function of that name.
        And what reading a folder raises.
    """
    from edgec.runtime.mesh.folder import MeshFolder
    from edgec.runtime.split_folder import SplitFolder, is_split

    if is_split(path):
        only = SplitFolder.read(path).signature
        known = {only.name: only}
    else:
        routes = MeshFolder(path).plan.routes
        known = {name: route.signature for name, route in routes.items()}
    if function is not None and function not in known:
        raise InputError(f"{path} has no function {function!r}", hint=f"it has {', '.join(known)}")
    return known[function] if function is not None else next(iter(known.values()))


def bench_split(
    session: Session,
    path: Path,
    inputs: Sequence[np.ndarray],
    *,
    in_flight: int | None,
    seconds: float,
    iterations: int | None,
    is_random: bool,
) -> Report:
    """Measure what `edgec split` made: calls one after the other, then a stream of them.

    Args:
        session: whom notes go to.
        path: the folder.
        inputs: flat, of every call.
        in_flight: how many calls of the stream are under way; None for what the folder says.
        seconds: how long to measure each.
        iterations: how many calls instead.
        is_random: whether nobody gave the inputs.

    Raises:
        UsageError: no time, or fewer than one call under way.
        And what loading and a call raise.
    """
    from edgec.cli.split_programs import split_text
    from edgec.runtime.split import load_split

    asked = _asked(seconds, iterations)
    start = time.perf_counter()
    with load_split(path) as loaded:
        load = time.perf_counter() - start
        for note in loaded.notes:
            session.note(note)
        count = loaded.folder.in_flight if in_flight is None else in_flight
        first, times = _one_by_one(lambda: loaded.call_flat(inputs), asked)
        made, took = _streamed(loaded, inputs, count, asked)
    where = f"{path}: {loaded.signature.name}, {split_text(loaded.folder)}"
    rows = (f"throughput, {count} under way", f"{made / took:.1f} calls/s")
    stream = {"in_flight": count, "calls": made, "throughput": made / took}
    devices = list(loaded.folder.devices)
    return _report(where, load, first, times, [rows], is_random, devices, {"stream": stream})


def bench_mesh(
    session: Session,
    path: Path,
    signature: "Signature",
    inputs: Sequence[np.ndarray],
    *,
    devices: str | None,
    seconds: float,
    iterations: int | None,
    is_random: bool,
) -> Report:
    """Measure what `edgec compile --mesh` made, from arrays in the host's memory to such.

    Args:
        session: whom notes go to.
        path: the folder.
        signature: of the function.
        inputs: flat, whole.
        devices: `--devices`; None for the target's own.
        seconds: how long to measure.
        iterations: how many calls instead.
        is_random: whether nobody gave the inputs.

    Raises:
        UsageError: no time, or another number of devices.
        And what loading and a call raise.
    """
    from edgec.runtime.mesh.running import load_mesh

    asked = _asked(seconds, iterations)
    uris = [uri.strip() for uri in (devices or "").split(",") if uri.strip()]
    start = time.perf_counter()
    with load_mesh(path, uris) as loaded:
        load = time.perf_counter() - start
        for note in loaded.notes:
            session.note(note)
        function = loaded[signature.name]
        first, times = _one_by_one(lambda: function.call_flat(inputs), asked)
        places = list(loaded.devices)
        where = f"{path}: {signature.name} on {', '.join(places)}, by {loaded.spoken}"
    return _report(where, load, first, times, [], is_random, places, {})


def _asked(seconds: float, iterations: int | None) -> _Asked:
    if iterations is None and seconds <= 0:
        raise UsageError("a benchmark needs a time above 0")
    return _Asked(seconds=seconds, calls=iterations)


def _one_by_one(call: Callable[[], object], asked: _Asked) -> tuple[float, np.ndarray]:
    """Seconds of the first call, and of each steady one."""
    start = time.perf_counter()
    call()
    first = time.perf_counter() - start
    for _ in range(_WARM):
        call()
    times: list[float] = []
    took = 0.0
    while not asked.over(took, len(times)):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
        took += times[-1]
    return first, np.asarray(times)


def _streamed(
    loaded: "LoadedSplit", inputs: Sequence[np.ndarray], in_flight: int, asked: _Asked
) -> tuple[int, float]:
    """How many calls of a stream ended, and in how many seconds."""
    stream = loaded.stream(itertools.repeat(inputs), in_flight=in_flight)
    with contextlib.closing(stream):
        for _ in range(_WARM * in_flight):
            next(stream)
        made, took, start = 0, 0.0, time.perf_counter()
        while not asked.over(took, made):
            next(stream)
            made, took = made + 1, time.perf_counter() - start
    return made, took


def _report(
    where: str,
    load: float,
    first: float,
    times: np.ndarray,
    rows: Sequence[tuple[str, str]],
    is_random: bool,
    devices: Sequence[str],
    more: dict[str, object],
) -> Report:
    from edgec.cli.amounts import seconds_text

    shares = {f"P{q}": float(np.quantile(times, q / 100)) for q in (50, 90, 99)}
    mean = float(times.mean())
    return Report(
        data={
            "devices": list(devices),
            "load": load,
            "first": first,
            "calls": len(times),
            **{name.lower(): value for name, value in shares.items()},
            "mean": mean,
            "minimum": float(times.min()),
            "throughput": 1 / mean,
            "inputs": "random" if is_random else "given",
            **more,
        },
        blocks=(
            where,
            Grid(
                columns=("what", "value"),
                rows=(
                    ("load", seconds_text(load)),
                    ("first call", seconds_text(first)),
                    *((name, seconds_text(value)) for name, value in shares.items()),
                    ("mean", seconds_text(mean)),
                    ("minimum", seconds_text(float(times.min()))),
                    ("throughput, one by one", f"{1 / mean:.1f} calls/s"),
                    *rows,
                ),
                right=frozenset({1}),
            ),
        ),
    )
