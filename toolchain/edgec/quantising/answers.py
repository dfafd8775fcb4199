"""A program's answers to its golden calls, computed in NumPy, and how far they are from others."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from edgec.runtime.comparison import compare, compare_call
from edgec.runtime.errors import ProgramError
from edgec.runtime.golden import Golden, GoldenCall
from edgec.toolchain.program import STATE_FUNCTION, Input, Parameter, ProgramInfo, State

__all__ = ["answered", "distance", "refuse_other"]

_Array = np.ndarray[Any, np.dtype[Any]]


def answered(
    module: Any,
    info: ProgramInfo,
    weights: Mapping[str, _Array],
    golden: Golden,
    instead: Mapping[Any, _Array] | None = None,
) -> Golden:
    """The golden calls with the answers that NumPy gives.

    Args:
        module: the program, an `ir.Module` in StableHLO.
        info: its description.
        weights: its parameters by name.
        golden: the calls.
        instead: numbers that weights have in place of their own, by name or constant.

    Raises:
        ProgramError: something in the program is not known in NumPy.
    """
    from edgec.toolchain.ir.evaluate import NotEvaluated
    from edgec.toolchain.ir.interpret import Interpreter

    instead = instead or {}
    interpreter = Interpreter(module, instead)
    functions = {function.signature.name: function for function in info.functions}
    states: dict[str, _Array] = {}
    try:
        if info.states:
            first = interpreter.call(STATE_FUNCTION, [])
            states = {spec.name: each for spec, each in zip(info.states, first, strict=True)}
        calls = []
        for call in golden.calls:
            function = functions[call.signature]
            given: list[_Array] = []
            for role in function.arguments:
                if isinstance(role, Parameter):
                    given.append(instead[role.name] if role.name in instead else weights[role.name])
                elif isinstance(role, State):
                    given.append(states[role.name])
                elif isinstance(role, Input):
                    given.append(call.inputs[role.index])
            outputs = list(call.outputs)
            fixed = [i for i, r in enumerate(function.arguments) if isinstance(r, Parameter)]
            results = interpreter.call(call.signature, given, fixed)
            for role, result in zip(function.results, results, strict=True):
                if isinstance(role, State):
                    states[role.name] = result
                elif not isinstance(role, Parameter):
                    outputs[role.index] = result.astype(call.outputs[role.index].dtype)
            calls.append(replace(call, outputs=tuple(outputs)))
    except NotEvaluated as reason:
        raise ProgramError(
            f"the program cannot be computed in NumPy, which the answers of a quantised program "
            f"come from: {reason}",
            hint="please report this operation",
        ) from reason
    return Golden(calls=tuple(calls))


def refuse_other(found: Golden, golden: Golden) -> None:
    """Refuse answers that are not the framework's own.

    Raises:
        ProgramError: NumPy computes something else than the framework did.
    """
    for one, other in zip(found.calls, golden.calls, strict=True):
        for comparison in compare_call(other, one.outputs):
            if not comparison.ok:
                raise ProgramError(
                    f"NumPy gives {other.signature} other answers than the framework: "
                    f"{comparison.problem}",
                    hint="please report this: without it nothing could be said of a quantised "
                    "program's answers",
                )


def distance(found: Golden, golden: Golden) -> float:
    """How far answers are from others: the output that is furthest, as a part of its spread.

    Of floats that is the root mean square of the differences, of the call where it is largest; of
    others the share that differs, over all calls of a function.
    """
    worst = 0.0
    wrong: dict[tuple[str, int], list[int]] = {}
    for call, wanted in zip(found.calls, golden.calls, strict=True):
        for number, (one, other) in enumerate(zip(call.outputs, wanted.outputs, strict=True)):
            if other.dtype.kind in "biu":
                counts = wrong.setdefault((call.signature, number), [0, 0])
                counts[0] += int((one != other).sum())
                counts[1] += other.size
            else:
                worst = max(worst, compare(one, other).error)
    shares = (differing / max(count, 1) for differing, count in wrong.values())
    return max(worst, *shares, 0.0)


def without_slack(calls: Sequence[GoldenCall]) -> tuple[GoldenCall, ...]:
    """Calls whose answers are one computation's: what the framework left open is open no more."""
    return tuple(replace(call, within=(), open=(), others=()) for call in calls)
