"""`edgec targets`: the catalogue of devices that edgec compiles for."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from edgec.cli.options import complete_target
from edgec.cli.report import Block, Grid, Report
from edgec.cli.session import Session

if TYPE_CHECKING:
    from edgec.targets import Target

__all__ = ["targets"]


def targets(
    session: Session,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="A target, a preset, or the beginning of names up to the colon (`vulkan:`).",
            autocompletion=complete_target,
            show_default=False,
        ),
    ] = None,
) -> Report:
    """List the targets, or tell all that is known of one."""
    from edgec.targets import PRESETS, catalogue, find

    if name is None:
        return _listing(catalogue(), PRESETS)
    wanted = name.strip().lower()
    if wanted in PRESETS:
        members = PRESETS[wanted]
        return _listing([find(member) for member in members], {wanted: members})
    if wanted.endswith(":"):
        family = [t for t in catalogue() if t.name.startswith(wanted)]
        return _listing(family, {}) if family else _one(find(name))
    return _one(find(name))


def _listing(found: Sequence["Target"], presets: Mapping[str, Sequence[str]]) -> Report:
    blocks: list[Block] = [
        Grid(
            columns=("target", "driver", "what it is"),
            rows=tuple((t.name, t.driver, t.summary) for t in found),
        )
    ]
    if presets:
        rows = tuple((name, " ".join(members)) for name, members in presets.items())
        blocks += ["", Grid(columns=("preset", "stands for"), rows=rows)]
    return Report(
        data={
            "targets": [t.to_json() for t in found],
            "presets": {name: list(members) for name, members in presets.items()},
        },
        blocks=tuple(blocks),
    )


def _one(target: "Target") -> Report:
    from edgec.toolchain.flags import compile_flags

    flags = compile_flags(target)
    rows = [
        ("driver", target.driver),
        ("compiler backend", target.backend.value),
        ("aliases", ", ".join(target.aliases)),
        ("needs of the CPU", ", ".join(target.required_features)),
        ("64-bit floats", "yes" if target.limits.f64 else "no"),
    ]
    if target.cpu is not None:
        rows += [("triple", target.cpu.triple or "this machine's"), ("processor", target.cpu.cpu)]
    if target.gpu is not None:
        rows += [
            ("compiler's name", target.gpu.target or "its default"),
            ("devices", ", ".join(target.gpu.devices)),
        ]
    lines = [f"  {name + ':':<18} {value}" for name, value in rows if value]
    notes = [f"  {note.text}\n    ({note.source})" for note in target.notes]
    return Report(
        data={"target": target.to_json(), "flags": flags},
        blocks=(
            f"{target.name}: {target.summary}",
            *lines,
            *(["", "notes:", *notes] if notes else []),
            "",
            "compiler flags at -O2:",
            *(f"  {flag}" for flag in flags),
        ),
    )
