"""`edgec split`: a program to modules for several devices, cut where that is measured to pay."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgec.cli.aims import Aim, AimOption, aim_of
from edgec.cli.given import Exporting, open_given, place_of
from edgec.cli.options import ExampleInputsOption, SignatureOption, SourceArgument
from edgec.cli.report import Grid, Report
from edgec.cli.session import Session
from edgec.runtime.errors import UsageError

if TYPE_CHECKING:
    from edgec.splitting import Split, Streamed

__all__ = ["split"]


def split(
    session: Session,
    source: SourceArgument,
    devices: Annotated[
        str,
        typer.Option(
            "--devices",
            metavar="URI,URI…",
            help="Devices of this machine (cpu,vulkan); of those that are as fast, the first. "
            "With --for=throughput one may be named several times.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="The folder (default: NAME.split).",
        ),
    ] = None,
    aim: AimOption = "latency",
    pieces: Annotated[
        int,
        typer.Option(
            "--pieces",
            metavar="N",
            help="Pieces to time: n (n + 1) / 2 runs of them are compiled for each device.",
            min=2,
            max=12,
        ),
    ] = 4,
    cache: Annotated[
        bool, typer.Option("--cache/--no-cache", help="Take finished modules from the cache.")
    ] = True,
    signature: SignatureOption = None,
    inputs: ExampleInputsOption = None,
) -> Report:
    """Cut a program between devices where the measured time of a call is least."""
    from edgec.splitting import split as split_program
    from edgec.splitting import split_for_stream
    from edgec.toolchain import CompileOptions

    wanted = aim_of(aim)

    exporting = Exporting(signatures=tuple(signature or ()), inputs=inputs)
    uris = [uri.strip() for uri in devices.split(",") if uri.strip()]
    destination = output or place_of(source, exporting).with_suffix(".split")
    program = open_given(session, source, exporting, cache=cache)
    if "tensorflow" in sys.modules and any("cpu" not in uri for uri in uris):
        raise UsageError(
            "TensorFlow and a GPU's driver cannot be in one process",
            hint=f"export it first: edgec export {source}",
        )
    if wanted is Aim.THROUGHPUT:
        streamed = split_for_stream(
            program,
            uris,
            destination,
            pieces=pieces,
            options=CompileOptions(cache=cache),
            tell=session.detail,
        )
        return _stream_report(session, streamed)
    made = split_program(
        program,
        uris,
        destination,
        pieces=pieces,
        options=CompileOptions(cache=cache),
        tell=session.detail,
    )
    for run, why in made.refused.items():
        session.note(f"pieces {run.start + 1} to {run.end} not on {run.device}: {why}")
    command = shlex.join(["edgec", "run", str(destination)])
    return Report(
        data={
            "folder": destination,
            "pieces": made.pieces,
            "cuts": [
                {"bytes": size, "where": where}
                for size, where in zip(made.alive, made.where, strict=True)
            ],
            "times": [
                {"start": r.start, "end": r.end, "device": r.device, "seconds": seconds}
                for r, seconds in made.times.items()
            ],
            "chosen": [{"start": r.start, "end": r.end, "device": r.device} for r in made.chosen],
            "seconds": made.seconds,
            "took": made.took,
            "alone": {uri: made.alone(uri) for uri in uris},
            "error": made.error,
            "next": command,
        },
        blocks=(
            f"{destination}: {_ways(made)}, max abs err {made.error:.1e}",
            Grid(
                columns=("pieces", *uris, "bytes on", "up to"),
                rows=tuple(_rows(made, uris)),
                right=frozenset(range(1, len(uris) + 2)),
            ),
            *_why(made, uris),
            f"next: {command}",
        ),
    )


def _stream_report(session: Session, made: "Streamed") -> Report:
    """The ways that were timed as streams, and the times they were chosen by."""
    from edgec.cli.stream_report import pieces_grid, stream_data, way_text, ways_grid, why_lines

    for run, why in made.refused.items():
        session.note(f"pieces {run.start + 1} to {run.end} not on {run.device}: {why}")
    commands = [shlex.join(["edgec", verb, str(made.folder)]) for verb in ("run", "bench")]
    return Report(
        data={"folder": made.folder, **stream_data(made), "next": commands},
        blocks=(
            f"{made.folder}: {way_text(made.tried[0])}, max abs err {made.error:.1e}",
            pieces_grid(made),
            "",
            ways_grid(made),
            *why_lines(made),
            f"next: {commands[0]}, {commands[1]}",
        ),
    )


def _ways(made: "Split") -> str:
    return ", ".join(
        f"pieces {run.start + 1} to {run.end} on {run.device}"
        if run.end - run.start > 1
        else f"piece {run.end} on {run.device}"
        for run in made.chosen
    )


def _rows(made: "Split", uris: list[str]) -> list[tuple[str, ...]]:
    """Every run that was timed: milliseconds on each device, and what it hands on."""
    from edgec.splitting.choosing import Run

    rows = []
    for start in range(made.pieces):
        for end in range(start + 1, made.pieces + 1):
            times = []
            for uri in uris:
                run = Run(start=start, end=end, device=uri)
                text = f"{made.times[run] * 1e3:.3f} ms" if run in made.times else "refused"
                times.append(f"{text} *" if run in made.chosen else text)
            last = end == made.pieces
            size = "" if last else f"{made.alive[end - 1]:,}"
            where = "the end" if last else made.where[end - 1]
            rows.append((f"{start + 1} to {end}", *times, size, where))
    return rows


def _why(made: "Split", uris: list[str]) -> tuple[str, ...]:
    """What the chosen way takes beside each device alone."""
    alone = [
        f"{uri} alone {seconds * 1e3:.3f} ms" if seconds is not None else f"{uri} alone: refused"
        for uri in uris
        for seconds in [made.alone(uri)]
    ]
    ours = f"least sum {made.seconds * 1e3:.3f} ms (together, measured {made.took * 1e3:.3f} ms)"
    lines = [f"{ours}; {', '.join(alone)}"]
    if len(made.chosen) == 1:
        one = made.chosen[0].device
        lines.append(f"not cut: any other way costs more than {one} does by making all of it")
    return tuple(lines)
