"""Scales and shifts by channel after a product by weights, put into the weights and one sum."""

from dataclasses import dataclass
from typing import Any

from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["FoldScales"]

_PRODUCTS = ("stablehlo.convolution", "stablehlo.dot_general")


@dataclass(frozen=True, kw_only=True)
class FoldScales:
    """A batch norm, or any scale and shift by channel, goes into the weights of what it follows.

    Exporters write the batch norm of a finished network as what it is: less the mean, times the
    reciprocal deviation, times a scale, plus a shift, four operations on each element after each
    convolution, in f32 where the convolution is in f16. A kernel can take a sum by channel along,
    but seldom all that. Where all of it follows from weights alone, it is one factor and one
    summand a channel: the factor goes into the weights, once, and a sum by channel is left. The
    scale of a layer after its projection (ConvNeXt, CaiT) goes the same way. Factors are computed
    in f64 where they are constants; with the weights and sums they are rounded to the types that
    these have. Weights that are bytes times scales stay so where the other side is bytes, too: a
    kernel of bytes makes one factor of all that follows.

    Measured: ResNet-50 of `timm` in f16 for CUDA; 53 batch norms are folded in 0.13 s, and kernels
    of edgec's own do 99 % of the bytes instead of 25.
    """

    name = "fold-scales"
    purpose = Purpose.SPEED

    @classmethod
    def plan(cls, situation: Situation) -> "FoldScales | None":
        """For StableHLO with products or convolutions at -O2 and above."""
        needed = situation.is_stablehlo and situation.operations.intersection(_PRODUCTS)
        return cls() if needed and situation.level >= 2 else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many were folded."""
        from iree.compiler import ir

        from edgec.toolchain.ir.erase import erase_unused
        from edgec.toolchain.ir.fold import Constants
        from edgec.toolchain.ir.functions import inside
        from edgec.toolchain.ir.weights import Weights
        from edgec.toolchain.kernels.cpu.quantised_dequantised import is_of_bytes
        from edgec.toolchain.match.affine import find_affine

        count, known = 0, Constants()
        with module.context, ir.Location.name(f"edgec.{self.name}"):
            weights = Weights(module)
            for op in list(inside(module.operation)):
                if op.name in _PRODUCTS and not is_of_bytes(op, known):
                    found = find_affine(op, weights)
                    if found is not None and found.scales:
                        found.fold()
                        count += 1
            if count:
                erase_unused(module)
        return count
