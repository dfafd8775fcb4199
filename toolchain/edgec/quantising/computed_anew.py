"""A program some of which was rounded anew: its code, and the answers that NumPy gives for it."""

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from edgec.quantising.answers import without_slack
from edgec.quantising.ties import noise_of, with_ties
from edgec.runtime.conditioning import apart
from edgec.runtime.golden import Golden, GoldenCall
from edgec.toolchain.computed import answered
from edgec.toolchain.portable import to_portable
from edgec.toolchain.program import Loss, Program, ProgramInfo

__all__ = ["MOVED", "as_program", "computed_anew"]

_Array = np.ndarray[Any, np.dtype[Any]]
MOVED = 1e-6
"""Of a number: what sums of f32 are off by."""
_SCORES = "logits"
"""The state in which a language model keeps the scores of the next token."""


def computed_anew(
    program: Program,
    info: ProgramInfo,
    weights: Mapping[str, _Array],
    reference: Golden,
    rewrite: Callable[[Any, float], object],
    *,
    moved: float = MOVED,
) -> tuple[Golden, bytes]:
    """The answers with something rounded, what is right beside them, and the code.

    Args:
        program: before.
        info: its description afterwards.
        weights: its parameters by name.
        reference: the calls.
        rewrite: rounds, in a module whose calls are inlined; what is rounded is off by a part of
            itself, so that what hangs on the last bits of it shows.
        moved: that part.
    """
    from iree.compiler import ir

    from edgec.toolchain.ir.erase import erase_unused
    from edgec.toolchain.passes.simplify.inline_calls import InlineCalls
    from edgec.toolchain.stablehlo import parse_stablehlo

    runs: list[_Run] = []
    code = b""
    for part in (0.0, moved):
        module = parse_stablehlo(program.bytecode, ir.Context())
        InlineCalls().run(module)
        with module.context, ir.Location.unknown():
            rewrite(module, part)
            erase_unused(module)
            module.operation.verify()
            if not part:
                buffer = io.BytesIO()
                module.operation.write_bytecode(buffer)
                code = buffer.getvalue()
        runs.append(_run(module, info, weights, reference))
    own, other = runs
    calls = without_slack(own.golden.calls)
    if own.scores:
        calls = with_ties(calls, own.scores, noise_of(own.scores, other.scores))
    pairs = zip(calls, other.golden.calls, strict=True)
    return Golden(calls=tuple(_settled(call, beside) for call, beside in pairs)), code


def as_program(
    code: bytes, golden: Golden, info: ProgramInfo, before: Loss | None, what: str, error: float
) -> Program:
    """The program of such code, whose description says what was rounded, and before it."""
    known = before or Loss(weights="", error=0.0)
    besides = ", ".join(filter(None, (known.besides, what)))
    info = replace(info, loss=replace(known, besides=besides, error=error))
    return Program(bytecode=_described(code, info), info=info, golden=golden)


@dataclass(frozen=True, kw_only=True)
class _Run:
    """Answers, and the scores of tokens after each call."""

    golden: Golden
    scores: tuple[_Array, ...]


def _run(module: Any, info: ProgramInfo, weights: Mapping[str, _Array], reference: Golden) -> _Run:
    scores: list[_Array] = []

    def see(_: int, states: Mapping[str, _Array]) -> None:
        if info.text is not None and _SCORES in states:
            scores.append(np.asarray(states[_SCORES], np.float64))

    golden = answered(module, info, weights, reference, after=see)
    return _Run(golden=golden, scores=tuple(scores))


def _settled(call: GoldenCall, moved: GoldenCall) -> GoldenCall:
    """A call whose floats may be off by what rounding makes of them."""
    pairs = zip(call.outputs, moved.outputs, strict=True)
    within = tuple(apart(answer, [other]) for answer, other in pairs)
    return replace(call, within=within) if any(within) else call


def _described(code: bytes, info: Any) -> bytes:
    """Portable code with its description in it."""
    from iree.compiler import ir

    from edgec.toolchain.program import PROGRAM_ATTRIBUTE
    from edgec.toolchain.stablehlo import parse_stablehlo

    module = parse_stablehlo(code, ir.Context())
    with module.context:
        module.operation.attributes[PROGRAM_ATTRIBUTE] = ir.StringAttr.get(info.to_json())
        buffer = io.BytesIO()
        module.operation.write_bytecode(buffer)
    return to_portable(buffer.getvalue())
