"""What `edgec verify` is asked for besides its verdict, each to what it adds to the report."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgec.cli.beforehand import target_of
from edgec.cli.golden_calls import ask_here
from edgec.cli.layer_table import layer_blocks, layer_failure
from edgec.cli.random_inputs import random_inputs, sizes_of
from edgec.cli.report import Block, Report
from edgec.cli.session import Session
from edgec.runtime import Device, Golden, GoldenCall, Module
from edgec.runtime.errors import WrongAnswer
from edgec.runtime.files import write_atomically
from edgec.toolchain import CompileOptions, compile_with_report
from edgec.verifying import (
    Ask,
    Bisected,
    Looked,
    Subject,
    Verdict,
    bisect,
    look,
    picture,
    soak,
    with_corners,
    write_part,
)

__all__ = ["add", "bisected", "compared_with", "cornered", "looked_at", "random_calls", "soaked"]


def add(report: Report, more: Report) -> Report:
    """Two reports as one; the error that says more comes first."""
    return Report(
        data={**report.data, **more.data},
        blocks=(*report.blocks, "", *more.blocks),
        error=more.error or report.error,
    )


def looked_at(
    session: Session,
    file: Path,
    subject: Subject,
    verdict: Verdict,
    *,
    target: str,
    options: CompileOptions,
    ask: Ask,
    picture_file: Path | None,
) -> tuple[Looked, Report]:
    """`--layers`."""
    looked = look(subject, target=target, options=options, verdict=verdict, ask=ask)
    if looked.verdict.ok and not verdict.calls[looked.call].ok:
        session.note(
            "compiled with taps the answers are right: keeping every value changes what is wrong "
            "(memory that is used again, or several threads)"
        )
    if picture_file is not None:
        with write_atomically(picture_file) as stream:
            stream.write(picture(looked.layers, f"{file.name}: error along the network").encode())
        session.say(f"wrote {picture_file}")
    reference = "NumPy's evaluation of the program"
    if looked.layers.framework is not None:
        reference = f"{looked.layers.framework.name}'s values, and {reference} between them"
    found = {
        "call": looked.call,
        "reference": f"{reference}, in f64",
        "export_problem": looked.export_problem,
        "ok": looked.verdict.ok,
        **looked.layers.to_json(),
    }
    return looked, Report(
        data={"layers": found},
        blocks=(
            f"values on the way of call {looked.call + 1}, beside {reference}:",
            *layer_blocks(looked),
        ),
        error=layer_failure(looked, str(file)),
    )


def cornered(subject: Subject) -> Subject:
    """`--corners`: the calls, and more with answers by NumPy's evaluation of the program."""
    if subject.program is None or not isinstance(subject.calls, Golden):
        return subject
    calls = with_corners(subject.program, subject.calls)
    more = len(calls.calls) - len(subject.calls.calls)
    source = f"{subject.source}, and to {more} of zeros and ones NumPy's"
    return replace(subject, calls=calls, source=source)


def bisected(
    session: Session,
    file: Path,
    subject: Subject,
    verdict: Verdict,
    *,
    target: str,
    options: CompileOptions,
    ask: Ask,
    others: Sequence[tuple[str, Ask]],
    suspect: int | None,
    output: Path,
) -> Report:
    """`--bisect`."""
    if verdict.ok:
        return Report(
            data={"bisect": None}, blocks=("nothing is wrong, so there is nothing to bisect",)
        )
    found = bisect(
        subject,
        verdict,
        target=target,
        options=options,
        ask=ask,
        others=others,
        suspect=suspect,
        tell=session.say,
    )
    beside = None
    if found.part is not None:
        beside = write_part(found.part, output)
        session.say(f"wrote {output} and {beside}")
    return Report(
        data={"bisect": _bisected_json(found, output, beside)},
        blocks=_bisected_blocks(found, file, output),
        error=WrongAnswer(
            f"{file} is wrong, and right {_without(found)}"
            if found.cause.kind
            else f"{file} is wrong, whatever is left out",
            where=", ".join(found.part.lines) or None if found.part is not None else None,
            hint=f"report {output} with {beside}: `edgec verify {output}` shows it"
            if found.part is not None
            else "no part of it is wrong alone; report the whole program",
        ),
    )


def _without(found: Bisected) -> str:
    return f"with {' '.join(found.cause.flags)}"


def _bisected_blocks(found: Bisected, file: Path, output: Path) -> tuple[Block, ...]:
    blocks: list[Block] = [f"{found.tries} compiles of call {found.call + 1} of {file}"]
    if found.cause.kind:
        names = ", ".join(found.cause.names)
        blocks.append(
            f"right without the {found.cause.kind} {names}"
            if found.cause.kind == "pass"
            else f"right with {names}"
        )
    else:
        blocks.append("wrong without every pass, on every level and runtime that was tried")
    if found.part is None:
        blocks.append("no part of the program is wrong alone")
    else:
        lines = ", ".join(found.part.lines) or "no known line"
        blocks += [
            f"smallest program that is wrong: {output}, {found.part.count} operations of {lines}",
            f"there {found.problem}",
        ]
    return tuple(blocks)


def _bisected_json(found: Bisected, output: Path, beside: Path | None) -> dict[str, Any]:
    part = found.part
    return {
        "call": found.call,
        "cause": {
            "kind": found.cause.kind,
            "names": list(found.cause.names),
            "flags": list(found.cause.flags),
        },
        "program": None if part is None else output,
        "golden": beside,
        "operations": None if part is None else part.count,
        "lines": [] if part is None else list(part.lines),
        "problem": found.problem,
        "tries": found.tries,
    }


def soaked(
    file: Path, subject: Subject, *, device: str | None, weights: Path | None, rounds: int
) -> Report:
    """`--soak`."""
    found = soak(subject.module, subject.asked, device=device, weights=weights, rounds=rounds)
    done = ", ".join(f"{count} {way}" for way, count in found.rounds.items())
    same = "the bits changed" if found.change is not None else "the same bits in all"
    return Report(
        data={
            "soak": {
                "rounds": found.rounds,
                "same": found.change is None,
                "change": None if found.change is None else found.change.to_json(),
            }
        },
        blocks=(f"rounds: {done}; {same}",),
        error=found.failure(str(file)),
    )


def random_calls(module: Module) -> Golden:
    """A call of each function with random inputs, and no answers."""
    return Golden(
        calls=tuple(
            GoldenCall(
                signature=name,
                inputs=random_inputs(signature, seed=0, sizes=sizes_of(signature)),
                outputs=(),
            )
            for name, signature in module.signatures.items()
        )
    )


def compared_with(
    session: Session,
    subject: Subject,
    device: str,
    *,
    weights: Path | None,
    options: CompileOptions,
) -> Subject:
    """`--against`: the same calls, with the answers of another device of this machine.

    A program is compiled for what that device is; a module runs there as it is.
    """
    module = subject.module
    if subject.program is not None:
        target = target_of(Device.open(device))
        module = compile_with_report(subject.program, target, options).module
    asked = subject.asked
    answered = ask_here(session, module, asked, device=device, weights=weights)
    calls = tuple(
        GoldenCall(signature=name, inputs=tuple(inputs), outputs=tuple(outputs))
        for (name, inputs), outputs in zip(asked, answered.results, strict=True)
    )
    return replace(subject, calls=Golden(calls=calls), source=f"{answered.name} ({device})")
