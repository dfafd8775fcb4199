"""Convolutions with a window of one pixel, as matrix products."""

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
    import math

    from iree.compiler import ir

    from edgec.toolchain.ir.read import (
        convolution_layout,
        element_type,
        integers,
        shape_of,
    )

    one, two, three = convolution_layout(op)
    spatial = [str(i) for i in range(len(one) - 2)]
    if one != ["b", *spatial, "f"] or three != one or two != [*spatial, "i", "o"]:
        return 0
    before, kernel, after = (shape_of(v) for v in (*op.operands, op.results[0]))
    if any(None in shape for shape in (before, kernel, after)) or set(kernel[:-2]) != {1}:
        return 0
    ones = [1] * len(spatial)
    groups = [integers(op, f"{what}_group_count", [1])[0] for what in ("feature", "batch")]
    if groups != [1, 1] or any(integers(op, "padding", [0])):
        return 0
    if integers(op, "lhs_dilation", ones) != ones:
        return 0
    strides = integers(op, "window_strides", ones)
    pixels = math.prod(size or 0 for size in after[:-1])
    inputs, outputs = before[-1] or 0, after[-1] or 0

    def made(name: str, shape: list[int], like: Any, operands: list[Any], **attributes: Any) -> Any:
        kind = ir.RankedTensorType.get(shape, element_type(like))
        return ir.Operation.create(
            f"stablehlo.{name}", results=[kind], operands=operands, attributes=attributes
        ).result

    with ir.InsertionPoint(op), op.location:
        image, weights = op.operands
        if strides != ones:
            image = made(
                "slice",
                [*(size or 0 for size in after[:-1]), inputs],
                image,
                [image],
                start_indices=ir.DenseI64ArrayAttr.get([0] * len(before)),
                limit_indices=ir.DenseI64ArrayAttr.get([size or 0 for size in before]),
                strides=ir.DenseI64ArrayAttr.get([1, *strides, 1]),
            )
        rows = made("reshape", [pixels, inputs], image, [image])
        matrix = made("reshape", [inputs, outputs], weights, [weights])
        numbers = ir.Attribute.parse(
            "#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>"
        )
        attributes = {"dot_dimension_numbers": numbers}
        if "precision_config" in op.attributes:
            attributes["precision_config"] = op.attributes["precision_config"]
        result = op.results[0]
        product = made("dot_general", [pixels, outputs], result, [rows, matrix], **attributes)
        whole = made("reshape", [size or 0 for size in after], result, [product])
    result.replace_all_uses_with(whole)
    op.erase()
    return 1
