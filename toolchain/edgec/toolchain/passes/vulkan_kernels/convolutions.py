"""A `convolution` over NHWC to a dispatch of the convolution kernel.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from typing import Any

from iree.compiler import ir

from edgec.toolchain.passes.dynamic_shapes.reading import integers
from edgec.toolchain.passes.gpu_kernels.dispatches import replace
from edgec.toolchain.passes.gpu_kernels.forms import gather_rows, is_plain
from edgec.toolchain.passes.gpu_kernels.tails import find_tail
from edgec.toolchain.passes.graph import shape
from edgec.toolchain.passes.vulkan_kernels.choice import choose
from edgec.toolchain.passes.vulkan_kernels.library import Library
from edgec.toolchain.passes.vulkan_kernels.products import LEAST_WORK, MOST_TILES

__all__ = ["rewrite_convolution"]


def rewrite_convolution(op: Any, library: Library) -> None:
    """Replace `op` and what follows it by a kernel, if one takes it."""
    image, weight = op.operands
    (value,) = op.results
    element = image.type.element_type
    multiple = library.multiple(element)
    static = all(v.type.has_static_shape for v in (image, weight, value))
    if not static or not multiple or weight.type.element_type != element:
        return
    if str(value.type.element_type) not in (str(element), "f32") or not is_plain(op):
        return
    images, high, wide, inputs = shape(image)
    taps_high, taps_wide, _, outputs = shape(weight)
    _, out_high, out_wide, _ = shape(value)
    taps, m = taps_high * taps_wide, images * out_high * out_wide
    if outputs % multiple or m * outputs * inputs * taps < LEAST_WORK:
        return
    if max(math.prod(shape(v)) for v in (image, weight, value)) >= 2**31:
        return
    strides = integers(op, "window_strides", (1, 1))
    pads = integers(op, "padding", (0, 0, 0, 0))
    tail = find_tail(value, element, outputs)
    with ir.InsertionPoint(tail.last.owner.operation):
        pixel = inputs
        if inputs % multiple:
            image, weight = gather_rows(image, weight, pads, multiple)
            _, high, wide, pixel = shape(image)
            taps, taps_wide, inputs, pads = taps_high, 1, pixel * taps_wide, [0, 0, 0, 0]
        choice = choose(m, outputs, taps * inputs, matrix=str(element) == "f16")
        if choice.tiles > MOST_TILES:
            return
        numbers = [
            *(high, wide, inputs, out_high, out_wide, pixel, taps_wide),
            *(*strides, pads[0], pads[2]),
        ]
        sizes = (1, m, outputs, taps * inputs)
        total = library.sum("convolution", element, choice, sizes, numbers, (image, weight), tail)
        replace(tail.last, total)
