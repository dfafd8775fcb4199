"""Leading zeros of narrow integers, for GPUs, counted in 32 bits."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgec.toolchain.ir.rewriting import rewrite_each
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["CountZeros"]


@dataclass(frozen=True, kw_only=True)
class CountZeros:
    """`count_leading_zeros` of 8 and 16 bits becomes one of 32 bits, less the added zeros.

    iree-compile 3.13 has SPIR-V code for 32 bits only ("failed to legalize operation 'math.ctlz'").

    Measured: counts of 8 and 16 bits compile for Vulkan with it, and are refused without.
    """

    name = "count-zeros"
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "CountZeros | None":
        """For programs in StableHLO with such a count that become SPIR-V."""
        if not situation.target.is_spirv:
            return None
        return cls() if "stablehlo.count_leading_zeros" in situation.operations else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many counts changed."""
        return rewrite_each(module, ["stablehlo.count_leading_zeros"], _widened)


def _widened(op: Any) -> Sequence[Any] | None:
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    (value,) = op.operands
    kind, sizes = graph.element(value), graph.shape(value)
    if kind.width >= 32:
        return None
    word = ir.IntegerType.get_signless(32)
    mask = graph.fill((1 << kind.width) - 1, sizes, word)
    wide = graph.binary("and", graph.convert(value, word), mask)
    count = graph.binary(
        "subtract",
        graph.unary("count_leading_zeros", wide),
        graph.fill(32 - kind.width, sizes, word),
    )
    return [graph.convert(count, kind)]
