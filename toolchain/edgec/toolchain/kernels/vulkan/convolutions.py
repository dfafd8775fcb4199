"""A `convolution` over NHWC to a dispatch of the convolution kernel.

A module imported only by a pass that runs; it needs the compiler.
"""

from typing import Any

from iree.compiler import ir

from edgec.toolchain.kernels.gpu.dispatches import replace
from edgec.toolchain.kernels.gpu.rows import read_rows
from edgec.toolchain.kernels.gpu.tails import CLIPS_BY_NUMBERS, find_finish
from edgec.toolchain.kernels.spec import Declined, Kernel, Origin
from edgec.toolchain.kernels.vulkan.choice import choose
from edgec.toolchain.kernels.vulkan.grouped import place_grouped
from edgec.toolchain.kernels.vulkan.library import Library
from edgec.toolchain.kernels.vulkan.products import MOST_TILES
from edgec.toolchain.match.convolution import Convolution, read_convolution
from edgec.toolchain.match.description import validate

__all__ = ["place_convolution"]


def place_convolution(op: Any, library: Library) -> None:
    """Replace `op` and what follows it by a kernel, if one takes it; keep the answer."""
    conv = read_convolution(op)
    if conv is None:
        return
    origin = Origin(name=op.name, location=op.location)
    what, work = str(conv), conv.work  # Said now: nothing is left of them after a kernel is placed.
    place = place_grouped if conv.groups > 1 else _place
    library.answers.record(origin, what, work, place(conv, op, library))


def _place(conv: Convolution, op: Any, library: Library) -> Kernel | Declined:
    element = op.operands[0].type.element_type
    multiple = library.multiple(element)
    found = read_rows(conv, op, multiple)
    if isinstance(found, Declined):
        return found
    tail, _ = find_finish(found.value, element, found.outputs, CLIPS_BY_NUMBERS)
    inside = found.gathered_inside(multiple)
    choice = choose(found.rows, found.outputs, inside, matrix=str(element) == "f16")
    if choice.tiles > MOST_TILES:
        return Declined(reason=f"{choice.tiles} tiles")
    validate(conv, "convolution")
    with ir.InsertionPoint(tail.last.owner.operation):
        c = found.gathered(multiple)
        numbers = [
            *(c.high, c.wide, c.inputs, c.out_high, c.out_wide, c.pixel, c.taps_wide),
            *(*c.strides, c.pads[0], c.pads[2]),
        ]
        sizes = (1, c.rows, c.outputs, inside)
        operands = (c.image, c.weight)
        replace(
            tail.last, library.sum("convolution", element, choice, sizes, numbers, operands, tail)
        )
    return Kernel(name=f"convolution_{choice.form}_{element}")
