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
_KEEPS = ("stablehlo.constant", "util.global.load")
_OF_WIDTH = (
    "stablehlo.bitcast_convert",
    "stablehlo.custom_call",
    "stablehlo.composite",
    "util.global.store",
    "func.call",
)


@dataclass(frozen=True, kw_only=True)
class WidenHalves:
    """f16 and bf16 become f32 inside a program on the CPU; arguments and results keep their type.

    The compiler lowers products and convolutions in half precision to scalar conversions on most
    processors, and edgec's own kernels multiply f32. Numbers are read as halves and computed in
    f32, so answers are only closer to the exact ones. Constants and parameters stay halves in the
    file, and are widened when the module is compiled or loaded.

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

        from edgec.toolchain.ir.erase import erase_unused

        with module.context, ir.Location.name(f"edgec.{self.name}"):
            changed = [f for name, f in functions(module).items() if name != STATE_FUNCTION]
            operations = [op for f in changed for op in inside(f)]
            multiplies = any(
                op.name in _PRODUCTS and _is_half(op.operands[0].type) for op in operations
            )
            if not multiplies or not all(_can_widen(op) for op in operations):
                return 0
            count = sum(_widen(function) for function in changed)
            erase_unused(module)  # conversions to a type that their operand now has
            return count


def _is_half(kind: Any) -> bool:
    from iree.compiler import ir

    return isinstance(kind, ir.RankedTensorType) and isinstance(
        kind.element_type, ir.F16Type | ir.BF16Type
    )


def _can_widen(op: Any) -> bool:
    if op.name in _OF_WIDTH:
        return not any(_is_half(value.type) for value in (*op.operands, *op.results))
    if any(_is_half(value.type) for value in (*op.operands, *op.results)):
        known = op.name.startswith(("stablehlo.", "chlo.")) or op.name == "func.return"
        return known or op.name in _KEEPS
    return True


def _widen(function: Any) -> int:
    from iree.compiler import ir

    wide = ir.F32Type.get()

    def like(kind: Any, element: Any) -> Any:
        return ir.RankedTensorType.get(kind.shape, element, kind.encoding)

    def converted(value: Any, element: Any) -> Any:
        return ir.Operation.create(
            "stablehlo.convert", results=[like(value.type, element)], operands=[value]
        ).result

    count = 0
    entry = function.regions[0].blocks[0]
    returns = [op.operation for op in entry.operations if op.operation.name == "func.return"]
    kept = {place: value.type for place, value in enumerate(returns[0].operands)}
    operations = list(inside(function))
    for op in operations:
        for region in op.regions:
            for block in region.blocks:
                for argument in block.arguments:
                    if _is_half(argument.type):
                        argument.set_type(like(argument.type, wide))
                        count += 1
        for value in op.results:
            if not _is_half(value.type):
                continue
            count += 1
            if op.name in _KEEPS:
                with ir.InsertionPoint.after(op):
                    _replace(value, converted(value, wide))
            else:
                value.set_type(like(value.type, wide))
    with ir.InsertionPoint.at_block_begin(entry):
        for argument in entry.arguments:
            if _is_half(argument.type):
                count += 1
                _replace(argument, converted(argument, wide))
    for op in operations:
        if op.name == "stablehlo.convert" and op.operands[0].type == op.results[0].type:
            op.results[0].replace_all_uses_with(op.operands[0])
    for op in returns:
        with ir.InsertionPoint(op):
            for place, kind in kept.items():
                if _is_half(kind):
                    narrow = converted(op.operands[place], kind.element_type)
                    op.operands[place] = narrow
    return count


def _replace(value: Any, wider: Any) -> None:
    value.replace_all_uses_except(wider, wider.owner.operation)
