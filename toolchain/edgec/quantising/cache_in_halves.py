"""A program to one that keeps in f16 what its calls write into place by place: keys and values.

A language model's cache then takes half the memory, and a token reads half as much of it. What is
read is f32 again; each key and value is rounded once, when it is written.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from edgec.quantising.answers import Answers, distance, measurable
from edgec.quantising.computed_anew import as_program, computed_anew
from edgec.quantising.quantise import CALLS, Quantised
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import UsageError, WrongAnswer
from edgec.toolchain.program import Program

__all__ = ["quantise_cache"]

_MOVED = 2.0**-13
"""Of a number: a quarter of how far halves lie apart. What f32 is off by moves few numbers to the
half beside, which ones is not to be said; so many are moved, for what answers may be off by.
"""


def quantise_cache(
    found: Quantised,
    original: Program,
    *,
    max_error: float = math.inf,
    calls: int = CALLS,
    tell: Callable[[str], None] = lambda _: None,
) -> Quantised:
    """Keep the states of f32 that calls write into, and do not compute anew, in f16.

    Args:
        found: a program, of which weights and rows may be rounded already.
        original: the program it came from, whose golden answers errors are measured by.
        max_error: how far the answers may be off, all of it rounded.
        calls: how many golden calls, from the first on, that is measured on.
        tell: is told what is at work.

    Raises:
        UsageError: there are no such states.
        WrongAnswer: the answers would be off by more than `max_error`.
        ProgramError: the original has no golden answers.
    """
    from iree.compiler import ir

    from edgec.quantising.states_in_halves import halve_states, written_states
    from edgec.toolchain.passes.simplify.inline_calls import InlineCalls
    from edgec.toolchain.stablehlo import parse_stablehlo

    reference = measurable(original, calls)
    info = found.program.info
    module = parse_stablehlo(found.program.bytecode, ir.Context())
    InlineCalls().run(module)
    names = written_states(module, info) if info.states else ()
    if not names:
        raise UsageError(
            f"{original.path or original.name} has no cache: no state of f32 that its calls write "
            "into and leave as it is elsewhere",
            hint="leave out --cache",
        )
    tell(f"keeping {len(names)} states in f16, and computing answers in NumPy")

    def rewrite(module: Any, moved: float) -> None:
        halve_states(module, info, names, moved=moved)

    states = tuple(
        replace(spec, dtype=DType.F16) if spec.name in names else spec for spec in info.states
    )
    halved = replace(info, states=states)
    golden, code = computed_anew(
        found.program, halved, found.weights, reference, rewrite, moved=_MOVED
    )
    error = distance(Answers(golden=golden), Answers(golden=reference))
    if error > max_error:
        raise WrongAnswer(
            f"with a cache of f16 the answers are off by {error:.2%} of their spread, and "
            f"{max_error:.2%} is allowed",
            hint="leave out --cache",
        )
    made = as_program(code, golden, halved, info.loss, "cache in f16", error)
    return replace(found, program=made, error=error)
