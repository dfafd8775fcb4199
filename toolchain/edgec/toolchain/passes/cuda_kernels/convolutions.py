"""A `convolution` over NHWC to a dispatch of the convolution kernel.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from typing import Any

from iree.compiler import ir

from edgec.toolchain.passes.cuda_kernels.choice import choose
from edgec.toolchain.passes.cuda_kernels.library import Library
from edgec.toolchain.passes.dynamic_shapes.reading import integers
from edgec.toolchain.passes.gpu_kernels.dispatches import replace
from edgec.toolchain.passes.gpu_kernels.forms import gather_rows, is_plain
from edgec.toolchain.passes.gpu_kernels.tails import find_tail
from edgec.toolchain.passes.graph import shape

__all__ = ["rewrite_convolution"]

_ELEMENTS = ("f16", "bf16", "f32")
_LEAST_WORK = 1 << 20


def rewrite_convolution(op: Any, library: Library) -> None:
    """Replace `op` and what follows it by a kernel, if one takes it."""
    image, weight = op.operands
    (value,) = op.results
    element = image.type.element_type
    static = all(v.type.has_static_shape for v in (image, weight, value))
    if not static or str(element) not in _ELEMENTS or weight.type.element_type != element:
        return
    if str(value.type.element_type) not in (str(element), "f32"):
        return
    if not is_plain(op):
        return
    images, high, wide, inputs = shape(image)
    taps_high, taps_wide, _, outputs = shape(weight)
    _, out_high, out_wide, _ = shape(value)
    taps, m = taps_high * taps_wide, images * out_high * out_wide
    if outputs % 8 or m * outputs * inputs * taps < _LEAST_WORK:
        return
    if max(math.prod(shape(v)) for v in (image, weight, value)) >= 2**31:
        return
    strides = integers(op, "window_strides", (1, 1))
    pads = integers(op, "padding", (0, 0, 0, 0))
    tail = find_tail(value, element, outputs)
    with ir.InsertionPoint(tail.last.owner.operation):
        pixel = inputs
        if inputs % 8:
            image, weight = gather_rows(image, weight, pads, 8)
            _, high, wide, pixel = shape(image)
            taps, taps_wide, inputs, pads = taps_high, 1, pixel * taps_wide, [0, 0, 0, 0]
        choice = choose(m, outputs, inputs, taps=taps, f32=str(element) == "f32")
        room = choice.tiles * choice.parts * choice.rows * choice.columns
        numbers = [
            *(images, high, wide, inputs, out_high, out_wide, outputs, pixel, taps_wide, taps),
            *(*strides, pads[0], pads[2], choice.steps, library.slot(), tail.what),
        ]
        results = library.call(
            f"convolution_{choice.form}_{element}",
            (choice.tiles, choice.parts, 1),
            numbers,
            [image, weight, tail.bias or image, tail.other or image],
            [
                ir.RankedTensorType.get([m, outputs], tail.last.type.element_type),
                ir.RankedTensorType.get([room if choice.parts > 1 else 1], ir.F32Type.get()),
            ],
        )
        replace(tail.last, results[0])
