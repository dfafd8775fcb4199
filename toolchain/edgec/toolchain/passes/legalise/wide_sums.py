"""Sums and products of halves that are summed in f32."""

from dataclasses import dataclass
from typing import Any

from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["WideSums"]

_SUMS = ("stablehlo.reduce", "stablehlo.reduce_window")
_PRODUCTS = ("stablehlo.dot_general", "stablehlo.convolution")
_HALVES = ("f16", "bf16")


@dataclass(frozen=True, kw_only=True)
class WideSums:
    """A sum over f16 or bf16 is kept in f32 and rounded once: a product's, and what is divided.

    Frameworks sum halves in f32 and export the sum as one of halves. The compiler takes it at its
    word: each element is added to a half, so that the mean of an image (a global pooling, a
    squeeze and excitation) loses a bit for each time its number of pixels doubles, and a sum above
    65504 is infinite where its mean would not be. Products and convolutions that no kernel of
    edgec's own took are summed so, too. On the CPU `widen-halves` does this and more from -O2 on.

    Measured on Mesa's llvmpipe: the mean of 56 x 56 pixels in f16, as PyTorch exports it,
    is off by 3.3 % without this and by 0.02 % with it; a product of 1024 x 1024 x 1024 on an H200
    through the plain target `vulkan` by 4 % without.
    """

    name = "wide-sums"
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "WideSums | None":
        """For StableHLO with sums or products."""
        needed = situation.is_stablehlo and situation.operations.intersection(_SUMS + _PRODUCTS)
        return cls() if needed else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many sums were widened."""
        from iree.compiler import ir

        from edgec.toolchain.ir.functions import inside

        with module.context, ir.Location.name(f"edgec.{self.name}"):
            operations = list(inside(module.operation))
            sums = [op for op in operations if _is_sum_of_halves(op)]
            for op in sums:
                _widen(op)
            products = [op for op in operations if _is_product_of_halves(op)]
            for op in products:
                _widen_result(op.results[0])
            return len(sums) + len(products)


def _is_sum_of_halves(op: Any) -> bool:
    from edgec.toolchain.ir.read import adds_up

    if op.name not in _SUMS or len(op.results) != 1:
        return False
    kinds = {str(value.type.element_type) for value in (*op.operands, *op.results)}
    return adds_up(op) and len(kinds) == 1 and kinds <= set(_HALVES)


def _is_product_of_halves(op: Any) -> bool:
    """Its own result is of halves; what multiplies them may be of two types."""
    return op.name in _PRODUCTS and str(op.results[0].type.element_type) in _HALVES


def _widen(op: Any) -> None:
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    wide = ir.F32Type.get()
    half = graph.element(op.results[0])
    with ir.InsertionPoint(op):
        for place, value in enumerate(op.operands):
            op.operands[place] = graph.convert(value, wide)
    (block,) = op.regions[0].blocks
    for value in (*block.arguments, block.operations[0].results[0], op.results[0]):
        _set_element(value, wide)
    _round(_divided(op.results[0], wide), half)


def _widen_result(value: Any) -> None:
    from iree.compiler import ir

    half = value.type.element_type
    _set_element(value, ir.F32Type.get())
    _round(value, half)


def _round(value: Any, half: Any) -> None:
    """Give a value of f32 to all that use it as one of halves."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    with ir.InsertionPoint.after(value.owner.operation):
        rounded = graph.convert(value, half)
    value.replace_all_uses_except(rounded, rounded.owner.operation)


def _divided(value: Any, wide: Any) -> Any:
    """What is left of a sum after it alone is reshaped and multiplied by numbers, in f32, too."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph
    from edgec.toolchain.ir.fold import splat
    from edgec.toolchain.ir.uses import only_use

    while True:
        use = only_use(value)
        if use is None:
            return value
        user, place = use.owner.operation, use.operand_number
        if user.name in ("stablehlo.divide", "stablehlo.multiply"):
            number = splat(user.operands[1 - place])
            if number is None or (user.name == "stablehlo.divide" and place):
                return value
            with ir.InsertionPoint(user):
                user.operands[1 - place] = graph.fill(number, graph.shape(value), wide)
        elif user.name != "stablehlo.reshape":
            return value
        value = user.results[0]
        _set_element(value, wide)


def _set_element(value: Any, kind: Any) -> None:
    from iree.compiler import ir

    value.set_type(ir.RankedTensorType.get(value.type.shape, kind))
