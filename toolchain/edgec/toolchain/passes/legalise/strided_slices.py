"""Slices with strides taken after a reversal, not before it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgec.toolchain.ir.rewriting import rewrite_each
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["ReverseFirst"]


@dataclass(frozen=True, kw_only=True)
class ReverseFirst:
    """A reversed slice with strides becomes a slice with strides of the reversed array.

    iree-compile 3.13 computes the addresses of both at once and leaves a conversion without code
    ("LLVM Translation failed for operation: builtin.unrealized_conversion_cast"): `x[::-2]` is
    refused. The other way round each is code that it has.

    Measured on the CPU and llvmpipe: `x[::-1, ::-2]` is refused without it and right with it.
    """

    name = "reverse-first"
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "ReverseFirst | None":
        """For programs in StableHLO with slices and reversals."""
        wanted = {"stablehlo.reverse", "stablehlo.slice"}
        return cls() if wanted <= situation.operations else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many reversals changed."""
        return rewrite_each(module, ["stablehlo.reverse"], _swapped)


def _swapped(op: Any) -> Sequence[Any] | None:
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    (taken,) = op.operands
    if isinstance(taken, ir.BlockArgument) or taken.owner.operation.name != "stablehlo.slice":
        return None
    inner = taken.owner.operation
    (whole,) = inner.operands
    strides = graph.integers(inner, "strides")
    if set(strides) <= {1} or not graph.is_static(whole):
        return None
    starts = graph.integers(inner, "start_indices")
    for axis in graph.integers(op, "dimensions"):
        last = starts[axis] + (graph.shape(taken)[axis] - 1) * strides[axis]
        starts[axis] = graph.shape(whole)[axis] - 1 - last
    limits = [
        start + (size - 1) * stride + 1
        for start, size, stride in zip(starts, graph.shape(taken), strides, strict=True)
    ]
    around = {"dimensions": op.attributes["dimensions"]}
    reversed_ = graph.create("stablehlo.reverse", whole.type, [whole], around)
    return [graph.slice_(reversed_, starts, limits, strides)]
