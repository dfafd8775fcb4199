"""`edgec bench`: how long a module takes to load, at the first call, and steadily."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from edgec.cli.options import (
    DeviceOption,
    FunctionOption,
    InputOption,
    KeyOption,
    ModuleArgument,
    OnOption,
    WeightsOption,
)
from edgec.cli.report import Block, Grid, Report
from edgec.cli.session import Session
from edgec.runtime.errors import UsageError

if TYPE_CHECKING:
    import numpy as np

    from edgec.runtime import BenchResult, Profile
    from edgec.runtime.signature import Signature

__all__ = ["bench"]

_MOST_CALLS = 100_000


def bench(
    session: Session,
    module: ModuleArgument,
    device: DeviceOption = None,
    function: FunctionOption = None,
    input: InputOption = None,
    size: Annotated[
        list[str] | None,
        typer.Option(
            "--size",
            metavar="DIM=N",
            help="The size of a dynamic dimension, for random inputs; repeatable.",
            show_default=False,
        ),
    ] = None,
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.0, help="How long to measure steady calls.")
    ] = 2.0,
    iterations: Annotated[
        int | None,
        typer.Option(
            "--iterations",
            min=1,
            help="How many steady calls to measure, instead of --seconds.",
            show_default=False,
        ),
    ] = None,
    threads: Annotated[
        int, typer.Option("--threads", min=1, help="How many callers at the same time.")
    ] = 1,
    profile: Annotated[
        bool, typer.Option("--profile", help="Measure each dispatch of the function, too.")
    ] = False,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of random inputs.")] = 0,
    weights: WeightsOption = None,
    key: KeyOption = None,
    on: OnOption = None,
    devices: Annotated[
        str | None,
        typer.Option(
            "--devices",
            metavar="URI,URI…",
            help="Of a folder that `compile --mesh` made: a device for each of the mesh.",
            show_default=False,
            rich_help_panel="Several devices",
        ),
    ] = None,
    in_flight: Annotated[
        int | None,
        typer.Option(
            "--in-flight",
            metavar="N",
            help="Of a folder that `split` made: calls of a stream that are under way at once "
            "(default: what it was made for).",
            min=1,
            show_default=False,
            rich_help_panel="Several devices",
        ),
    ] = None,
) -> Report:
    """Measure a function: load, first call, then P50, P90, P99, throughput and memory."""
    from edgec.cli.bench_elsewhere import report_there
    from edgec.cli.bench_folders import bench_mesh, bench_split, signature_of
    from edgec.cli.elsewhere import deployed
    from edgec.cli.signatures import choose
    from edgec.cli.signed import read_signed
    from edgec.cli.waiting import waiting
    from edgec.runtime import bench as measure
    from edgec.runtime import profile as measure_dispatches
    from edgec.runtime.mesh.folder import is_mesh
    from edgec.runtime.split_folder import is_split

    if is_mesh(module) or is_split(module):
        _refuse_flags(
            "a program for several devices is measured",
            device=device is not None,
            threads=threads != 1,
            profile=profile,
            weights=weights is not None,
            key=key is not None,
            on=on is not None,
            devices=devices is not None and is_split(module),
            in_flight=in_flight is not None and is_mesh(module),
        )
        asked = signature_of(module, function)
        is_random = not input and bool(asked.inputs)
        given = _inputs(session, asked, input or (), size or (), seed)
        if is_split(module):
            return bench_split(
                session,
                module,
                given,
                in_flight=in_flight,
                seconds=seconds,
                iterations=iterations,
                is_random=is_random,
            )
        return bench_mesh(
            session,
            module,
            asked,
            given,
            devices=devices,
            seconds=seconds,
            iterations=iterations,
            is_random=is_random,
        )
    _refuse_flags(
        "a module of one device is measured",
        devices=devices is not None,
        in_flight=in_flight is not None,
    )
    read = read_signed(module, key, weights, leaves=on is not None)
    signature = choose(read, function)
    is_random = not input and bool(signature.inputs)
    if on is not None and threads != 1:
        raise UsageError(
            "--on has one caller: --threads does not go with it",
            hint="for the threads that compute write --device=edgert://cpu?threads=N",
        )
    inputs = _inputs(session, signature, input or (), size or (), seed)
    if on is not None:
        if seconds <= 0:
            raise UsageError("a benchmark needs a time above 0")
        with (
            waiting(session, f"measuring {read.path} on {on}"),
            deployed(session, read, on=on, device=device, weights=weights) as there,
        ):
            times = there.profile(signature, inputs) if profile else None
            measured = there.bench(signature, inputs, seconds=seconds, iterations=iterations)
        return report_there(there, signature.name, measured, times, is_random=is_random)
    dispatches = None
    if profile:  # first: whatever refuses it costs nobody a measurement
        dispatches = measure_dispatches(
            read, function=signature.name, inputs=inputs, device=device, weights=weights
        )
    result = measure(
        read,
        function=signature.name,
        inputs=inputs,
        device=device,
        weights=weights,
        seconds=1e9 if iterations is not None else seconds,
        max_calls=iterations if iterations is not None else _MOST_CALLS,
        threads=threads,
    )
    if dispatches is not None and dispatches.device != result.device:
        session.note(
            f"dispatches were timed by IREE's runtime on {dispatches.device}, which runs the same "
            "code"
        )
    return _report(result, dispatches, random=is_random)


def _refuse_flags(what: str, **given: bool) -> None:
    """Refuse options that mean nothing for what is measured.

    Raises:
        UsageError: there are some.
    """
    flags = [f"--{name.replace('_', '-')}" for name, there in given.items() if there]
    if flags:
        raise UsageError(f"{what} without {', '.join(flags)}", hint="leave it out")


def _inputs(
    session: Session,
    signature: "Signature",
    texts: Sequence[str],
    sizes: Sequence[str],
    seed: int,
) -> "Sequence[np.ndarray]":
    """The inputs given, or random ones; which, is said."""
    from edgec.cli.bind_inputs import bind
    from edgec.cli.calls import input_slots, split
    from edgec.cli.input_spec import parse_input
    from edgec.cli.random_inputs import random_inputs, sizes_of

    if texts:
        if sizes:
            raise UsageError("--size is for random inputs, and --input gives them")
        arrays = bind([parse_input(t) for t in texts], input_slots(signature, each=False))
        return split(session, signature, arrays, each=False).inputs[0]
    chosen = sizes_of(signature) | _sizes(signature, sizes)
    if signature.inputs:
        dims = "".join(f", {name}={extent}" for name, extent in chosen.items())
        session.note(f"the inputs are random (seed {seed}{dims}): floats normal, integers 0 or 1")
    return random_inputs(signature, seed=seed, sizes=chosen)


def _sizes(signature: "Signature", texts: Sequence[str]) -> dict[str, int]:
    from edgec.cli.random_inputs import sizes_of

    known = sizes_of(signature)
    found = {}
    for text in texts:
        name, _, digits = text.partition("=")
        if name not in known or not digits.isdecimal() or len(digits) > 18:
            raise UsageError(
                f"--size={text} names no size of a dynamic dimension",
                hint=f"{signature.name} has {', '.join(known) or 'none'}; write NAME=NUMBER",
            )
        found[name] = int(digits)
    return found


def _report(result: "BenchResult", dispatches: "Profile | None", *, random: bool) -> Report:
    from edgec.cli.amounts import bytes_text, seconds_text
    from edgec.cli.dispatch_grid import dispatch_grid

    rows = [
        ("load", seconds_text(result.load)),
        ("first call", seconds_text(result.first)),
        ("P50", seconds_text(result.p50)),
        ("P90", seconds_text(result.p90)),
        ("P99", seconds_text(result.p99)),
        ("mean", seconds_text(result.mean)),
        ("minimum", seconds_text(result.minimum)),
        ("throughput", f"{result.throughput:.1f} calls/s"),
        ("peak memory", bytes_text(result.peak_rss)),
    ]
    threads = f", {result.threads} threads" if result.threads > 1 else ""
    blocks: list[Block] = [
        f"{result.path}: {result.function} on {result.device} ({result.device_name}), "
        f"by {result.runtime}, "
        f"{result.calls} calls{threads}",
        Grid(columns=("what", "value"), rows=tuple(rows), right=frozenset({1})),
    ]
    if dispatches is not None:
        blocks += ["", dispatch_grid(dispatches)]
    return Report(
        data={
            "result": result.to_json(),
            "inputs": "random" if random else "given",
            "profile": None if dispatches is None else dispatches.to_json(),
            "on": None,
        },
        blocks=tuple(blocks),
    )
