"""Windows with several results, as strided slices folded place by place."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from edgec.toolchain.ir.rewriting import rewrite_each
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["SpreadWindows"]

_MOST_PLACES = 512


@dataclass(frozen=True, kw_only=True)
class SpreadWindows:
    """A `reduce_window` of several values becomes strided slices, one for each place of the window.

    The largest element of each window and its place, as max pooling keeps for its gradient, are
    one such operation. With a transposition before it and after it, which channels last bring,
    iree-compile 3.13 moves those into it and refuses its own result ("expected number of yield
    values (2) to match the number of inits"), or dies. Slices that are folded element by
    element are one dispatch, and no place of the window is a loop.

    Measured: a training step of a network with max pooling is refused without it.
    """

    name = "spread-windows"
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "SpreadWindows | None":
        """For programs in StableHLO with windows."""
        return cls() if "stablehlo.reduce_window" in situation.operations else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many were rewritten."""
        return rewrite_each(module, ["stablehlo.reduce_window"], _spread)


def _spread(op: Any) -> Sequence[Any] | None:
    from edgec.toolchain.ir import write as graph

    count = len(op.results)
    if count == 1 or not graph.is_static(*op.operands, *op.results):
        return None
    values, firsts = list(op.operands)[:count], list(op.operands)[count:]
    out = graph.shape(op.results[0])
    rank = len(out)
    window, strides, apart, between = (
        graph.integers(op, f"{name}s", [1] * rank)
        for name in ("window_dimension", "window_stride", "window_dilation", "base_dilation")
    )
    if not 0 < prod(window) <= _MOST_PLACES or 0 in out:
        return None
    pads = graph.integers(op, "padding", [0] * (2 * rank))
    wide = [
        graph.pad(value, first, pads[::2], pads[1::2], [n - 1 for n in between])
        for value, first in zip(values, firsts, strict=True)
    ]
    found = [graph.broadcast(first, out) for first in firsts]
    for place in product(*(range(size) for size in window)):
        starts = [at * far for at, far in zip(place, apart, strict=True)]
        limits = [a + (n - 1) * s + 1 for a, n, s in zip(starts, out, strides, strict=True)]
        met = [graph.slice_(value, starts, limits, strides) for value in wide]
        found = graph.apply(op.regions[0], [*found, *met])
    return found
