"""A program to one that multiplies its weights in blocks with rows rounded to bytes at every call.

Weights that are floats become blocks first, as `quantise` does it; those that came in blocks stay
as they are. A row's groups are those of the weights that it meets, each with a scale of its own, so
nothing has to be known of the values before.
"""

import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from edgec.quantising.answers import Answers, distance, without_slack
from edgec.quantising.quantise import CALLS, Quantised, quantise
from edgec.quantising.scheme import Scheme
from edgec.quantising.ties import noise_of, with_ties
from edgec.runtime.conditioning import apart
from edgec.runtime.errors import ProgramError, UsageError, WrongAnswer
from edgec.runtime.golden import Golden, GoldenCall
from edgec.toolchain.computed import answered, weights_of
from edgec.toolchain.portable import to_portable
from edgec.toolchain.program import Loss, Program

__all__ = ["MOVED", "quantise_with_rounded_rows"]

_Array = np.ndarray[Any, np.dtype[Any]]
MOVED = 1e-6
"""Of a scale: what sums of f32 are off by."""
_SCORES = "logits"
"""The state in which a language model keeps the scores of the next token."""


def quantise_with_rounded_rows(
    program: Program,
    scheme: Scheme | None,
    *,
    keep: Sequence[str] = (),
    max_error: float = math.inf,
    calls: int = CALLS,
    tell: Callable[[str], None] = lambda _: None,
    **how: Any,
) -> Quantised:
    """Round weights as `quantise` does, and what they are multiplied with.

    Args:
        program: with golden answers.
        scheme: as in `quantise`.
        keep: as in `quantise`.
        max_error: how far the answers may be off, both rounded.
        calls: as in `quantise`.
        tell: as in `quantise`.
        how: the other arguments of `quantise`.

    Raises:
        UsageError: there are no weights in blocks, and none that become so.
        WrongAnswer: the answers would be off by more than `max_error`.
        And what `quantise` raises.
    """
    if program.golden is None or not program.golden.calls:
        raise ProgramError(
            f"{program.path or program.name} has no golden answers to measure an error with",
            hint="export the model with edgec, which records them",
        )
    reference = Golden(calls=program.golden.calls[:calls])
    found = _with_blocks(program, scheme, keep, calls, tell, how)
    tell("rounding what weights in blocks are multiplied with, and computing answers in NumPy")
    golden, bytecode, count = _rounded(found, reference)
    if not count:
        raise UsageError(
            f"{program.path or program.name} has no products by weights in blocks",
            hint="say --weights=int8-g32 or another way that keeps weights in blocks",
        )
    error = distance(Answers(golden=golden), Answers(golden=reference))
    if error > max_error:
        raise WrongAnswer(
            f"with rows rounded to bytes the answers are off by {error:.2%} of their spread, and "
            f"{max_error:.2%} is allowed",
            hint="leave out --activations, or take smaller groups",
        )
    before = found.program.info.loss
    weights = "weights as they came" if before is None else before.weights
    info = replace(
        found.program.info, loss=Loss(weights=f"{weights}, rows rounded to bytes", error=error)
    )
    made = Program(bytecode=_described(bytecode, info), info=info, golden=golden)
    return replace(found, program=made, error=error)


def _with_blocks(
    program: Program,
    scheme: Scheme | None,
    keep: Sequence[str],
    calls: int,
    tell: Callable[[str], None],
    how: Mapping[str, Any],
) -> Quantised:
    """The program with all weights in blocks that can be."""
    from iree.compiler import ir

    from edgec.quantising.constants import bytes_of_constants
    from edgec.quantising.layers import find_layers
    from edgec.toolchain.passes.simplify.inline_calls import InlineCalls
    from edgec.toolchain.stablehlo import parse_stablehlo

    weights = weights_of(program)
    module = parse_stablehlo(program.bytecode, ir.Context())
    InlineCalls().run(module)
    layers, kept = find_layers(module, program.info, weights)
    if layers:
        return quantise(program, scheme, keep=keep, calls=calls, tell=tell, **how)
    size = sum(array.nbytes for array in weights.values()) + bytes_of_constants(module)
    info = program.info
    if info.weights is not None and how.get("weights_file") is not None:
        file = Path(how["weights_file"]).as_posix()
        info = replace(info, weights=replace(info.weights, file=file))
    return Quantised(
        program=replace(program, info=info),
        weights=weights,
        lines=(),
        kept=tuple((each.where, each.what, each.reason) for each in kept),
        before=size,
        after=size,
        error=0.0,
        calls=calls,
    )


@dataclass(frozen=True, kw_only=True)
class _Run:
    """Answers, and the scores of tokens after each call."""

    golden: Golden
    scores: tuple[_Array, ...]


def _rounded(found: Quantised, reference: Golden) -> tuple[Golden, bytes, int]:
    """The answers with rows rounded, what is right beside them, the code, and how many products."""
    from iree.compiler import ir

    from edgec.quantising.rounding_rows import round_left_sides
    from edgec.toolchain.ir.erase import erase_unused
    from edgec.toolchain.passes.simplify.inline_calls import InlineCalls
    from edgec.toolchain.stablehlo import parse_stablehlo

    runs: list[_Run] = []
    code, count = b"", 0
    for moved in (0.0, MOVED):
        module = parse_stablehlo(found.program.bytecode, ir.Context())
        InlineCalls().run(module)
        with module.context, ir.Location.unknown():
            count = round_left_sides(module, moved=moved)
            erase_unused(module)
            module.operation.verify()
            if not moved:
                buffer = io.BytesIO()
                module.operation.write_bytecode(buffer)
                code = buffer.getvalue()
        runs.append(_run(module, found.program, found.weights, reference))
    own, other = runs
    calls = without_slack(own.golden.calls)
    if own.scores:
        calls = with_ties(calls, own.scores, noise_of(own.scores, other.scores))
    pairs = zip(calls, other.golden.calls, strict=True)
    return Golden(calls=tuple(_settled(call, moved) for call, moved in pairs)), code, count


def _run(module: Any, program: Program, weights: Mapping[str, _Array], reference: Golden) -> _Run:
    scores: list[_Array] = []

    def see(_: int, states: Mapping[str, _Array]) -> None:
        if program.info.text is not None and _SCORES in states:
            scores.append(np.asarray(states[_SCORES], np.float64))

    golden = answered(module, program.info, weights, reference, after=see)
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
