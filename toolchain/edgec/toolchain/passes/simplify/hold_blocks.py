"""Codes of weights in blocks, held back from being worked out before a kernel can read them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from edgec.toolchain.ir.functions import inside
from edgec.toolchain.kernels.cpu.source.vectors import vector_unit
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["HoldBlocks", "release"]

_BARRIER = "stablehlo.optimization_barrier"
_CONSTANT = "stablehlo.constant"
_PRODUCT = "stablehlo.dot_general"
_HELD = "edgec.held"


@dataclass(frozen=True, kw_only=True)
class HoldBlocks:
    """Codes of weights in blocks that are constants stay so until kernels are placed.

    A scale times an integer that is a constant is a constant too, and everything that works out
    constants would make f32 of a network's weights again: canonicalisation of small ones,
    `fold-constants` of the matrices of products, the compiler of all. A barrier after the codes
    keeps them apart; `block-kernels`, `cuda-kernels` and `vulkan-kernels` take it away. It stands
    only on targets whose kernels read blocks, and not where the other side is bytes, too, which is
    a product of bytes (`quantised-kernels`).

    Measured: a product by 64 x 128 weights of 8 bits inside the program reads 8,192 bytes of codes
    with this pass, and 32,768 of f32 without.
    """

    name = "hold-blocks"
    purpose = Purpose.SPEED

    @classmethod
    def plan(cls, situation: Situation) -> "HoldBlocks | None":
        """For StableHLO with products and conversions at -O2 and above, where kernels read blocks.

        Those are CPUs with vectors, and GPUs where their kernels can be compiled.
        """
        needed = {_PRODUCT, _CONSTANT, "stablehlo.convert"}
        if situation.level < 2 or not situation.is_stablehlo or not situation.operations >= needed:
            return None
        target = situation.target
        if target.gpu is not None and target.gpu.kernels:
            from edgec.toolchain.kernels.cuda.triton_compiler import has_triton
            from edgec.toolchain.kernels.vulkan.glsl_compiler import tools

            compiles = tools() is not None if target.is_spirv else has_triton()
            return cls() if compiles else None
        return None if vector_unit(target) is None else cls()

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many constants are held."""
        from iree.compiler import ir

        from edgec.toolchain.ir.fold import Constants
        from edgec.toolchain.kernels.cpu.quantised_dequantised import dequantised
        from edgec.toolchain.match.block_product import read_block_product

        count, known = 0, Constants()
        with module.context, ir.Location.name(f"edgec.{self.name}"):
            for op in [each for each in inside(module.operation) if each.name == _PRODUCT]:
                found = read_block_product(op)
                if found is None or dequantised(found.left, known) is not None:
                    continue
                codes = found.weights.codes
                if isinstance(codes.owner, ir.Block) or codes.owner.operation.name != _CONSTANT:
                    continue
                with ir.InsertionPoint.after(codes.owner.operation), op.location:
                    barrier = ir.Operation.create(
                        _BARRIER,
                        results=[codes.type],
                        operands=[codes],
                        attributes={_HELD: ir.UnitAttr.get()},
                    )
                codes.replace_all_uses_except(barrier.results[0], barrier)
                count += 1
        return count


def release(module: Any) -> None:
    """Take these barriers away again; others have reasons of their own."""
    for op in list(_barriers(module)):
        op.results[0].replace_all_uses_with(op.operands[0])
        op.erase()


def _barriers(module: Any) -> Iterator[Any]:
    for op in inside(module.operation):
        if op.name == _BARRIER and _HELD in op.attributes:
            yield op
