"""Numbers seen as more or fewer numbers of another width: the same memory, for GPUs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgec.toolchain.ir.rewriting import rewrite_each
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["FreeBitcasts"]


@dataclass(frozen=True, kw_only=True)
class FreeBitcasts:
    """A `bitcast_convert` that changes the shape becomes a view of memory.

    iree-compile 3.13 takes 64-bit numbers apart with shifts, which its SPIR-V does without 64-bit
    integers and wrongly: both words of a `u64 → u32` pair are the lower one. Seen as memory the
    words are where they should be, and no code runs.

    Measured on llvmpipe: both words of a pair are right with it; without it the lower one
    comes twice.
    """

    name = "free-bitcasts"
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "FreeBitcasts | None":
        """For programs in StableHLO that become SPIR-V and may take words apart."""
        if not situation.target.is_spirv:
            return None
        names = {"stablehlo.bitcast_convert", "stablehlo.rng_bit_generator"}
        return cls() if situation.operations & names else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many conversions."""
        return rewrite_each(module, ["stablehlo.bitcast_convert"], _seen)


def _seen(op: Any) -> Sequence[Any] | None:
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    (value,), (result,) = op.operands, op.results
    if len(graph.shape(value)) == len(graph.shape(result)):
        return None
    if graph.is_unsigned(graph.element(value)) or graph.is_unsigned(graph.element(result)):
        return None
    if not {graph.element(value).width, graph.element(result).width} >= {32, 64}:
        return None
    segments = ir.DenseI32ArrayAttr.get([1, 0, 0])
    return [
        graph.create(
            "iree_tensor_ext.bitcast", result.type, [value], {"operandSegmentSizes": segments}
        )
    ]
