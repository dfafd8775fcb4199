"""Small branches that are both computed, and chosen between by a select."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgec.toolchain.ir.rewriting import rewrite_each
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["BothBranches"]

_BRANCHES = ("stablehlo.if", "stablehlo.case")
_MOST_NUMBERS = 1024  # that an operation of a branch writes
_MOST_OPERATIONS = 32  # of all branches together
# What may be computed for nothing: it neither fails nor writes. A division of integers may fail.
_FREE = {
    f"stablehlo.{name}"
    for name in (
        *("abs", "add", "and", "bitcast_convert", "broadcast_in_dim", "cbrt", "ceil", "clamp"),
        *("compare", "complex", "concatenate", "constant", "convert", "cosine", "dynamic_slice"),
        *("exponential", "exponential_minus_one", "floor", "imag", "iota", "is_finite", "log"),
        *("log_plus_one", "logistic", "maximum", "minimum", "multiply", "negate", "not", "or"),
        *("popcnt", "power", "real", "reshape", "round_nearest_afz", "round_nearest_even"),
        *("rsqrt", "select", "shift_left", "shift_right_arithmetic", "shift_right_logical"),
        *("sign", "sine", "slice", "sqrt", "subtract", "tan", "tanh", "transpose", "xor"),
    )
}
_DIVISIONS = {"stablehlo.divide", "stablehlo.remainder"}


@dataclass(frozen=True, kw_only=True)
class BothBranches:
    """Branches of a few small operations are both computed, and a select takes one's results.

    iree-compile 3.13 does not follow a few branches in a row within a loop, as a loop becomes whose
    turns are written out: "failed to solve for timepoint coverage". Branches stay that write more
    than 1,024 numbers at once, have more than 32 operations together, or divide integers, which may
    be what the branch is there to avoid.

    Measured: JAX's `bessel_jn`, a loop of some 80 steps with a choice each, is refused for the CPU
    without it; a loop of 2,000 turns with a choice each takes as long with it as without.
    """

    name = "both-branches"
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "BothBranches | None":
        """For programs in StableHLO with branches."""
        return cls() if situation.operations & set(_BRANCHES) else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many choices."""
        return rewrite_each(module, _BRANCHES, _both)


def _both(op: Any) -> Sequence[Any] | None:
    from edgec.toolchain.ir import write as graph

    branches = [[each.operation for each in region.blocks[0].operations] for region in op.regions]
    steps = [step for branch in branches for step in branch[:-1]]
    is_small = len(steps) <= _MOST_OPERATIONS and all(map(_is_small, op.results))
    if not is_small or not all(map(_is_free, steps)):
        return None
    ends = []
    for branch in branches:
        *moved, end = branch
        for step in moved:
            step.move_before(op)
        ends.append(list(end.operands))
    choice = op.operands[0]
    if op.name == "stablehlo.if":
        return [graph.select(choice, *pair) for pair in zip(*ends, strict=True)]
    # The last branch is also that of every number which is no branch's.
    values = ends[-1]
    for number, end in enumerate(ends[:-1]):
        is_it = graph.compare("EQ", choice, graph.fill(number, (), graph.element(choice)))
        values = [graph.select(is_it, *pair) for pair in zip(end, values, strict=True)]
    return values


def _is_small(value: Any) -> bool:
    return bool(math.prod(value.type.shape) <= _MOST_NUMBERS)


def _is_free(op: Any) -> bool:
    """Whether an operation can be computed where nobody asked for it, and costs little."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    if not graph.is_static(*op.operands, *op.results):
        return False
    if not all(map(_is_small, op.results)):
        return False
    if op.name in _DIVISIONS:
        return not isinstance(graph.element(op.results[0]), ir.IntegerType)
    return op.name in _FREE
