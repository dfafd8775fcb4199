"""Products of bf16 in f32, with what they read and write in memory as 16-bit integers."""

from dataclasses import dataclass
from typing import Any

from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["BrainProducts"]

_PRODUCTS = ("stablehlo.dot_general", "stablehlo.convolution")
_HALF = 0x7FFF
_NO_NUMBER = 0x7FC0


@dataclass(frozen=True, kw_only=True)
class BrainProducts:
    """A product or convolution of bf16 reads and writes its 16 bits as integers, in SPIR-V.

    iree-compile 3.13 reads and writes four neighbours of 16 bits as two f32, and has no code for
    that if they are bf16 ("failed to legalize operation 'vector.bitcast'"): it refuses nearly every
    matrix product of bf16. Of integers it has. An operand's bits become the upper ones of an f32 in
    a kernel before the product's (in the product's own, llvmpipe took minutes over it), of weights
    once at load, where they take twice the memory; its sum is rounded to the nearest number of
    bf16, of two to the even one, before it is written. Kernels of edgec's own are placed before.

    Measured on Mesa's llvmpipe: products of 4 x 32 by 32 x 64 and of 128 x 384 by 384 x 384 are
    refused without it, and as near to NumPy's as bf16 can be with it.
    """

    name = "brain-products"
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "BrainProducts | None":
        """For programs in StableHLO with products that become SPIR-V."""
        has = situation.is_stablehlo and situation.operations.intersection(_PRODUCTS)
        return cls() if has and situation.target.is_spirv else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many products changed."""
        from iree.compiler import ir

        from edgec.toolchain.ir.functions import inside
        from edgec.toolchain.ir.places import step

        count = 0
        with module.context:
            for op in list(inside(module.operation)):
                if op.name in _PRODUCTS and any(_is_brain(v) for v in (*op.operands, *op.results)):
                    with step(op), ir.InsertionPoint(op):
                        _change(op)
                    count += 1
        return count


def _is_brain(value: Any) -> bool:
    from iree.compiler import ir

    return isinstance(value.type, ir.RankedTensorType) and isinstance(
        value.type.element_type, ir.BF16Type
    )


def _change(product: Any) -> None:
    """Have a product read and write integers of 16 bits."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    for place, value in enumerate(product.operands):
        if _is_brain(value):
            product.operands[place] = _read(value)
    (result,) = product.results
    if not _is_brain(result):
        return
    kind = result.type.element_type
    result.set_type(ir.RankedTensorType.get(result.type.shape, ir.F32Type.get()))
    uses = list(result.uses)
    with ir.InsertionPoint.after(product):
        written = graph.seen_as(_rounded(result), kind)
    for use in uses:
        use.owner.operands[use.operand_number] = written


def _read(value: Any) -> Any:
    """Numbers of bf16 as f32."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    narrow, word = (ir.IntegerType.get_signless(width) for width in (16, 32))
    bits = graph.convert(graph.seen_as(value, narrow), word)
    return graph.fence(graph.bitcast(_shifted("shift_left", bits, 16), ir.F32Type.get()))


def _rounded(value: Any) -> Any:
    """The bits of numbers of f32 in bf16."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    narrow, word = (ir.IntegerType.get_signless(width) for width in (16, 32))
    bits = graph.bitcast(value, word)
    odd = graph.binary(
        "and", _shifted("shift_right_logical", bits, 16), graph.fill_like(bits, 1, word)
    )
    half = graph.binary("add", odd, graph.fill_like(bits, _HALF, word))
    upper = _shifted("shift_right_logical", graph.binary("add", bits, half), 16)
    is_number = graph.compare("EQ", value, value)
    chosen = graph.select(is_number, upper, graph.fill_like(bits, _NO_NUMBER, word))
    return graph.convert(chosen, narrow)


def _shifted(name: str, value: Any, by: int) -> Any:
    from edgec.toolchain.ir import write as graph

    return graph.binary(name, value, graph.fill_like(value, by, graph.element(value)))
