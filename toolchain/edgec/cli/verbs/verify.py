"""`edgec verify`: a program or module and a device to a verdict on its answers there."""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgec.cli.options import (
    DeviceOption,
    OnOption,
    WeightsOption,
    complete_device,
    complete_target,
)
from edgec.cli.report import Report
from edgec.cli.session import Session
from edgec.cli.signed import checked
from edgec.cli.verify_refusals import refuse_for_modules, refuse_without_meaning

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from edgec.cli.golden_calls import Answered, Asked
    from edgec.runtime import Module
    from edgec.verifying import Ask

__all__ = ["verify"]


def verify(
    session: Session,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="PROGRAM|MODULE|PACKAGE",
            help="A program (.mlirbc, .mlir), which is compiled first, or a module (.vmfb); with "
            "--key a package's folder, too.",
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
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            metavar="FILE|env:NAME|HEX",
            help="A public key: refuse a module or package, its weights included, that its owner "
            "did not sign, or that changed since.",
            show_default=False,
        ),
    ] = None,
    layers: Annotated[
        bool,
        typer.Option(
            "--layers",
            help="Compare every value that a kernel writes, and name the first wrong line.",
        ),
    ] = False,
    bisect: Annotated[
        bool,
        typer.Option(
            "--bisect",
            help="Find what makes it wrong (a pass, a flag, a runtime), and the smallest program "
            "that shows it.",
        ),
    ] = False,
    corners: Annotated[
        bool,
        typer.Option(
            "--corners",
            help="Call a program with zeros and with ones, too, beside NumPy's evaluation of it.",
        ),
    ] = False,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="URI",
            help="Compare with the answers of this device, and of no framework.",
            autocompletion=complete_device,
            show_default=False,
        ),
    ] = None,
    soak: Annotated[
        int | None,
        typer.Option(
            "--soak",
            metavar="N",
            min=2,
            help="Make the calls N times alone, from threads and beside other work: bits that "
            "change are wrong.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE.mlir",
            help="With --bisect: where that program goes, its inputs beside it (default: "
            "NAME.wrong.mlir).",
            show_default=False,
        ),
    ] = None,
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
    from edgec.cli.beforehand import refuse_beforehand
    from edgec.cli.folders import make_place
    from edgec.cli.golden_calls import ask_here, ask_there, filled
    from edgec.cli.program_files import is_program_file
    from edgec.cli.progress import describe
    from edgec.cli.verify_questions import (
        add,
        bisected,
        compared_with,
        cornered,
        looked_at,
        random_calls,
        soaked,
    )
    from edgec.cli.verify_report import verdict_report
    from edgec.cli.waiting import waiting
    from edgec.runtime import Device
    from edgec.toolchain import CompileOptions
    from edgec.verifying import judged, open_subject

    is_program = not file.is_dir() and is_program_file(file)
    signed = None
    if file.is_dir() or key is not None:
        signed = checked(file, key, weights, is_program=is_program)
        if signed.is_all(asked=bool(golden or layers or bisect or against or soak)):
            return signed.report()
    refuse_for_modules(
        file,
        is_program=is_program,
        target=target is not None,
        layers=layers,
        bisect=bisect,
        corners=corners,
    )
    refuse_without_meaning(
        layers=layers, bisect=bisect, picture_file=picture_file, output=output, soak=soak, on=on
    )
    if is_program:
        refuse_beforehand(target or "cpu", device=device, on=on)
    for uri in (device if on is None else None, against):
        if uri is not None:
            Device.open(uri)
    smallest = (output or Path(f"{file.stem}.wrong.mlir")) if bisect else None
    for place in (picture_file, smallest):
        if place is not None:
            make_place(place)
    chosen = device

    def ask(module: "Module", calls: "Asked") -> "Answered":
        at(f"calling {file} on {on or module.facts.target or 'this machine'}")
        if on is None:
            found = ask_here(session, module, calls, device=chosen, weights=weights)
        else:
            found = ask_there(session, module, calls, on=on, device=device, weights=weights)
        at(f"comparing what {file} gave")
        return found

    def results(module: "Module", calls: "Asked") -> "Sequence[Sequence[np.ndarray]]":
        return ask(module, calls).results

    def elsewhere(uri: str) -> "Ask":
        return lambda module, calls: (
            ask_here(session, module, calls, device=uri, weights=weights).results
        )

    with (
        tempfile.TemporaryDirectory(prefix="edgec-") as scratch,
        waiting(session, f"reading {file}") as at,
    ):
        options = CompileOptions(
            output=Path(scratch, f"{file.stem}.vmfb"),
            check=False,
            progress=lambda phase: at(describe(phase.step, phase.target)),
        )
        more = replace(options, output=Path(scratch, f"{file.stem}.more.vmfb"))
        subject = open_subject(
            file,
            is_program=is_program,
            target=target,
            golden=golden,
            key=None if signed is None else signed.public,
            options=options,
            ask=None if against is None else random_calls,
        )
        if corners:
            at("computing the answers to zeros and ones")
            subject = cornered(subject)
        if against is not None:
            subject = compared_with(session, subject, against, weights=weights, options=more)
        answered = ask(subject.module, subject.asked)
        verdict = judged(subject, answered.results)
        again = filled(answered) if verdict.ok else None
        if again is not None:
            chosen = again
            filled_in = ask(subject.module, subject.asked)
            told = judged(subject, filled_in.results)
            answered, verdict = (answered, verdict) if told.ok else (filled_in, told)
            chosen = device if told.ok else again
        report = verdict_report(file, subject, answered, verdict, signed, again)
        suspect = None
        if layers:
            looked, said = looked_at(
                session,
                file,
                subject,
                verdict,
                target=target or "cpu",
                options=more,
                ask=results,
                picture_file=picture_file,
            )
            report = add(report, said)
            first = looked.layers.first_wrong
            suspect = None if first is None else first.operation
        if smallest is not None:
            runs_here = (
                on is None and chosen == device and subject.module.facts.driver.startswith("local")
            )
            said = bisected(
                session,
                file,
                subject,
                verdict,
                target=target or "cpu",
                options=more,
                ask=results,
                others=[(u, elsewhere(u)) for u in _RUNTIMES if u != device] if runs_here else [],
                suspect=suspect,
                output=smallest,
            )
            report = add(report, said)
        if soak is not None:
            at(f"calling {file} {soak} times in each way")
            said = soaked(file, subject, device=device, weights=weights, rounds=soak)
            report = add(report, said)
    return report


_RUNTIMES = ("local-sync", "local-task", "edgert")
