"""A `convolution` over NHWC to a dispatch of the convolution kernel.

A module imported only by a pass that runs; it needs the compiler.
"""

from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir import write
from edgec.toolchain.kernels.gpu.dispatches import replace
from edgec.toolchain.kernels.gpu.filled import filled_finish
from edgec.toolchain.kernels.gpu.rows import read_rows, window_key
from edgec.toolchain.kernels.gpu.tails import Finish, find_finish
from edgec.toolchain.kernels.spec import Declined, Kernel, Origin
from edgec.toolchain.kernels.vulkan.choice import choose
from edgec.toolchain.kernels.vulkan.columns import LEAST_ROWS, place_row
from edgec.toolchain.kernels.vulkan.forms import MOST_GROUPS
from edgec.toolchain.kernels.vulkan.grouped import place_grouped
from edgec.toolchain.kernels.vulkan.library import Library
from edgec.toolchain.kernels.vulkan.winograd import place_winograd, plan_winograd
from edgec.toolchain.match.convolution import Convolution, read_convolution
from edgec.toolchain.match.description import validate
from edgec.toolchain.match.product import LEAST_WORK, is_plain

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


def _is_row(conv: Convolution) -> bool:
    """Whether a window sees all of one image: a product of one row, as it lies in memory."""
    first, second, third = conv.elements
    same = first == second and third in (first, "f32")
    whole = all((a.window, a.out, a.low, a.high) == (a.size, 1, 0, 0) for a in conv.axes)
    fours = conv.outputs % 4 == 0 and conv.taps * conv.inner >= LEAST_ROWS
    return same and whole and conv.batch == 1 and fours


def _place(conv: Convolution, op: Any, library: Library) -> Kernel | Declined:
    element = op.operands[0].type.element_type
    multiple = library.multiple(element)
    if multiple and library.shares and is_plain(op) and _is_row(conv):
        validate(conv, "convolution")
        sizes = (1, conv.outputs, conv.taps * conv.inner)
        return place_row(conv.value, library, sizes, (conv.image, conv.weight))
    more = -conv.outputs % multiple if multiple else 0
    more = more if more <= conv.outputs else 0
    found = read_rows(conv, op, multiple, LEAST_WORK, more)
    if isinstance(found, Declined):
        return found
    tail = find_finish(found.value, element, conv.outputs, library.answers)
    if more and tail.other is not None:
        # It has the outputs that there are, not those added to fill a piece of memory.
        tail = Finish(total=found.value, columns=conv.outputs, last=found.value)
    inside = found.gathered_inside(multiple)
    sizes = (found.rows, found.outputs, inside)
    key = str(window_key(conv))
    wanted = library.tiles.get(key)
    choice = choose(
        library.gpu,
        sizes,
        matrix=library.multiplies(element),
        window=True,
        usual=not library.compiles,
        wanted=wanted,
    )
    if choice.tiles > MOST_GROUPS:
        return Declined(reason=f"{choice.tiles} tiles")
    validate(conv, "convolution")
    fewer = plan_winograd(found, library, choice) if not more else None
    if fewer is not None:
        with ir.InsertionPoint(tail.last.owner.operation):
            return place_winograd(fewer, library, tail)
    with ir.InsertionPoint(tail.last.owner.operation):
        c = found.gathered(multiple)
        window = {
            **{"high": c.high, "wide": c.wide, "inputs": c.inputs},
            **{"out_high": c.out_high, "out_wide": c.out_wide},
            **{"pixel": c.pixel, "taps_wide": c.taps_wide},
            **{"stride_high": c.strides[0], "stride_wide": c.strides[1]},
            **{"dilation_high": c.dilations[0], "dilation_wide": c.dilations[1]},
            **{"pad_high": c.pads[0], "pad_wide": c.pads[2]},
        }
        zero = write.fill(0.0, (), c.weight.type.element_type)
        weight = write.pad(c.weight, zero, [0, 0, 0, 0], [0, 0, 0, more])
        operands = (c.image, weight)
        wide = filled_finish(tail, more)
        total = library.sum("convolution", element, choice, (1, *sizes), window, operands, wide)
        if isinstance(total, Declined):
            return total
        replace(tail.last, write.slice_(total, (0, 0, 0), (1, found.rows, conv.outputs)))
    return Kernel(name=f"convolution_{choice.word}_{element}", key=key)
