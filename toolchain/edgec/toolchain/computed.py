"""A program's answers to its golden calls, computed in NumPy, whatever the framework says."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from edgec.runtime.comparison import compare_call
from edgec.runtime.errors import ProgramError
from edgec.runtime.golden import Golden
from edgec.toolchain.program import STATE_FUNCTION, Input, Parameter, Program, ProgramInfo, State
from edgec.toolchain.weights_file import read_weights

__all__ = ["Seen", "answered", "refuse_other", "weights_of"]

_Array = np.ndarray[Any, np.dtype[Any]]
Seen = Callable[[int, Any, Sequence[_Array]], None]
"""Is told of a call (its number), an operation, and what that gives."""


def answered(
    module: Any,
    info: ProgramInfo,
    weights: Mapping[str, _Array],
    golden: Golden,
    instead: Mapping[Any, _Array] | None = None,
    seen: Seen | None = None,
    kept: dict[str, _Array] | None = None,
    after: Callable[[int, Mapping[str, _Array]], None] | None = None,
) -> Golden:
    """The golden calls with the answers that NumPy gives.

    Args:
        module: the program, an `ir.Module` in StableHLO.
        info: its description.
        weights: its parameters by name.
        golden: the calls.
        instead: numbers that weights have in place of their own, by name or constant.
        seen: is told what every operation gives on the way, with the number of the call.
        kept: is given the state after the last call, by name.
        after: is told the state after each call, with the call's number.

    Raises:
        ProgramError: something in the program is not known in NumPy.
    """
    from edgec.toolchain.ir.evaluate import NotEvaluated
    from edgec.toolchain.ir.interpret import Interpreter

    instead = instead or {}
    interpreter = Interpreter(module, instead)
    functions = {function.signature.name: function for function in info.functions}
    states: dict[str, _Array] = {} if kept is None else kept
    try:
        if info.states:
            first = interpreter.call(STATE_FUNCTION, [])
            states |= {spec.name: each for spec, each in zip(info.states, first, strict=True)}
        calls = []
        for number, call in enumerate(golden.calls):
            interpreter.seen = None if seen is None else partial(seen, number)
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
            if after is not None:
                after(number, states)
    except NotEvaluated as reason:
        raise ProgramError(
            f"the program cannot be computed in NumPy: {reason}",
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
                    hint="please report this: without it nothing could be said of the program's "
                    "answers",
                )


def weights_of(program: Program) -> dict[str, _Array]:
    """The parameters that a program keeps outside, by name.

    Raises:
        As `edgec.toolchain.weights_file.read_weights`.
    """
    path = program.weights_path
    return {} if path is None else read_weights(path)
