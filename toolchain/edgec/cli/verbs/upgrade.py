"""`edgec upgrade`: an artefact of another day to one of today's compiler, and what changed."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgec.cli.options import complete_target
from edgec.cli.report import Grid, Report
from edgec.cli.session import Session
from edgec.runtime.errors import FileError, UsageError

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
    from edgec.cli.folders import make_place
    from edgec.verifying import upgrade as upgraded

    if output.suffix != ".vmfb":
        raise UsageError(f"{output} is no name of a module", hint="end it in .vmfb")
    make_place(output)
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
    """A package of the same kind, for the same devices, each variant proved by the old one's."""
    from edgec.packaging import PackageOptions, make_package
    from edgec.runtime import Module
    from edgec.runtime.errors import EdgecError
    from edgec.runtime.manifest import Manifest
    from edgec.runtime.seal import SEAL_FILE
    from edgec.toolchain import load_program
    from edgec.verifying import find_program, renewed

    if output.exists():
        raise FileError(
            f"there is a {output} already", hint="name another place, and move it when it is proved"
        )
    manifest = Manifest.read(old)
    before = {each.target: Module.read(old / each.file) for each in manifest.variants}
    if program is None:
        program = find_program(next(iter(before.values())), old.absolute().parent)
    source = load_program(program, cache=options.cache)
    chosen = PackageOptions(
        targets=tuple(before) if target is None else (target,),
        name=manifest.name,
        compiling=options,
    )
    made = make_package(source, manifest.kind, output, chosen)
    try:
        now = {each.target: Module.read(output / each.file) for each in made.manifest.variants}
        found = {
            name: renewed(before[name], module, source)
            for name, module in now.items()
            if name in before
        }
    except EdgecError:
        shutil.rmtree(output)
        raise
    if (old / SEAL_FILE).exists():
        session.note(f"{old} is signed, and {output} is not: `edgec sign` signs it")
    for note in (*made.notes, *(note for each in found.values() for note in each.notes)):
        session.note(note)
    left_out = [name for name in before if name not in now]
    rows = []
    for name, each in found.items():
        rows += [_row(f"{name} before", each.old)] if each.old is not None else []
        rows.append(_row(f"{name} now", each.new))
    asked = [each for each in found.values() if each.new.verdict is not None]
    return Report(
        data={
            "old": old,
            "output": output,
            "program": program,
            "edgec": [manifest.edgec, made.manifest.edgec],
            "variants": {
                name: {
                    "before": None if each.old is None else each.old.to_json(),
                    "now": each.new.to_json(),
                    "source": each.source,
                }
                for name, each in found.items()
            },
            "left_out": left_out,
            "checks": dict(made.checks),
        },
        blocks=(
            f"{output}: a package for {made.kind.name}, of edgec {made.manifest.edgec} in the "
            f"place of {manifest.edgec}",
            f"right by the old one's answers: {len(asked)} of {len(now)} variants; the others do "
            "not run here"
            if len(asked) < len(now)
            else "right by the old one's answers: all variants",
            Grid(columns=_COLUMNS, rows=tuple(rows), right=frozenset({1, 2, 3})),
            *([f"not made again: {', '.join(left_out)}"] if left_out else []),
        ),
    )


_COLUMNS = ("", "bytes", "ms a call", "worst difference", "edgec", "compiler")


def _report(old: Path, found: "Upgraded") -> Report:
    new, before = found.new, found.old
    asked = "right by" if new.verdict is not None else "not asked for"
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
            Grid(columns=_COLUMNS, rows=(*rows, _row("now", new)), right=frozenset({1, 2, 3})),
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
