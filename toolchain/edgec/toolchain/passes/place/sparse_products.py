"""Products by weights that are zeros for the most part, as kernels that multiply the others."""

from dataclasses import dataclass, field
from typing import Any

from edgec.toolchain.ir.functions import inside
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit, vector_unit
from edgec.toolchain.kernels.spec import Answers
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["SparseProducts"]


@dataclass(frozen=True, kw_only=True)
class SparseProducts:
    """A product by a constant matrix of few numbers reads and multiplies these alone on a CPU.

    Pruned networks and sparse arrays that were made dense keep their zeros in the program. A matrix
    of at least 16,384 numbers, few enough of them not zero, becomes rows of numbers with their
    places; the product is one kernel, which holds neighbouring columns in vectors.


    Measured (`docs/benchmarks_sparse.md`): 1024 x 1024 weights on one core with AVX-512, 64 rows:
    0.26 ms with 10 % of them and 0.72 as a dense product, one row 0.08 and 0.10; it is as quick as
    the dense kernel at 29 % and 14 %, so it is used up to 25 % and 12.5 %.
    """

    unit: VectorUnit
    answers: Answers = field(default_factory=Answers)

    name = "sparse-products"
    purpose = Purpose.SPEED

    @classmethod
    def plan(cls, situation: Situation) -> "SparseProducts | None":
        """For StableHLO at -O2 and above on a CPU with vectors."""
        unit = vector_unit(situation.target)
        if unit is None or situation.level < 2 or not situation.is_stablehlo:
            return None
        if "stablehlo.dot_general" not in situation.operations:
            return None
        return cls(unit=unit, answers=situation.answers)

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many kernels are called."""
        from iree.compiler import ir

        from edgec.toolchain.ir.erase import erase_unused
        from edgec.toolchain.kernels.cpu.library import Library
        from edgec.toolchain.kernels.cpu.sparse_products import place_sparse_product

        with module.context, ir.Location.name(f"edgec.{self.name}"):
            library = Library(module)
            for op in list(inside(module.operation)):
                if op.name == "stablehlo.dot_general":
                    place_sparse_product(op, library, self.unit, self.answers)
            if library.count:
                erase_unused(module)
            return library.count
