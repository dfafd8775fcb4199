"""Convolutions over images whose channels are last, with their weights in the order of those."""

from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir import write as graph
from edgec.toolchain.ir.functions import inside
from edgec.toolchain.match.convolution import read_convolution

__all__ = ["order_weights"]


def order_weights(module: Any) -> int:
    """Turn weights of any order to rows, columns, inputs, outputs; how many were turned.

    The gradient of an image has those of the layer with inputs and outputs exchanged.
    """
    count = 0
    for op in list(inside(module.operation)):
        conv = read_convolution(op) if op.name == "stablehlo.convolution" else None
        if conv is None or conv.channels_last or conv.is_wide:
            continue
        rank = len(conv.axes)
        image = (0, rank + 1, *range(1, rank + 1))
        if rank == 0 or (conv.image_order, conv.value_order) != (image, image):
            continue
        output, channel, *places = conv.weight_order
        axes = ", ".join(map(str, range(rank)))
        numbers = f"#stablehlo.conv<[b, {axes}, f]x[{axes}, i, o]->[b, {axes}, f]>"
        with ir.InsertionPoint(op), op.location:
            op.operands[1] = graph.transpose(conv.weight, [*places, channel, output])
        op.attributes["dimension_numbers"] = ir.Attribute.parse(numbers)
        count += 1
    return count
