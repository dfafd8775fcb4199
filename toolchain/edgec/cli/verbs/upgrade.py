"""`edgec upgrade`: an artefact of another day to one of today's compiler, and what changed."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgec.cli.options import complete_target
from edgec.cli.report import Grid, Report
from edgec.cli.session import Session
from edgec.runtime.errors import ProgramError, UsageError

if TYPE_CHECKING:
    from edgec.toolchain import CompileOptions
    from edgec.verifying import Upgraded
    from edgec.verifying.upgrading import State

__all__ = ["upgrade"]


def upgrade(
    session: Session,
    old: Annotated[
        Path,
        typer.Argument(
            metavar="MODULE|PROGRAM|PACKAGE",
            help="A module (.vmfb), a program (.mlirbc, .mlir), or a package's folder.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE.vmfb|DIR",
            help="The new module or package.",
            show_default=False,
        ),
    ],
    program: Annotated[
        Path | None,
        typer.Option(
            "--program",
            metavar="FILE",
            help="What a module or package was compiled of (default: the program beside a module).",
            show_default=False,
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            metavar="NAME",
            help="What to compile for (default: what it was compiled for).",
            autocompletion=complete_target,
            show_default=False,
        ),
    ] = None,
) -> Report:
    """Compile an old artefact's program again, prove it by the old answers, say what changed."""
    from edgec.cli.progress import showing
    from edgec.toolchain import CompileOptions

    if output.resolve() == old.resolve():
        raise UsageError(f"{old} would be written over itself", hint="name another place with -o")
    with showing(session) as progress:
        options = CompileOptions(progress=progress)
        if old.is_dir():
            return _package(session, old, output, program, target, options)
        return _module(session, old, output, program, target, options)


def _module(
    session: Session,
    old: Path,
    output: Path,
    program: Path | None,
    target: str | None,
    options: "CompileOptions",
) -> Report:
    from edgec.cli.folders import make_folder
    from edgec.verifying import upgrade as upgraded

    if output.suffix != ".vmfb":
        raise UsageError(f"{output} is no name of a module", hint="end it in .vmfb")
    make_folder(output.parent)
    found = upgraded(old, output=output, program=program, target=target, options=options)
    for note in found.notes:
        session.note(note)
    return _report(old, found)


def _package(
    session: Session,
    old: Path,
    output: Path,
    program: Path | None,
    target: str | None,
    options: "CompileOptions",
) -> Report:
    """A package of the same kind, for the same devices, each variant proved as packages are."""
    from edgec.packaging import PackageOptions, make_package
    from edgec.runtime.manifest import Manifest

    manifest = Manifest.read(old)
    if program is None:
        raise ProgramError(
            f"the package {old} holds no program",
            hint="name the one that it was made of: --program=FILE.mlirbc",
        )
    targets = tuple(variant.target for variant in manifest.variants)
    chosen = PackageOptions(
        targets=targets if target is None else (target,), name=manifest.name, compiling=options
    )
    made = make_package(program, manifest.kind, output, chosen)
    for note in made.notes:
        session.note(note)
    new = {variant.target: variant.size for variant in made.manifest.variants}
    sizes = {v.target: (v.size, new.get(v.target)) for v in manifest.variants}
    return Report(
        data={
            "old": old,
            "output": output,
            "program": program,
            "edgec": [manifest.edgec, made.manifest.edgec],
            "sizes": {name: list(both) for name, both in sizes.items()},
            "checks": dict(made.checks),
        },
        blocks=(
            f"{output}: a package for {made.kind.name}, of edgec {made.manifest.edgec} in the "
            f"place of {manifest.edgec}",
            Grid(
                columns=("variant", "bytes before", "bytes now", ""),
                rows=tuple(
                    (name, str(before), str(now), made.checks.get(name, ""))
                    for name, (before, now) in sizes.items()
                ),
                right=frozenset({1, 2}),
            ),
        ),
    )


def _report(old: Path, found: "Upgraded") -> Report:
    new, before = found.new, found.old
    asked = "right by" if new.verdict is not None else "not asked for"
    columns = ("", "bytes", "ms a call", "worst difference", "edgec", "compiler")
    rows = [_row("before", before)] if before is not None else []
    return Report(
        data={
            "old": old,
            "program": found.program.path,
            "provenance": dict(found.program.info.provenance.versions),
            "source": found.source,
            "before": None if before is None else before.to_json(),
            "now": new.to_json(),
        },
        blocks=(
            f"{new.module.path}, compiled of {found.program.path}, is {asked} the answers of "
            f"{found.source}",
            Grid(
                columns=columns,
                rows=(*rows, _row("now", new)),
                right=frozenset({1, 2, 3}),
            ),
            *([f"before: {before.refused}"] if before is not None and before.refused else []),
        ),
    )


def _row(name: str, state: "State") -> tuple[str, ...]:
    facts = state.module.facts
    return (
        name,
        str(state.size),
        "" if state.milliseconds is None else f"{state.milliseconds:.3f}",
        "does not run" if state.worst is None else f"{state.worst:.2e}",
        facts.edgec,
        facts.compiler,
    )
