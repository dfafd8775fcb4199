"""`edgec verify`: a program or module and a device to a verdict on its answers there."""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgec.cli.options import DeviceOption, OnOption, WeightsOption, complete_target
from edgec.cli.report import Block, Grid, Report
from edgec.cli.session import Session
from edgec.runtime.errors import UsageError

if TYPE_CHECKING:
    from edgec.cli.golden_calls import Answered, Asked
    from edgec.runtime import Module
    from edgec.verifying import Looked, Subject, Verdict

__all__ = ["verify"]


def verify(
    session: Session,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="PROGRAM|MODULE",
            help="A program (.mlirbc, .mlir), which is compiled first, or a module (.vmfb).",
            show_default=False,
        ),
    ],
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            metavar="NAME",
            help="What a program is compiled for (default: cpu, this machine).",
            autocompletion=complete_target,
            show_default=False,
        ),
    ] = None,
    golden: Annotated[
        Path | None,
        typer.Option(
            "--golden",
            metavar="FILE",
            help="Golden answers, where they are not beside the file as NAME.golden.npz.",
            show_default=False,
        ),
    ] = None,
    device: DeviceOption = None,
    on: OnOption = None,
    weights: WeightsOption = None,
    layers: Annotated[
        bool,
        typer.Option(
            "--layers",
            help="Compare every value that a kernel writes, and name the first wrong line.",
        ),
    ] = False,
    picture_file: Annotated[
        Path | None,
        typer.Option(
            "--picture",
            metavar="FILE.svg",
            help="With --layers: draw the error along the network.",
            show_default=False,
        ),
    ] = None,
) -> Report:
    """Repeat the golden calls on a device, and say of each output how far off it is."""
    from edgec.cli.golden_calls import ask_here, ask_there
    from edgec.cli.program_files import is_program_file
    from edgec.toolchain import CompileOptions
    from edgec.verifying import judged, look, open_subject

    is_program = is_program_file(file)
    if target is not None and not is_program:
        raise UsageError(
            f"{file} is a module, which is compiled already, and --target={target} says for what",
            hint="leave out --target, or give the program",
        )
    if layers and not is_program:
        raise UsageError(
            f"--layers compiles anew, and {file} is a module",
            hint="give the program (.mlirbc) that it was compiled of",
        )
    if picture_file is not None and (not layers or picture_file.suffix != ".svg"):
        raise UsageError(
            f"--picture={picture_file} draws what --layers finds, as SVG",
            hint="add --layers, and end the name in .svg",
        )

    def ask(module: "Module", calls: "Asked") -> "Answered":
        if on is None:
            return ask_here(session, module, calls, device=device, weights=weights)
        return ask_there(session, module, calls, on=on, device=device, weights=weights)

    with tempfile.TemporaryDirectory(prefix="edgec-") as scratch:
        options = CompileOptions(output=Path(scratch, f"{file.stem}.vmfb"), check=False)
        subject = open_subject(
            file, is_program=is_program, target=target, golden=golden, options=options
        )
        answered = ask(subject.module, subject.asked)
        verdict = judged(subject, answered.results)
        report = _report(file, subject, answered, verdict)
        if not layers:
            return report
        looked = look(
            subject,
            target=target or "cpu",
            options=replace(options, output=Path(scratch, f"{file.stem}.taps.vmfb")),
            verdict=verdict,
            ask=lambda module, calls: ask(module, calls).results,
        )
    return _with_layers(session, report, looked, verdict, file, picture_file)


def _with_layers(
    session: Session,
    report: Report,
    looked: "Looked",
    verdict: "Verdict",
    file: Path,
    picture_file: Path | None,
) -> Report:
    """The report with what --layers found behind it."""
    from edgec.cli.folders import make_folder
    from edgec.cli.layer_table import layer_blocks, layer_failure
    from edgec.runtime.files import write_atomically
    from edgec.verifying import picture

    if looked.verdict.ok and not verdict.calls[looked.call].ok:
        session.note(
            "compiled with taps the answers are right: keeping every value changes what is wrong "
            "(memory that is used again, or several threads)"
        )
    if picture_file is not None:
        make_folder(picture_file.parent)
        with write_atomically(picture_file) as stream:
            stream.write(picture(looked.layers, f"{file.name}: error along the network").encode())
        session.say(f"wrote {picture_file}")
    found = {
        "call": looked.call,
        "reference": "NumPy's evaluation of the program, in f64",
        "export_problem": looked.export_problem,
        "ok": looked.verdict.ok,
        **looked.layers.to_json(),
    }
    return Report(
        data={**report.data, "layers": found},
        blocks=(
            *report.blocks,
            "",
            f"values on the way of call {looked.call + 1}, beside NumPy's evaluation of the "
            "program:",
            *layer_blocks(looked),
        ),
        error=layer_failure(looked, str(file)) or report.error,
    )


def _report(file: Path, subject: "Subject", answered: "Answered", verdict: "Verdict") -> Report:
    place = answered.place
    where = answered.name if place is None else place.name
    calls = len(verdict.calls)
    blocks: list[Block] = [
        f"{file} on {where}: {calls} call{'s' * (calls > 1)}, answers of {subject.source}",
        _grid(verdict),
        f"verdict: {'right' if verdict.ok else 'WRONG'}",
    ]
    return Report(
        data={
            "file": file,
            "kind": "module" if subject.program is None else "program",
            "target": subject.module.facts.target,
            "device": answered.device,
            "on": None if place is None else place.to_json(),
            "source": subject.source,
            "ok": verdict.ok,
            "calls": [call.to_json() for call in verdict.calls],
        },
        blocks=tuple(blocks),
        error=verdict.failure(f"{file} on {where}"),
    )


def _grid(verdict: "Verdict") -> Grid:
    rows = []
    for number, call in enumerate(verdict.calls):
        for output in call.outputs:
            near = output.closeness
            rows.append(
                (
                    f"{number + 1}",
                    call.function,
                    output.name,
                    str(output.compared),
                    f"{output.worst:.2e}",
                    "" if near is None else f"{near.relative_l2:.2e}",
                    "" if near is None else f"{near.cosine:.7f}",
                    "" if near is None else f"{near.signal_to_noise:.1f} dB",
                    "right" if output.ok else "WRONG",
                )
            )
    return Grid(
        columns=(
            *("call", "function", "output", "numbers", "worst"),
            *("relative L2", "cosine", "signal to noise", ""),
        ),
        rows=tuple(rows),
        right=frozenset({0, 3, 4, 5, 6, 7}),
    )
