"""Convolutions with a window of one pixel, as matrix products."""

import math
from dataclasses import dataclass
from typing import Any

from edgec.targets import Backend
from edgec.toolchain.ir.functions import inside
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["PointwiseProducts"]


@dataclass(frozen=True, kw_only=True)
class PointwiseProducts:
    """A convolution with a window of one pixel, channels last, becomes a product of all pixels.

    Most of a residual network is such convolutions. GPUs multiply matrices with tiles in shared
    memory and tensor cores, but the compiler tiles a convolution for neither. A stride becomes a
    slice before the product. On the CPU edgec's own kernels take convolutions as they are.

    Measured on an H200 with IREE 3.13: ResNet-50 in f32 61 ms before, 10 after; in f16 34.9 and
    1.38.
    """

    name = "pointwise-products"
    purpose = Purpose.SPEED

    @classmethod
    def plan(cls, situation: Situation) -> "PointwiseProducts | None":
        """For StableHLO with convolutions at -O2 and above, but not on the CPU."""
        if situation.target.backend is Backend.CPU or situation.level < 2:
            return None
        needed = situation.is_stablehlo and "stablehlo.convolution" in situation.operations
        return cls() if needed else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many became products."""
        from iree.compiler import ir

        with module.context, ir.Location.name(f"edgec.{self.name}"):
            found = [op for op in inside(module.operation) if op.name == "stablehlo.convolution"]
            return sum(_rewrite(op) for op in found)


def _rewrite(op: Any) -> int:
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph
    from edgec.toolchain.match.convolution import read_convolution
    from edgec.toolchain.match.description import validate

    conv = read_convolution(op)
    if conv is None or not conv.channels_last or (conv.groups, conv.batch_groups) != (1, 1):
        return 0
    if any((a.window, a.low, a.high, a.spread) != (1, 0, 0, 1) for a in conv.axes):
        return 0
    validate(conv, "convolution")
    result = op.results[0]
    sizes = graph.shape(conv.image)
    with ir.InsertionPoint(op), op.location:
        image = graph.slice_(
            conv.image, [0] * len(sizes), sizes, [1, *(axis.stride for axis in conv.axes), 1]
        )
        rows = graph.reshape(image, (math.prod(graph.shape(image)[:-1]), conv.channels))
        matrix = graph.reshape(conv.weight, (conv.channels, conv.outputs))
        product = graph.product(rows, matrix, ([1], [0]), like=op)
        whole = graph.reshape(product, graph.shape(result))
    result.replace_all_uses_with(whole)
    op.erase()
    return 1
