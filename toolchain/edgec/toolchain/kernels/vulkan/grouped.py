"""A convolution of narrow groups over NHWC to a dispatch of the grouped kernel.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from typing import Any

from iree.compiler import ir

from edgec.toolchain.kernels.gpu.dispatches import replace
from edgec.toolchain.kernels.gpu.groups import why_not
from edgec.toolchain.kernels.gpu.tails import find_finish
from edgec.toolchain.kernels.spec import Declined, Kernel
from edgec.toolchain.kernels.vulkan import shaders
from edgec.toolchain.kernels.vulkan.forms import MOST_GROUPS
from edgec.toolchain.kernels.vulkan.library import Library
from edgec.toolchain.match.convolution import Convolution
from edgec.toolchain.match.description import validate

__all__ = ["place_grouped"]

_MULTIPLE = 4
_WIDEST = 64
"""Channels of a group that one thread sums faster than the compiler's matrix units do."""


def place_grouped(conv: Convolution, op: Any, library: Library) -> Kernel | Declined:
    """Replace `op`, which `conv` describes, and what follows it by a kernel, if one takes it."""
    element = op.operands[0].type.element_type
    kinds = [kind for kind in ("f32", "f16") if kind == str(element) and library.multiple(element)]
    reason = why_not(conv, kinds, widest=_WIDEST)
    if reason is None and (conv.outputs % _MULTIPLE or conv.channels % _MULTIPLE):
        reason = f"{conv.channels} and {conv.outputs} channels, not fours"
    if reason is not None:
        return Declined(reason=reason)
    down, across = conv.axes
    rows = conv.batch * down.out * across.out
    shader = shaders.grouped(str(element), at_once=library.shares)
    groups = math.ceil(rows * conv.outputs / _MULTIPLE / shader.threads)
    if groups > MOST_GROUPS:
        return Declined(reason=f"{rows * conv.outputs} results")
    validate(conv, "convolution")
    tail = find_finish(conv.value, element, conv.outputs, library.answers)
    values = {
        **{"m": rows, "n": conv.outputs, **tail.folded},
        **{"high": down.size, "wide": across.size, "channels": conv.channels},
        **{"out_high": down.out, "out_wide": across.out},
        **{"inputs": conv.inner, "each": conv.outputs // conv.groups},
        **{"taps_high": down.window, "taps_wide": across.window},
        **{"stride_high": down.stride, "stride_wide": across.stride},
        **{"dilation_high": down.dilation, "dilation_wide": across.dilation},
        **{"pad_high": down.low, "pad_wide": across.low},
    }
    with ir.InsertionPoint(tail.last.owner.operation):
        last = ir.RankedTensorType.get([rows, conv.outputs], tail.last.type.element_type)
        reads = [conv.image, conv.weight, *tail.reads(conv.image).values()]
        total = library.call(shader, (groups, 1, 1), values, reads, last)
        if isinstance(total, Declined):
            return total
        replace(tail.last, total)
    return Kernel(name=shader.name)
