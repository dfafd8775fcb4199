"""Products of bytes by known integers, summed in i32, and the rounding before them, as kernels."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from edgec.toolchain.ir.functions import inside
from edgec.toolchain.kernels.cpu.source.cut import Cut
from edgec.toolchain.kernels.cpu.source.dot_unit import DotUnit, dot_unit
from edgec.toolchain.kernels.spec import Answers
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["IntegerProducts"]

_PRODUCT = "stablehlo.dot_general"


@dataclass(frozen=True, kw_only=True)
class IntegerProducts:
    """Products of bytes that are summed in i32 are kernels of the processor's own instruction.

    What is quantised at every call (ONNX Runtime's `quantize_dynamic`) has a scale and a zero point
    that only the call knows, so the program says what it means: bytes less their zero point, as
    i32, times integers. The compiler multiplies these as i32, from weights four times as large.
    Here the bytes themselves are multiplied (`vpdpbusd` on x86 with VNNI, `sdot` on Arm), and
    every sum begins with the zero point's share, one multiplication a vector. Sums wrap as before,
    so that nothing is rounded. What rounds numbers to such bytes is a kernel too, which reads them
    twice and writes bytes, scale and zero point; the compiler made four of it. All this is before
    loops are unrolled: a recurrent network's step has one such product, whose weights are packed
    once, when it is compiled.

    Measured on one core with AVX-512 and VNNI: three LSTMs of 768 over 80 steps take 16.3 ms,
    without this pass 299 (ONNX Runtime 15.7); on two 5.0 and 146 (5.9). The module has 12 MB of
    weights, and had 46. Three of 256 in both directions with an attention over 64 steps take 5.3
    and 33.3 (5.1), on two 4.4 and 20.8 (4.0).

    Attributes:
        unit: how the target multiplies bytes.
        cuts: tiles that were measured to be best, by kernel.
        answers: where the answer to each description is kept.
    """

    unit: DotUnit
    cuts: Mapping[str, Cut] = field(default_factory=dict)
    answers: Answers = field(default_factory=Answers)

    name = "integer-products"
    purpose = Purpose.SPEED

    @classmethod
    def plan(cls, situation: Situation) -> "IntegerProducts | None":
        """For StableHLO with products at -O2 and above, on a CPU that multiplies bytes."""
        unit = dot_unit(situation.target)
        if unit is None or situation.level < 2 or not situation.is_stablehlo:
            return None
        if _PRODUCT not in situation.operations:
            return None
        return cls(unit=unit, cuts=situation.settings.cuts, answers=situation.answers)

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many kernels are called."""
        from iree.compiler import ir

        from edgec.toolchain.ir.erase import erase_unused
        from edgec.toolchain.ir.fold import Constants
        from edgec.toolchain.kernels.cpu.byte_roundings import place_byte_rounding
        from edgec.toolchain.kernels.cpu.integer_products import place_integer_product
        from edgec.toolchain.kernels.cpu.library import Library

        with module.context, ir.Location.name(f"edgec.{self.name}"):
            library, known = Library(module, self.cuts), Constants()
            operations = list(inside(module.operation))
            for op in operations:
                if op.name == "stablehlo.convert":
                    place_byte_rounding(op, library, self.unit, self.answers)
            for op in (op for op in operations if op.name == _PRODUCT):
                place_integer_product(op, library, self.unit, known, self.answers)
            if library.count:
                erase_unused(module)
            return library.count
