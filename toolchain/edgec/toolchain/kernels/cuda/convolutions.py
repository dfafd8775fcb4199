"""A `convolution` over NHWC to a dispatch of the convolution kernel.

A module imported only by a pass that runs; it needs the compiler.
"""

from typing import Any

from iree.compiler import ir

from edgec.toolchain.kernels.cuda.choice import choose
from edgec.toolchain.kernels.cuda.library import Library
from edgec.toolchain.kernels.gpu.dispatches import replace
from edgec.toolchain.kernels.gpu.tails import find_tail
from edgec.toolchain.match.convolution import read_convolution

__all__ = ["rewrite_convolution"]

_ELEMENTS = ("f16", "bf16", "f32")
_MULTIPLE = 8


def rewrite_convolution(op: Any, library: Library) -> None:
    """Replace `op` and what follows it by a kernel, if one takes it."""
    element = op.operands[0].type.element_type
    found = read_convolution(op, _MULTIPLE if str(element) in _ELEMENTS else 0)
    if found is None:
        return
    tail = find_tail(found.value, element, found.outputs)
    with ir.InsertionPoint(tail.last.owner.operation):
        c = found.gathered(_MULTIPLE)
        choice = choose(c.rows, c.outputs, c.inputs, taps=c.taps, f32=str(element) == "f32")
        room = choice.tiles * choice.parts * choice.rows * choice.columns
        numbers = [
            *(c.images, c.high, c.wide, c.inputs, c.out_high, c.out_wide, c.outputs, c.pixel),
            *(c.taps_wide, c.taps, *c.strides, c.pads[0], c.pads[2]),
            *(choice.steps, library.slot(), tail.what),
        ]
        results = library.call(
            f"convolution_{choice.form}_{element}",
            (choice.tiles, choice.parts, 1),
            numbers,
            [c.image, c.weight, tail.bias or c.image, tail.other or c.image],
            [
                ir.RankedTensorType.get([c.rows, c.outputs], tail.last.type.element_type),
                ir.RankedTensorType.get([room if choice.parts > 1 else 1], ir.F32Type.get()),
            ],
        )
        replace(tail.last, results[0])
