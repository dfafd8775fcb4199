"""A `convolution` over NHWC to a dispatch of the convolution kernel.

A module imported only by a pass that runs; it needs the compiler.
"""

from typing import Any

from iree.compiler import ir

from edgec.toolchain.kernels.gpu.dispatches import replace
from edgec.toolchain.kernels.gpu.tails import CLIPS_BY_NUMBERS, find_finish
from edgec.toolchain.kernels.vulkan.choice import choose
from edgec.toolchain.kernels.vulkan.library import Library
from edgec.toolchain.kernels.vulkan.products import MOST_TILES
from edgec.toolchain.match.convolution import read_convolution

__all__ = ["rewrite_convolution"]


def rewrite_convolution(op: Any, library: Library) -> None:
    """Replace `op` and what follows it by a kernel, if one takes it."""
    element = op.operands[0].type.element_type
    multiple = library.multiple(element)
    found = read_convolution(op, multiple)
    if found is None:
        return
    tail, _ = find_finish(found.value, element, found.outputs, CLIPS_BY_NUMBERS)
    with ir.InsertionPoint(tail.last.owner.operation):
        c = found.gathered(multiple)
        inside = c.taps * c.inputs
        choice = choose(c.rows, c.outputs, inside, matrix=str(element) == "f16")
        if choice.tiles > MOST_TILES:
            return
        numbers = [
            *(c.high, c.wide, c.inputs, c.out_high, c.out_wide, c.pixel, c.taps_wide),
            *(*c.strides, c.pads[0], c.pads[2]),
        ]
        sizes = (1, c.rows, c.outputs, inside)
        operands = (c.image, c.weight)
        replace(
            tail.last, library.sum("convolution", element, choice, sizes, numbers, operands, tail)
        )
