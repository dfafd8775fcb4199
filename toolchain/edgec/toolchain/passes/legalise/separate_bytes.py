"""Bytes widened before the kernel that multiplies them, for GPUs that misread them there."""

from dataclasses import dataclass
from typing import Any

from edgec.toolchain.ir.functions import inside
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["SeparateBytes"]

_PRODUCTS = ("stablehlo.dot_general", "stablehlo.convolution")
_NARROW = ("i8", "ui8")
# Values that go into or out of these may meet a product elsewhere.
_ELSEWHERE = ("func.call", "stablehlo.composite", "stablehlo.while", "stablehlo.return")


@dataclass(frozen=True, kw_only=True)
class SeparateBytes:
    """Matrix products and convolutions take no 8-bit integers, nor conversions of them.

    The compiler fuses the conversion of an i8 or u8 into the product that uses it, and its SPIR-V
    then reads signed bytes as unsigned and other bytes than the right ones. A barrier after the
    conversion keeps it in a kernel of its own. A product that takes bytes directly gets them
    widened to 32 bits first, which changes no result: sums wrap alike. Kernels of edgec's own read
    bytes rightly, and are placed before.

    Measured on Mesa's llvmpipe with IREE 3.13: an int8 matrix product (all values wrong without,
    exact with), a resized image of bytes (half of the pixels wrong without, right with).
    """

    name = "separate-bytes"
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "SeparateBytes | None":
        """For programs in StableHLO that become SPIR-V."""
        spirv = situation.target.is_spirv
        return cls() if spirv and situation.is_stablehlo else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many places changed."""
        from iree.compiler import ir

        with module.context, ir.Location.name(f"edgec.{self.name}"):
            operations = list(inside(module.operation))
            count = sum(_widen(op) for op in operations if op.name in _PRODUCTS)
            for op in inside(module.operation):
                if op.name == "stablehlo.convert" and _is_narrow(op.operands[0].type):
                    count += _fence(op)
            return count


def _is_narrow(kind: Any) -> bool:
    from iree.compiler import ir

    return isinstance(kind, ir.RankedTensorType) and str(kind.element_type) in _NARROW


def _widen(product: Any) -> int:
    """Convert the bytes that a product takes to i32, and its sum back if that is bytes too."""
    from iree.compiler import ir

    narrow = [i for i, value in enumerate(product.operands) if _is_narrow(value.type)]
    if not narrow:
        return 0
    wide = ir.IntegerType.get_signless(32)
    with ir.InsertionPoint(product):
        for index in range(len(product.operands)):
            product.operands[index] = _convert(product.operands[index], wide)
    (result,) = product.results
    kind = result.type
    if kind.element_type == wide:
        return len(narrow)
    result.set_type(_like(kind, wide))
    with ir.InsertionPoint.after(product):
        back = _convert(result, kind.element_type)
    result.replace_all_uses_except(back, back.owner.operation)
    return len(narrow)


def _fence(conversion: Any) -> int:
    """Put a barrier after a conversion whose value some product depends on."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    (result,) = conversion.results
    if _is_narrow(result.type) or not _reaches_product(result):
        return 0
    users = [use.owner.operation for use in result.uses]
    with ir.InsertionPoint.after(conversion):
        fenced = graph.fence(result)
    for user in users:
        for index, operand in enumerate(user.operands):
            if operand == result:
                user.operands[index] = fenced
    return 1


def _reaches_product(value: Any) -> bool:
    """Whether a product may be among the users of a value, or of what is computed from it."""
    seen: set[Any] = set()
    waiting = [value]
    while waiting:
        for use in waiting.pop().uses:
            user = use.owner.operation
            if user.name in _PRODUCTS or user.name in _ELSEWHERE:
                return True
            if user not in seen:
                seen.add(user)
                waiting.extend(user.results)
    return False


def _convert(value: Any, element: Any) -> Any:
    from iree.compiler import ir

    if value.type.element_type == element:
        return value
    return ir.Operation.create(
        "stablehlo.convert", results=[_like(value.type, element)], operands=[value]
    ).result


def _like(kind: Any, element: Any) -> Any:
    """The tensor type of the same sizes with another element type."""
    from iree.compiler import ir

    return ir.RankedTensorType.get(kind.shape, element, kind.encoding)
