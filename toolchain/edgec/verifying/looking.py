"""A program to how the values on its way fared: compiled with taps, called, and compared."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from edgec.runtime.errors import ModuleError, ProgramError
from edgec.runtime.golden import Golden
from edgec.runtime.module import Module
from edgec.toolchain.compiling import CompileOptions, compile_with_report
from edgec.toolchain.taps import read_taps
from edgec.verifying.layers import Layers, compare_layers
from edgec.verifying.outputs import Verdict, judged
from edgec.verifying.reference import numbered, refer
from edgec.verifying.subject import Subject

__all__ = ["Ask", "Looked", "look"]

_Array = np.ndarray[Any, np.dtype[Any]]
Ask = Callable[[Module, Sequence[tuple[str, tuple[_Array, ...]]]], Sequence[Sequence[_Array]]]
"""Makes calls of a module on the device in question, in order, on fresh state."""


@dataclass(frozen=True, kw_only=True)
class Looked:
    """What came of it.

    Attributes:
        layers: the values on the way.
        call: which golden call they are of.
        verdict: on the answers of the module with taps.
        export_problem: how NumPy's answers differ from the framework's; empty where they do not.
    """

    layers: Layers
    call: int
    verdict: Verdict
    export_problem: str


def look(
    subject: Subject, *, target: str, options: CompileOptions, verdict: Verdict, ask: Ask
) -> Looked:
    """Compare every value that a dispatch writes with what it should be.

    Args:
        subject: a program that was compiled, with golden answers.
        target: what it is compiled for.
        options: how; `output` says where the module with taps goes.
        verdict: on its answers without taps; the first call that is wrong is looked at, or the
            first where all are right.
        ask: makes calls of the module with taps.

    Raises:
        ProgramError: the subject is no program, or one that NumPy does not know.
        CompileError: it cannot be compiled with taps.
    """
    program, golden = subject.program, subject.calls
    if program is None or not isinstance(golden, Golden):
        raise ProgramError(
            "values on the way are looked at in a program, which is compiled with taps for it",
            hint="give the program (.mlirbc) that the module was compiled of",
        )
    number = verdict.first_wrong
    numbers = numbered(program)
    made = compile_with_report(numbers.program, target, replace(options, taps=True, check=False))
    call = golden.calls[number]
    taps = read_taps(made.module.path).get(call.signature)
    if taps is None:
        raise ModuleError(
            f"{call.signature} was compiled without a dispatch to look at",
            hint="`edgec verify` without --layers compares its outputs",
        )
    asked = [(each.signature, each.inputs) for each in golden.calls[: number + 1]]
    answers = [list(each) for each in ask(made.module, asked)]
    own = [given[: len(each.outputs)] for given, each in zip(answers, golden.calls, strict=False)]
    asked_for = Golden(calls=golden.calls[: number + 1])
    tapped = judged(replace(subject, calls=asked_for), own)
    reference = refer(numbers, golden, number)
    layers = compare_layers(
        taps,
        answers[number],
        call.inputs,
        [output.ok for output in tapped.calls[number].outputs],
        numbers.operations,
        reference,
        call.signature,
        subject.tolerance,
    )
    return Looked(layers=layers, call=number, verdict=tapped, export_problem=reference.problem)
