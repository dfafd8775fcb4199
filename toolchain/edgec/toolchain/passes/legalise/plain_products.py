"""Matrix products without the algorithm that a framework asks for."""

from dataclasses import dataclass
from typing import Any

from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["PlainProducts"]


@dataclass(frozen=True, kw_only=True)
class PlainProducts:
    """A product's named algorithm is left out; its types say what it needs.

    JAX names one for 16-bit floats whose sums are in f32 (`dot_product_attention`), and
    iree-compile 3.13 refuses any product that has one. Operands of 16 bits and a result of 32 say
    the same: products are summed in the result's type.

    Measured with `benchmarks.operators.passes` on the CPU: it changes 1 of 2,448 operator cases;
    of 1 tried, 1 are right with it and 1 without.
    """

    name = "plain-products"
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "PlainProducts | None":
        """For programs in StableHLO with a matrix product."""
        return cls() if "stablehlo.dot_general" in situation.operations else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many products changed."""
        from edgec.toolchain.ir import write as graph

        count = 0
        with module.context:
            for op in graph.inside(module.operation):
                if op.name == "stablehlo.dot_general" and "algorithm" in op.attributes:
                    del op.attributes["algorithm"]
                    count += 1
        return count
