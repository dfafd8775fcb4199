"""What was measured for a stream of calls as a report: the ways, the pieces' times, and why."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgec.cli.report import Block, Grid

if TYPE_CHECKING:
    from edgec.splitting import Streamed, TriedStream
    from edgec.splitting.measuring import StageOn

__all__ = ["pieces_grid", "stream_data", "way_text", "ways_grid", "why_lines"]


def way_text(way: "TriedStream") -> str:
    """`pieces 1 to 2 on cpu, 3 to 4 on vulkan`; `all on cpu + vulkan` of one stage."""
    said = []
    for stage in way.stages:
        who = " + ".join(way.devices[number] for number in stage.devices)
        if len(way.stages) == 1:
            return f"all on {who}" if len(stage.devices) > 1 else f"all on {who}, one by one"
        which = (
            f"piece {stage.end}"
            if stage.end - stage.start == 1
            else f"pieces {stage.start + 1} to {stage.end}"
        )
        said.append(f"{which} on {who}")
    return ", ".join(said)


def ways_grid(made: "Streamed") -> Grid:
    """The ways that were timed: seconds a call as estimated and as measured, and a call alone."""
    return Grid(
        columns=("way", "estimated", "measured", "calls/s", "a call alone"),
        rows=tuple(_way_row(way, way is made.tried[0]) for way in made.tried),
        right=frozenset(range(1, 5)),
    )


def _way_row(way: "TriedStream", best: bool) -> tuple[str, ...]:
    if way.seconds is None:
        return (way_text(way), f"{way.estimate * 1e3:.3f} ms", "refused", "", "")
    return (
        way_text(way),
        f"{way.estimate * 1e3:.3f} ms",
        f"{way.seconds * 1e3:.3f} ms{' *' if best else ''}",
        f"{1 / way.seconds:.1f}",
        f"{way.latency * 1e3:.3f} ms",
    )


def pieces_grid(made: "Streamed") -> Grid:
    """Every run of pieces: milliseconds on each kind of device, and what a cut there hands on."""
    from edgec.splitting.choosing import Run

    kinds = list(dict.fromkeys(run.device for run in (*made.times, *made.refused)))
    rows = []
    for start in range(made.pieces):
        for end in range(start + 1, made.pieces + 1):
            runs = [Run(start=start, end=end, device=kind) for kind in kinds]
            last = end == made.pieces
            rows.append(
                (
                    f"{start + 1} to {end}",
                    *(
                        f"{made.times[run] * 1e3:.3f} ms" if run in made.times else "refused"
                        for run in runs
                    ),
                    "" if last else f"{made.alive[end - 1]:,}",
                    "the end" if last else made.where[end - 1],
                )
            )
    return Grid(
        columns=("pieces", *kinds, "bytes on", "up to"),
        rows=tuple(rows),
        right=frozenset(range(1, len(kinds) + 2)),
    )


def why_lines(made: "Streamed") -> list[Block]:
    """Why the way that was chosen is the one, in measured times."""
    best = made.tried[0]
    alone = [way for way in made.tried if len(way.devices) == 1 and way.seconds is not None]
    lines: list[Block] = []
    if best in alone:
        lines.append(
            f"one call at a time on {best.devices[0]}: several under way let fewer through here"
        )
    elif alone and best.seconds is not None and alone[0].seconds is not None:
        lines.append(
            f"{alone[0].seconds / best.seconds:.2f} times the calls of {alone[0].devices[0]} alone;"
            f" a call alone takes {best.latency * 1e3:.3f} ms"
        )
    cut = next((way for way in made.tried if len(way.stages) > 1), None)
    if cut is not None and cut.seconds is not None:
        slowest = max(cut.stages, key=lambda stage: _seconds(made, cut, stage))
        lines.append(
            f"stages one behind the other: the slowest is pieces {slowest.start + 1} to "
            f"{slowest.end}, {_seconds(made, cut, slowest) * 1e3:.3f} ms by itself"
        )
    return lines


def _seconds(made: "Streamed", way: "TriedStream", stage: "StageOn") -> float:
    """What a stage takes a call, from the times of its devices alone."""
    from edgec.splitting.choosing import Run

    rate = 0.0
    for number in stage.devices:
        run = Run(start=stage.start, end=stage.end, device=way.devices[number])
        rate += 1 / made.times[run]
    return 1 / rate


def stream_data(made: "Streamed") -> dict[str, object]:
    """The same as data."""
    return {
        "pieces": made.pieces,
        "cuts": [
            {"bytes": size, "where": where}
            for size, where in zip(made.alive, made.where, strict=True)
        ],
        "times": [
            {"start": run.start, "end": run.end, "device": run.device, "seconds": seconds}
            for run, seconds in made.times.items()
        ],
        "tried": [
            {
                "devices": list(way.devices),
                "stages": _stages(way.stages),
                "in_flight": way.in_flight,
                "estimate": way.estimate,
                "seconds": way.seconds,
                "latency": way.latency,
                "refused": way.refused,
            }
            for way in made.tried
        ],
        "error": made.error,
    }


def _stages(stages: Sequence["StageOn"]) -> list[dict[str, object]]:
    return [
        {"start": stage.start, "end": stage.end, "devices": list(stage.devices)} for stage in stages
    ]
