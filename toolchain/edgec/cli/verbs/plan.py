"""`edgec plan`: how to cut a model for devices that are alike, by what was measured on them."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgec.cli.aims import Aim, AimOption, aim_of
from edgec.cli.amounts import bytes_text
from edgec.cli.given import Exporting, arrays_of, is_program, place_of
from edgec.cli.options import ExampleInputsOption, SignatureOption
from edgec.cli.report import Block, Grid, Report
from edgec.cli.session import Session
from edgec.cli.stream_report import stream_data, way_text, ways_grid, why_lines
from edgec.runtime.errors import UsageError

if TYPE_CHECKING:
    from edgec.planning import Planned, Tried

__all__ = ["plan"]


def plan(
    session: Session,
    source: Annotated[
        str,
        typer.Argument(metavar="MODEL", help="file.py:name, package:name, or a model file."),
    ],
    mesh: Annotated[str, typer.Option("--mesh", metavar="x=2,y=4", help="The devices, as a grid.")],
    target: Annotated[
        str, typer.Option("--target", "-t", metavar="NAME", help="What each device is.")
    ] = "cpu",
    devices: Annotated[
        str | None,
        typer.Option(
            "--devices",
            metavar="URI,URI…",
            help="A device of this machine for each of the mesh (default: the target's own).",
        ),
    ] = None,
    tries: Annotated[
        int,
        typer.Option("--tries", metavar="N", help="Ways to compile and time.", min=1, max=64),
    ] = 4,
    aim: AimOption = "latency",
    pieces: Annotated[
        int,
        typer.Option(
            "--pieces",
            metavar="N",
            help="With --for=throughput: pieces that stages are made of.",
            min=2,
            max=12,
        ),
    ] = 4,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="The folder (default: NAME.mesh)."),
    ] = None,
    cache: Annotated[
        bool, typer.Option("--cache/--no-cache", help="Take finished modules from the cache.")
    ] = True,
    signature: SignatureOption = None,
    inputs: ExampleInputsOption = None,
) -> Report:
    """Choose how inputs and weights are cut for several devices, by measured times."""
    from edgec.exporters.export_model import export_source, uncut_source
    from edgec.planning import plan as planned
    from edgec.toolchain import CompileOptions

    wanted = aim_of(aim)
    if is_program(source):
        raise UsageError(
            f"{source} is a finished program, and a plan is made of a model",
            hint="name the model: edgec plan file.py:name --mesh=x=2",
        )
    uris = [uri.strip() for uri in (devices or "").split(",") if uri.strip()]
    destination = output or place_of(source, Exporting()).with_suffix(".mesh")
    session.say(f"exporting {source}")
    names = tuple(signature or ())
    arrays = None if inputs is None else arrays_of("--inputs", inputs)
    uncut = uncut_source(source, mesh, signatures=names, inputs=arrays)
    made = planned(
        uncut,
        target,
        destination,
        devices=uris,
        tries=tries,
        whole=(lambda: export_source(source, signatures=names, inputs=arrays))
        if wanted is Aim.THROUGHPUT
        else None,
        pieces=pieces,
        options=CompileOptions(cache=cache),
        tell=session.say,
    )
    for way, why in made.refused.items():
        session.detail(f"not {way}: {why}")
    streams = made.streamed
    folder = f"--devices={','.join(_uris(made, uris))}"
    run = shlex.join(["edgec", "run", str(destination), *([] if made.streams else [folder])])
    flags = [f"--shard={flag}" for flag in made.flags[0]]
    again = shlex.join(["edgec", "compile", source, f"--mesh={mesh}", f"--target={target}", *flags])
    blocks: list[Block] = [
        f"{destination}: {_said(made, target, mesh)}",
        Grid(
            columns=("cut", "work", "collectives", "bytes", "estimated", "measured"),
            rows=tuple(_row(*each, made) for each in zip(made.tried, made.flags, strict=True)),
            right=frozenset(range(1, 6)),
        ),
        *_why(made),
        *_streams(made),
    ]
    if not made.streams:
        blocks.append(f"the same by hand: {again}")
    return Report(
        data={
            "folder": destination,
            "for": wanted.value,
            "mesh": dict(uncut.mesh.axes),
            "target": target,
            "links": {
                axis: {"start": link.start, "each_byte": link.each_byte}
                for axis, link in made.links.along.items()
            },
            "alone": made.alone,
            "looked_at": made.looked_at,
            "refused": dict(made.refused),
            "tried": [
                {
                    "shard": list(flags),
                    "work": way.spent.work,
                    "collectives": len(way.spent.said),
                    "bytes": sum(said.bytes for said in way.spent.said),
                    "estimate": way.estimate,
                    "seconds": way.seconds,
                    "refused": way.refused,
                }
                for way, flags in zip(made.tried, made.flags, strict=True)
            ],
            "stream": None if streams is None else stream_data(streams),
            "streams": made.streams,
            "check": made.made.check,
            "again": None if made.streams else again,
            "next": run,
        },
        blocks=(*blocks, f"next: {run}"),
    )


def _said(made: "Planned", target: str, mesh: str) -> str:
    """The way that is in the folder, and its proof."""
    if made.streams and made.streamed is not None:
        return f"{way_text(made.streamed.tried[0])}, max abs err {made.streamed.error:.1e}"
    return f"{target} on {made.links.mesh.devices} devices ({mesh}), {made.made.check}"


def _streams(made: "Planned") -> list[Block]:
    """Ways that keep several calls under way, or why there are none."""
    if made.streamed is None:
        return [f"no stages: {made.why_not}"] if made.why_not else []
    best, cut = made.streamed.tried[0].seconds, made.tried[0].seconds
    lines: list[Block] = ["several calls under way:", ways_grid(made.streamed)]
    lines += why_lines(made.streamed)
    if best is not None and cut is not None:
        lines.append(f"{cut / best:.2f} times the calls a second of the fastest cut above")
    return lines


def _uris(made: "Planned", uris: list[str]) -> list[str]:
    return uris or ["cpu"] * made.links.mesh.devices


def _row(way: "Tried", flags: tuple[str, ...], made: "Planned") -> tuple[str, ...]:
    plain = next(each for each in made.tried if not each.shardings)
    took = "refused" if way.seconds is None else f"{way.seconds * 1e3:.3f} ms"
    return (
        " ".join(flags) or "as the model says",
        f"{100 * way.spent.work / max(plain.spent.work, 1.0):.0f} %",
        str(len(way.spent.said)),
        bytes_text(sum(said.bytes for said in way.spent.said)),
        f"{way.estimate * 1e3:.3f} ms",
        f"{took} *" if way is made.tried[0] and not made.streams else took,
    )


def _why(made: "Planned") -> list[Block]:
    best = made.tried[0]
    links = ", ".join(f"{link.text} along {axis}" for axis, link in made.links.along.items())
    lines: list[Block] = [
        f"{made.looked_at} ways estimated, {len(made.tried)} measured; a sum takes {links}"
    ]
    if made.alone is not None and best.seconds is not None:
        times = made.alone / best.seconds
        lines.append(
            f"one device alone: {made.alone * 1e3:.3f} ms, {times:.2f} times the fastest way"
            + ("" if times > 1 else "; these devices together are no faster")
        )
    return lines
