"""Sums of negated numbers for Vulkan as what is left of nothing when their sum is taken away."""

from dataclasses import dataclass
from typing import Any

from edgec.targets import Backend
from edgec.toolchain.ir.rewriting import rewrite_each
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["NegatedSums"]

_MOVES = ("slice", "reshape", "transpose", "broadcast_in_dim")
"""What may lie between: it moves numbers and computes none."""


@dataclass(frozen=True, kw_only=True)
class NegatedSums:
    """The sum of -x is 0 less the sum of x.

    iree-compile 3.13 makes one step of a negation and the sum behind it, which takes each number
    away from what there is so far. Where subgroups are counted on (targets that name their
    devices) it then looks for the number from which nothing is taken away, finds none, and refuses
    the program: each mean of negated numbers, and many a gradient by what was subtracted. What a
    sum begins with is what it is taken from, so that a sum of zeros keeps its sign.

    Measured by 22 programs of 6,400 numbers a row, negated in one way or another, for
    `vulkan:nvidia-ada`: 6 are refused without it (a sum, a mean, a sum of two axes, of a product, a
    slice, a maximum) and none with it.
    """

    name = "negated-sums"
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "NegatedSums | None":
        """For programs in StableHLO with negations and reductions, for Vulkan."""
        wanted = {"stablehlo.reduce", "stablehlo.negate"}
        is_vulkan = situation.target.backend is Backend.VULKAN
        return cls() if is_vulkan and wanted <= set(situation.operations) else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many were rewritten."""
        return rewrite_each(module, ["stablehlo.reduce"], _rewritten, open_sizes=True, as_one=True)


def _rewritten(op: Any) -> list[Any] | None:
    """The same from the numbers before they are negated; None where they are not."""
    from edgec.toolchain.ir import write as graph
    from edgec.toolchain.ir.fold import splat
    from edgec.toolchain.ir.read import adds_up, is_float

    if len(op.operands) != 2 or not adds_up(op) or not is_float(graph.element(op.operands[0])):
        return None
    values, first = op.operands
    plain = _before_negation(values)
    if plain is None:
        return None
    kind, begins = graph.element(first), splat(first)
    if begins is None and not graph.is_static(op.results[0]):
        return None
    zero = graph.fill_like(first, 0.0, kind)
    axes = graph.integers(op, "dimensions")
    (total,) = graph.reduce([plain], [zero], axes, lambda both: [graph.binary("add", *both)])
    if begins is None:
        from_ = graph.broadcast(first, graph.shape(total))
    else:
        from_ = graph.fill_like(total, begins, kind)
    return [graph.binary("subtract", from_, total)]


def _before_negation(value: Any) -> Any | None:
    """A value without the negation that it goes through; None where it goes through none."""
    from edgec.toolchain.ir.read import made_by

    negation = made_by(value, "negate")
    if negation is not None:
        return negation.operands[0]
    for name in _MOVES:
        move = made_by(value, name)
        if move is None:
            continue
        before = _before_negation(move.operands[0])
        if before is None:
            return None
        moved = move.clone()
        moved.operands[0] = before
        return moved.results[0]
    return None
