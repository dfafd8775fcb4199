"""Unsigned numbers widened for a matrix product keep their value."""

from dataclasses import dataclass
from typing import Any

from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["GuardProducts"]


@dataclass(frozen=True, kw_only=True)
class GuardProducts:
    """A conversion from unsigned integers or bool is kept apart from the product that uses it.

    iree-compile 3.13 folds a conversion into the matrix product behind it, and the product then
    widens its operand as a signed number, whatever it was: `dot(u8 → i32, u8 → i32)` is wrong
    from 128 on, and a mask of bool made f32 counts as -1. A maximum with zero after the
    conversion, which changes no unsigned number, keeps the two apart; it is computed with the
    conversion.

    Measured: a product of two u8 matrices with random bytes, all 20 values wrong without, exact
    with.
    """

    name = "guard-products"
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "GuardProducts | None":
        """For programs in StableHLO with a matrix product and a conversion or unsigned types."""
        return cls() if "stablehlo.dot_general" in situation.operations else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many conversions."""
        from iree.compiler import ir

        from edgec.toolchain.ir import write as graph

        count = 0
        with module.context:
            for op in graph.inside(module.operation):
                if op.name != "stablehlo.dot_general":
                    continue
                for index, operand in enumerate(op.operands):
                    if not _widens_unsigned(operand):
                        continue
                    with op.location, ir.InsertionPoint(op):
                        zero = graph.fill(0, graph.shape(operand), graph.element(operand))
                        op.operands[index] = graph.binary("maximum", operand, zero)
                    count += 1
        return count


def _widens_unsigned(value: Any) -> bool:
    """Whether a value is a conversion of unsigned integers or bool to a wider or other type."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    if not graph.is_static(value) or not isinstance(value.owner, ir.OpView | ir.Operation):
        return False
    source = value.owner.operation
    if source.name != "stablehlo.convert":
        return False
    before, after = graph.element(source.operands[0]), graph.element(value)
    if isinstance(after, ir.ComplexType) or graph.is_unsigned(after):
        return False
    if not isinstance(before, ir.IntegerType) or not (before.is_unsigned or before.width == 1):
        return False
    return not isinstance(after, ir.IntegerType) or bool(after.width > before.width)
