"""A program to one that multiplies its weights in blocks with rows rounded to bytes at every call.

Weights that are floats become blocks first, as `quantise` does it; those that came in blocks stay
as they are. A row's groups are those of the weights that it meets, each with a scale of its own, so
nothing has to be known of the values before.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from edgec.quantising.answers import Answers, distance
from edgec.quantising.computed_anew import as_program, computed_anew
from edgec.quantising.quantise import CALLS, Quantised, quantise, with_weights_as_they_are
from edgec.quantising.scheme import Scheme
from edgec.runtime.errors import ProgramError, UsageError, WrongAnswer
from edgec.runtime.golden import Golden
from edgec.toolchain.computed import weights_of
from edgec.toolchain.program import Program

__all__ = ["quantise_with_rounded_rows"]


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
    from edgec.quantising.rounding_rows import round_left_sides

    reference = Golden(calls=program.golden.calls[:calls])
    found = _with_blocks(program, scheme, keep, calls, tell, how)
    tell("rounding what weights in blocks are multiplied with, and computing answers in NumPy")

    def rewrite(module: Any, moved: float) -> None:
        if not round_left_sides(module, moved=moved):
            raise UsageError(
                f"{program.path or program.name} has no products by weights in blocks",
                hint="say --weights=int8-g32 or another way that keeps weights in blocks",
            )

    info, before = found.program.info, found.program.info.loss
    golden, code = computed_anew(found.program, info, found.weights, reference, rewrite)
    error = distance(Answers(golden=golden), Answers(golden=reference))
    if error > max_error:
        raise WrongAnswer(
            f"with rows rounded to bytes the answers are off by {error:.2%} of their spread, and "
            f"{max_error:.2%} is allowed",
            hint="leave out --activations, or take smaller groups",
        )
    made = as_program(code, golden, info, before, "rows rounded to bytes", error)
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

    from edgec.quantising.layers import find_layers
    from edgec.toolchain.passes.simplify.inline_calls import InlineCalls
    from edgec.toolchain.stablehlo import parse_stablehlo

    weights = weights_of(program)
    module = parse_stablehlo(program.bytecode, ir.Context())
    InlineCalls().run(module)
    layers, kept = find_layers(module, program.info, weights)
    if layers:
        return quantise(program, scheme, keep=keep, calls=calls, tell=tell, **how)
    left = tuple((each.where, each.what, each.reason) for each in kept)
    return replace(
        with_weights_as_they_are(program, how.get("weights_file")), kept=left, calls=calls
    )
