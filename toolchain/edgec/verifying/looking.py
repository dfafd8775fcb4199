"""A program to how the values on its way fared: compiled with taps, called, and compared."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from edgec.runtime.errors import CompileError, ModuleError, ProgramError
from edgec.runtime.golden import Golden
from edgec.runtime.module import Module
from edgec.toolchain.compiling import CompileOptions, compile_with_report
from edgec.toolchain.framework_values import FrameworkValues
from edgec.toolchain.program import Program
from edgec.toolchain.taps import read_taps
from edgec.verifying.framework import beside_framework, matched
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
    options = replace(options, taps=True, check=False)
    try:
        made = compile_with_report(numbers.program, target, options)
    except CompileError:
        # The compiler may refuse a loop with more results, or die of it: without, then, which is
        # said with the values that there are.
        made = compile_with_report(numbers.program, target, replace(options, tap_loops=False))
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
    theirs = _framework_values(program, golden, number)
    found = None
    if theirs is not None:
        found = matched(
            [value for value in theirs.values if value.function == call.signature],
            numbers.operations,
            reference,
            call.signature,
            subject.tolerance,
        )
        reference = found.reference
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
    if theirs is not None and found is not None:
        stands = [each.operation for each in layers.layers if each.comparison is not None]
        framework = beside_framework(theirs.framework, found, stands, numbers.operations)
        layers = replace(layers, framework=framework)
    return Looked(layers=layers, call=number, verdict=tapped, export_problem=reference.problem)


def _framework_values(program: Program, golden: Golden, call: int) -> FrameworkValues | None:
    """What the framework computed on the way in a call, where that was kept.

    Raises:
        FileError: the file cannot be read.
        ProgramError: it is another program's, or damaged.
    """
    if program.path is None or not FrameworkValues.path_for(program.path).exists():
        return None
    path = FrameworkValues.path_for(program.path)
    values = FrameworkValues.load(path)
    if values.program != program.digest:
        raise ProgramError(
            f"{path} holds values of another program",
            hint="export the model again with --values, or take the file away",
        )
    name = golden.calls[call].signature
    is_first = all(each.signature != name for each in golden.calls[:call])
    return values if is_first else None
