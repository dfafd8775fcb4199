"""`edgec compile`: a program, or a model that is exported on the way, and targets to modules."""

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgec.cli.floats import F32Option, f32_of
from edgec.cli.given import Exporting, open_given, place_of
from edgec.cli.options import (
    DynamicOption,
    ExampleInputsOption,
    ExternalWeightsOption,
    KeepProgramOption,
    MeshOption,
    ShardOption,
    SignatureOption,
    SourceArgument,
    complete_pass,
    complete_target,
)
from edgec.cli.report import Block, Grid, Report
from edgec.cli.rounding import MaxErrorOption, PrecisionOption, rounding_of
from edgec.cli.session import Session
from edgec.runtime.errors import EdgecError, UsageError
from edgec.runtime.files import descriptor_of

if TYPE_CHECKING:
    from edgec.runtime.kernel_share import KernelShare
    from edgec.targets import Target
    from edgec.toolchain import Compiled, CompileOptions, Program

__all__ = ["compile"]

_SMALL = 1e-3
"""The share of a program below which what is left of it is not listed one by one."""
_STDOUT = Path("-")
"""What stands for stdout, in the place of a module's file."""


def compile(
    session: Session,
    source: SourceArgument,
    target: Annotated[
        list[str] | None,
        typer.Option(
            "--target",
            metavar="NAME",
            help="A device (`edgec targets` lists them) or a preset (android, ios, web); "
            "repeatable (default: cpu, this machine).",
            autocompletion=complete_target,
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE|DIR",
            help="The module (- is stdout), or a folder for several (default: NAME.vmfb beside the "
            "program).",
            show_default=False,
        ),
    ] = None,
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
            help="Compile as `edgec tune` found to be fastest; other options win over it.",
            show_default=False,
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check/--no-check",
            help="Run the golden answers on the target's device, if it is here, and compare.",
        ),
    ] = True,
    atol: Annotated[
        float | None,
        typer.Option(
            "--atol",
            "--tolerance",
            help="Largest absolute error the check allows (default: by element type).",
            show_default=False,
        ),
    ] = None,
    rtol: Annotated[
        float | None,
        typer.Option(
            "--rtol",
            help="Largest error relative to the answer, on top of --atol.",
            show_default=False,
        ),
    ] = None,
    f32: F32Option = "full",
    precision: PrecisionOption = "declared",
    max_error: MaxErrorOption = None,
    validate: Annotated[
        bool,
        typer.Option(
            "--validate",
            envvar="EDGEC_VALIDATE",
            show_envvar=False,
            help="Compare each match that a kernel takes with its operations, on random values; "
            "refuse a wrong one.",
        ),
    ] = False,
    embed_golden: Annotated[
        bool,
        typer.Option(
            "--embed-golden",
            help="Put golden calls into the module (inputs from a seed, sampled answers; a few "
            "KB), with which it proves itself where it lands: `edgec run --prove`.",
        ),
    ] = False,
    cache: Annotated[
        bool, typer.Option("--cache/--no-cache", help="Take finished modules from the cache.")
    ] = True,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the compiler's command, and run nothing.")
    ] = False,
    print_passes: Annotated[
        bool,
        typer.Option(
            "--print-passes",
            help="Run edgec's own passes, print what each did and what it is for, and stop.",
        ),
    ] = False,
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
    keep_temps: Annotated[
        Path | None,
        typer.Option(
            "--keep-temps",
            metavar="DIR",
            help="Keep the compiler's input and intermediate files here.",
            show_default=False,
        ),
    ] = None,
    keep_program: KeepProgramOption = None,
    signature: SignatureOption = None,
    dynamic: DynamicOption = None,
    inputs: ExampleInputsOption = None,
    external_weights: ExternalWeightsOption = None,
    mesh: MeshOption = None,
    shard: ShardOption = None,
) -> Report:
    """Compile a program or model for one device or several, and prove the modules."""
    from dataclasses import replace
    from functools import partial

    from edgec.cli.folders import make_place
    from edgec.cli.mesh_programs import compile_for_mesh, weights_for_mesh
    from edgec.ondevice.standing_in import emulated
    from edgec.runtime import Tolerance
    from edgec.targets import expand
    from edgec.toolchain import CompileOptions
    from edgec.toolchain.seeding import answer_seeds
    from edgec.toolchain.tuning.profile import Profile

    targets = expand(target or ["cpu"])
    rounding = rounding_of(precision, max_error)
    tolerance = None
    if atol is not None or rtol is not None:
        tolerance = Tolerance(absolute=atol or 0.0, relative=rtol or 0.0)
    options = CompileOptions(
        level=level,
        disabled=tuple(disable_pass or ()),
        iree_args=tuple(iree_arg or ()),
        tuned=None if tuned is None else Profile.load(tuned),
        check=check,
        cache=cache,
        keep_temps=keep_temps,
        tolerance=tolerance,
        elsewhere=partial(emulated, tell=session.detail),
        f32=f32_of(f32),
        precision=rounding.precision,
        validate=validate,
    )
    exporting = Exporting(
        signatures=tuple(signature or ()),
        dynamic=tuple(dynamic or ()),
        inputs=inputs,
        external_weights=external_weights,
        keep=keep_program,
        mesh=mesh,
        shard=tuple(shard or ()),
    )
    outputs = _outputs(place_of(source, exporting), targets, output)
    look = print_passes or dry_run
    if session.json and outputs == [_STDOUT] and not look:
        raise UsageError(
            "--json and the module cannot both go to stdout", hint="name a file with -o"
        )
    # A module is refused below, as what it is.
    given = None if Path(source).suffix == ".vmfb" else source
    for path in () if look or outputs == [_STDOUT] else outputs:
        for taken in (given, exporting.keep):
            if taken is not None and path.resolve() == Path(taken).resolve():
                raise UsageError(
                    f"{taken} would be written over itself", hint="name a file with -o"
                )
        make_place(path)
    with weights_for_mesh(exporting) as exporting:
        program = open_given(session, source, exporting, cache=cache)
        if program.info.mesh is not None and not look:
            return compile_for_mesh(
                session,
                program,
                targets,
                output,
                options,
                place=place_of(source, exporting),
                without=[
                    *(["--embed-golden"] if embed_golden else []),
                    *(["--precision=int8"] if rounding.scheme is not None else []),
                ],
            )
        program = rounding.program(session, source, program)
    if print_passes:
        return _passes(session, source, program, targets, options)
    if dry_run:
        return _commands(source, program, targets, options)
    if embed_golden:
        options = replace(options, seeded=answer_seeds(program, options))
    return _compile(session, source, program, list(zip(targets, outputs, strict=True)), options)


def _compile(
    session: Session,
    source: str,
    program: "Program",
    jobs: Sequence[tuple["Target", Path]],
    options: "CompileOptions",
) -> Report:
    """Every target in turn; one that fails does not keep the others from being made."""
    from dataclasses import replace

    from edgec.cli.next_step import next_step
    from edgec.cli.progress import showing
    from edgec.targets import find
    from edgec.toolchain import compile_with_report

    done: list[Compiled] = []
    failures: dict[str, EdgecError] = {}
    printed: Path | None = None
    with showing(session) as progress:
        for target, path in jobs:
            try:
                place = None if path == _STDOUT else path
                chosen = replace(options, output=place, progress=progress)
                made = compile_with_report(program, target, chosen)
                if place is None:
                    printed = made.module.path
                    made = replace(made, module=replace(made.module, path=_STDOUT))
                done.append(made)
            except EdgecError as error:
                failures[target.name] = error
    for made in done:
        session.detail(shlex.join(made.report.command))
        for note in made.report.notes:
            session.note(note)
        for line in _left(made.report.kernels):
            session.detail(line)
    commands = [next_step(m.module, find(m.report.target), program.path, source) for m in done]
    return Report(
        data={
            "source": source,
            "program": program.path,
            "modules": [
                _module_json(m, command) for m, command in zip(done, commands, strict=True)
            ],
            "failed": list(failures),
        },
        blocks=tuple(
            block
            for made, command in zip(done, commands, strict=True)
            for block in _module_blocks(made, command)
        ),
        file=printed,
        error=_one_error(failures, len(jobs)),
    )


def _one_error(failures: Mapping[str, EdgecError], targets: int) -> EdgecError | None:
    """The first failure; where there were several targets it says which it is of, and names all."""
    if not failures:
        return None
    name, first = next(iter(failures.items()))
    if targets == 1:
        return first
    others = ", ".join(list(failures)[1:])
    rest = f"; also failed: {others}" if others else ""
    return type(first)(
        f"{name}: {first.what}{rest}", where=first.where, hint=first.hint, log=first.log
    )


def _commands(
    source: str, program: "Program", targets: Sequence["Target"], options: "CompileOptions"
) -> Report:
    from edgec.toolchain import command
    from edgec.toolchain.tuning.profile import program_key

    if options.tuned is not None:
        for target in targets:
            options.tuned.refuse_other(program_key(program), program.name, target.name)
    lines = [command(program.name, target, options, program.info) for target in targets]
    return Report(
        data={
            "source": source,
            "program": program.path,
            "commands": [
                {"target": target.name, "command": line}
                for target, line in zip(targets, lines, strict=True)
            ],
        },
        blocks=tuple(shlex.join(line) for line in lines),
    )


def _passes(
    session: Session,
    source: str,
    program: "Program",
    targets: Sequence["Target"],
    options: "CompileOptions",
) -> Report:
    """What each pass did for each target; nothing is compiled."""
    from edgec.cli.amounts import seconds_text
    from edgec.cli.progress import showing
    from edgec.toolchain import run_passes
    from edgec.toolchain.passes import CATALOGUE

    purposes = {kind.name: (kind.__doc__ or "").strip().splitlines()[0] for kind in CATALOGUE}
    with showing(session):
        reports = {target.name: run_passes(program, target, options) for target in targets}
    rows = tuple(
        (
            name,
            "disabled"
            if name in options.settings.disabled
            else str(report.changes[name])
            if name in report.changes
            else "not needed",
            seconds_text(report.seconds[name]) if name in report.seconds else "",
            purpose,
        )
        for report in reports.values()
        for name, purpose in purposes.items()
    )
    blocks: list[Block] = []
    for index, name in enumerate(reports):
        blocks.append(f"edgec's passes for {name}, in order:")
        blocks.append(
            Grid(
                columns=("pass", "changes", "time", "what it does"),
                rows=rows[index * len(purposes) : (index + 1) * len(purposes)],
                right=frozenset({1, 2}),
            )
        )
    return Report(
        data={
            "source": source,
            "program": program.path,
            "targets": [
                {
                    "target": target,
                    "passes": [
                        {
                            "name": name,
                            "purpose": purpose,
                            "disabled": name in options.settings.disabled,
                            "changes": report.changes.get(name),
                            "seconds": report.seconds.get(name),
                        }
                        for name, purpose in purposes.items()
                    ],
                }
                for target, report in reports.items()
            ],
        },
        blocks=tuple(blocks),
    )


def _outputs(program: Path, targets: Sequence["Target"], output: str | None) -> list[Path]:
    """Where each module goes: one target into the file named, several into a folder."""
    if output is not None and (output == str(_STDOUT) or descriptor_of(Path(output)) == 1):
        if len(targets) > 1:
            raise UsageError(
                f"{len(targets)} modules do not go to stdout", hint="name a folder with -o"
            )
        return [_STDOUT]
    place = program.parent if output is None else Path(output)
    is_folder = output is None or output.endswith(("/", os.sep)) or place.is_dir()
    if len(targets) == 1:
        if output is None:
            return [program.with_suffix(".vmfb")]
        if not is_folder:
            return [place]
    elif not is_folder and (place.is_file() or place.suffix == ".vmfb"):
        raise UsageError(
            f"{len(targets)} modules do not go into one file {output}", hint="name a folder with -o"
        )
    return [place / f"{program.stem}.{target.file_name}.vmfb" for target in targets]


def _module_json(made: "Compiled", command: str) -> dict[str, Any]:
    report = made.report
    return {
        "module": made.module.path,
        "target": report.target,
        "check": report.check,
        "cached": report.cached,
        "seconds": {step.value: seconds for step, seconds in report.seconds.items()},
        "size": made.module.sizes.to_json(),
        "kernels": None if report.kernels is None else report.kernels.to_json(),
        "command": list(report.command),
        "next": command,
    }


def _module_blocks(made: "Compiled", command: str) -> list[Block]:
    from edgec.cli.amounts import bytes_text, seconds_text

    report, sizes = made.report, made.module.sizes
    steps = ", ".join(f"{step.value} {seconds_text(s)}" for step, s in report.seconds.items())
    rows = [
        (part.value, bytes_text(size), f"{100 * size / max(1, sizes.total):.1f} %")
        for part, size in sizes.by_part().items()
        if size
    ]
    rows.append(("total", bytes_text(sizes.total), ""))
    return [
        f"{made.module.path}: {report.target}, {report.check}",
        Grid(columns=("part", "size", ""), rows=tuple(rows), right=frozenset({1, 2})),
        *_kernel_blocks(report.kernels),
        f"time: {seconds_text(report.total)}{' from the cache' if report.cached else ''} ({steps})",
        *([f"next: {command}"] if command else []),
    ]


def _kernel_blocks(share: "KernelShare | None") -> tuple[str, ...]:
    """What share of the work edgec's own kernels do, and the largest part that they do not."""
    if share is None:
        return ()
    largest = next(iter(share.left), None)
    if largest is None:
        return (f"kernels: {share}",)
    at = f" at {largest.where}" if largest.where else ""
    return (
        f"kernels: {share}",
        f"  most that is left to the compiler: {largest}{at}: {largest.reason} (-v lists all)",
    )


def _left(share: "KernelShare | None") -> tuple[str, ...]:
    """What was left to the compiler, a line a kind; what is too small to matter in one line."""
    if share is None:
        return ()
    lines = [
        f"left to the compiler: {left}{f' at {left.where}' if left.where else ''}: {left.reason}"
        for left in share.left
        if share.weight(left) >= _SMALL
    ]
    small = len(share.left) - len(lines)
    rest = f"left to the compiler: {small} kinds of operations more, each under 0.1 %"
    return (*lines, *((rest,) if small else ()))
