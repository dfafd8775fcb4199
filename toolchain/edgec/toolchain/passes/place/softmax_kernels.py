"""A softmax by itself, as a kernel of edgec's own on the CPU."""

from dataclasses import dataclass, field
from typing import Any

from edgec.toolchain.ir.functions import inside
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit, vector_unit
from edgec.toolchain.kernels.spec import Answers
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["SoftmaxKernels"]


@dataclass(frozen=True, kw_only=True)
class SoftmaxKernels:
    """A softmax along any axis that no attention took becomes one kernel on the CPU.

    The compiler walks over rows of odd sizes one element at a time. Here some neighbours of a row,
    or of rows that lie side by side, are one vector; powers are computed twice, so that nothing
    but results is written.

    Measured on one core with AVX-512: 784 rows of 196 scores take 0.10 ms, and 1.52 without it;
    two softmaxes that are mixed and summed again (ConViT's gates) 0.27 and 3.24.

    Attributes:
        unit: the vector registers of the target.
        answers: where the answer to each description is kept.
    """

    unit: VectorUnit
    answers: Answers = field(default_factory=Answers)

    name = "softmax-kernels"
    purpose = Purpose.SPEED

    @classmethod
    def plan(cls, situation: Situation) -> "SoftmaxKernels | None":
        """For StableHLO with powers and quotients at -O2 and above on a CPU with vectors."""
        unit = vector_unit(situation.target)
        if unit is None or situation.level < 2 or not situation.is_stablehlo:
            return None
        needed = {"stablehlo.reduce", "stablehlo.exponential", "stablehlo.divide"}
        return cls(unit=unit, answers=situation.answers) if needed <= situation.operations else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many kernels are called."""
        from iree.compiler import ir

        from edgec.toolchain.ir.erase import erase_unused
        from edgec.toolchain.kernels.cpu.library import Library
        from edgec.toolchain.kernels.cpu.softmaxes import place_softmax

        with module.context, ir.Location.name(f"edgec.{self.name}"):
            library = Library(module)
            for op in list(inside(module.operation)):
                if op.name == "stablehlo.divide":
                    place_softmax(op, library, self.unit, self.answers)
            if library.count:
                erase_unused(module)
            return library.count
