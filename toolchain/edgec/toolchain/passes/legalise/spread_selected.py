"""The gradient of max pooling, select_and_scatter, as a choice for each place in a window."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from edgec.toolchain.ir.rewriting import rewrite_each
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["SpreadSelected"]

_MOST_PLACES = 512


@dataclass(frozen=True, kw_only=True)
class SpreadSelected:
    """`select_and_scatter` becomes strided slices, comparisons and padded sums.

    iree-compile 3.13 refuses it where windows overlap or are padded, which the gradient of nearly
    every max pooling is, and gets ties wrong elsewhere. Here each place of the window is a strided
    slice of the operand; the choice runs over the places in order, and every place then gives
    back the sources that chose it, dilated and padded to the operand's shape. A window of k places
    costs 2 k elementwise steps, and no step writes into another's result.

    Measured with `benchmarks.operators.passes` on the CPU: it changes 36 of 2,448 operator cases;
    of 6 tried, 6 are right with it and 2 without.
    """

    name = "spread-selected"
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "SpreadSelected | None":
        """For programs in StableHLO with such a gradient."""
        return cls() if "stablehlo.select_and_scatter" in situation.operations else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many were rewritten."""
        return rewrite_each(module, ["stablehlo.select_and_scatter"], _spread)


def _spread(op: Any) -> Sequence[Any] | None:
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    operand, source, first = op.operands
    own, out = graph.shape(operand), graph.shape(source)
    rank = len(own)
    window = graph.integers(op, "window_dimensions", [1] * rank)
    strides = graph.integers(op, "window_strides", [1] * rank)
    flat = graph.integers(op, "padding", [0] * (2 * rank))
    low, high = flat[0::2], flat[1::2]
    places = list(product(*(range(n) for n in window)))
    if len(places) > _MOST_PLACES or 0 in own or 0 in out:
        return None
    kind, index = graph.element(operand), ir.IntegerType.get_signless(32)
    zero = graph.fill(0, (), kind)
    padded = graph.pad(operand, zero, low, high)
    inside = np.pad(np.ones(own, bool), list(zip(low, high, strict=True)))
    chosen = place = None
    found = np.zeros(out, bool)
    for number, at in enumerate(places):
        limits = [a + (n - 1) * s + 1 for a, n, s in zip(at, out, strides, strict=True)]
        value = graph.slice_(padded, at, limits, strides)
        here = inside[tuple(slice(a, b, s) for a, b, s in zip(at, limits, strides, strict=True))]
        numbered = graph.fill(number, out, index)
        if chosen is None:
            chosen, place = value, numbered
            found = here.copy()
            continue
        (keeps,) = graph.apply(op.regions[0], [chosen, value])
        keeps = graph.binary("and", keeps, _truths(found)) if not found.all() else keeps
        keeps = graph.binary("or", keeps, _truths(~here)) if not here.all() else keeps
        chosen = graph.select(keeps, chosen, value)
        place = graph.select(keeps, place, numbered)
        found |= here
    result = graph.broadcast(first, own)
    no = graph.fill(0, (), ir.IntegerType.get_signless(1))
    for number, at in enumerate(places):
        mine = graph.compare("EQ", place, graph.fill(number, out, index))
        # To the operand's shape; what would lie in the padding is cut off.
        before = [a - b for a, b in zip(at, low, strict=True)]
        after = [
            n - (b + (m - 1) * s + 1) for n, b, m, s in zip(own, before, out, strides, strict=True)
        ]
        wide = [before, after, [s - 1 for s in strides]]
        given = graph.pad(source, zero, *wide)
        takes = graph.pad(mine, no, *wide)
        (sum_,) = graph.apply(op.regions[1], [result, given])
        result = graph.select(takes, sum_, result)
    return [result]


def _truths(values: np.ndarray) -> Any:
    """A constant of truths, written as bytes: the bindings pack bits differently."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    byte = ir.IntegerType.get_signless(8)
    numbers = graph.constant(values.astype(np.int8), byte)
    return graph.compare("NE", numbers, graph.fill(0, values.shape, byte))
