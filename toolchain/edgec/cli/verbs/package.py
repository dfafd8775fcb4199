"""`edgec package`: a program, or a model exported on the way, to a folder that goes into an app."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgec.cli.given import Exporting, open_given, place_of
from edgec.cli.options import (
    DynamicOption,
    ExampleInputsOption,
    KeepProgramOption,
    SignatureOption,
    SourceArgument,
    complete_pass,
    complete_target,
)
from edgec.cli.report import Block, Grid, Report
from edgec.cli.rounding import MaxErrorOption, PrecisionOption, rounding_of
from edgec.cli.session import Session
from edgec.runtime.errors import UsageError

if TYPE_CHECKING:
    from edgec.packaging import Made

__all__ = ["package"]

_KIND = "What for"


def package(
    session: Session,
    source: SourceArgument,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="The folder to make (default: NAME-KIND beside the program); with several "
            "kinds, a folder for each in it.",
            show_default=False,
        ),
    ] = None,
    android: Annotated[
        bool,
        typer.Option(
            "--android",
            help="A Gradle library: Java and typed Kotlin, the model in its assets.",
            rich_help_panel=_KIND,
        ),
    ] = False,
    ios: Annotated[
        bool,
        typer.Option(
            "--ios",
            help="A Swift package: the model's kernels as a static library, typed Swift.",
            rich_help_panel=_KIND,
        ),
    ] = False,
    web: Annotated[
        bool,
        typer.Option(
            "--web",
            help="An ES module with TypeScript types, and a page that runs it.",
            rich_help_panel=_KIND,
        ),
    ] = False,
    c: Annotated[
        bool,
        typer.Option(
            "--c",
            help="C sources and a CMakeLists: a typed header, and a main.",
            rich_help_panel=_KIND,
        ),
    ] = False,
    target: Annotated[
        list[str] | None,
        typer.Option(
            "--target",
            metavar="NAME",
            help="A device to compile for; repeatable (default: the usual ones of the kind).",
            autocompletion=complete_target,
            show_default=False,
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--name",
            metavar="NAME",
            help="What the model is called in files and code (default: the program's file name).",
            show_default=False,
        ),
    ] = None,
    static: Annotated[
        bool,
        typer.Option(
            "--static",
            help="With --c: link the kernels into the program, instead of loading code.",
        ),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Take the place of a package that is there.")
    ] = False,
    level: Annotated[
        int | None,
        typer.Option(
            "-O",
            metavar="0..3",
            help="How much to optimise: -O0 to -O3 (default: -O2, or the profile's).",
            show_default=False,
        ),
    ] = None,
    tuned: Annotated[
        Path | None,
        typer.Option(
            "--tuned",
            metavar="FILE",
            help="Compile as `edgec tune` found to be fastest; with one --target.",
            show_default=False,
        ),
    ] = None,
    precision: PrecisionOption = "declared",
    max_error: MaxErrorOption = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check/--no-check",
            help="Run the golden answers on variants whose device is here, and the package's own "
            "test: the C program, Java on the JVM, WebAssembly in node, other processors in qemu.",
        ),
    ] = True,
    embed_golden: Annotated[
        bool,
        typer.Option(
            "--embed-golden/--no-embed-golden",
            help="Put golden calls into the modules, with which they prove themselves where they "
            "land.",
        ),
    ] = True,
    cache: Annotated[
        bool, typer.Option("--cache/--no-cache", help="Take finished modules from the cache.")
    ] = True,
    disable_pass: Annotated[
        list[str] | None,
        typer.Option(
            "--disable-pass",
            metavar="NAME",
            help="Leave out one of edgec's passes; repeatable.",
            autocompletion=complete_pass,
            show_default=False,
        ),
    ] = None,
    iree_arg: Annotated[
        list[str] | None,
        typer.Option(
            "--iree-arg",
            metavar="ARG",
            help="Pass an argument on to iree-compile; repeatable.",
            show_default=False,
        ),
    ] = None,
    keep_program: KeepProgramOption = None,
    signature: SignatureOption = None,
    dynamic: DynamicOption = None,
    inputs: ExampleInputsOption = None,
) -> Report:
    """Make of a program or model what goes into an app: modules, runtime, typed bindings."""
    from dataclasses import replace

    from edgec.cli.progress import showing
    from edgec.packaging import KINDS, PackageOptions, check_package, make_package
    from edgec.toolchain import CompileOptions
    from edgec.toolchain.tuning.profile import Profile

    flags = {"android": android, "ios": ios, "web": web, "c": c}
    kinds = [kind for kind in KINDS if flags[kind]]
    if not kinds:
        raise UsageError(
            "what the package is for is not said", hint="add --android, --ios, --web or --c"
        )
    if static and not c:
        raise UsageError("--static is for --c", hint="leave one out or add the other")
    rounding = rounding_of(precision, max_error)
    options = PackageOptions(
        targets=tuple(target or ()),
        name=name or "",
        replace=force,
        prove=check,
        embed=embed_golden,
        compiling=CompileOptions(
            level=level,
            disabled=tuple(disable_pass or ()),
            iree_args=tuple(iree_arg or ()),
            tuned=None if tuned is None else Profile.load(tuned),
            check=check,
            cache=cache,
            precision=rounding.precision,
        ),
    )
    exporting = Exporting(
        signatures=tuple(signature or ()),
        dynamic=tuple(dynamic or ()),
        inputs=inputs,
        keep=keep_program,
    )
    places = _places(place_of(source, exporting), kinds, output)
    for kind, place in places.items():
        check_package(kind, place, replace(options, link=_link(kind, static=static)))
    program = rounding.program(session, source, open_given(session, source, exporting, cache=cache))
    made = []
    with showing(session) as progress:
        options = replace(options, compiling=replace(options.compiling, progress=progress))
        for kind, place in places.items():
            chosen = replace(options, link=_link(kind, static=static))
            made.append(make_package(program, kind, place, chosen))
    for one in made:
        for note in one.notes:
            session.note(note)
    return Report(
        data={"source": source, "program": program.path, "packages": [_json(one) for one in made]},
        blocks=tuple(block for one in made for block in _blocks(one)),
    )


def _link(kind: str, *, static: bool) -> bool | None:
    return True if static and kind == "c" else None


def _places(program: Path, kinds: list[str], output: Path | None) -> dict[str, Path]:
    """Where each kind goes: one into the folder named, several into folders in it."""
    if output is None:
        return {kind: program.with_name(f"{program.stem}-{kind}") for kind in kinds}
    if len(kinds) == 1:
        return {kinds[0]: output}
    return {kind: output / kind for kind in kinds}


def _json(made: "Made") -> dict[str, Any]:
    return {
        "kind": made.kind.name,
        "folder": made.folder,
        "manifest": made.manifest.to_json(),
        "checks": dict(made.checks),
        "tests": [{"what": proof.what, "outcome": proof.outcome} for proof in made.proofs],
        "files": dict(made.files),
    }


def _blocks(made: "Made") -> list[Block]:
    from edgec.cli.amounts import bytes_text

    proofs = {proof.what: proof.outcome for proof in made.proofs}
    rows = [
        (v.file, bytes_text(v.size), str(v.needs), _check(made.checks[v.target], proofs, v.target))
        for v in made.manifest.variants
    ]
    shared = made.manifest.weights
    if shared is not None:
        rows.append((shared.file, bytes_text(shared.size), "", "what they share"))
    targets = {variant.target for variant in made.manifest.variants}
    return [
        f"{made.folder}: a package for {made.kind.name}",
        Grid(columns=("module", "size", "needs", ""), rows=tuple(rows), right=frozenset({1})),
        *(f"  {signature}" for signature in made.manifest.signatures),
        *(f"self-test of {proof}" for proof in made.proofs if proof.what not in targets),
        f"next: less {shlex.quote(str(made.folder / 'README.md'))}",
    ]


def _check(text: str, proofs: Mapping[str, str], target: str) -> str:
    """The outcome of a check, or of the package's test on that variant; why none is in `--json`."""
    outcome = proofs.get(target, "")
    if text.startswith("checked") or not outcome.startswith("passed"):
        return text if text.startswith("checked") else "not run here"
    return outcome
