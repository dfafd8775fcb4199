"""Reductions over windows of images to calls of the CPU's kernel, with what follows, or why not.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir.fold import splat
from edgec.toolchain.ir.read import integers, shape_of
from edgec.toolchain.ir.standing import come_from
from edgec.toolchain.kernels.cpu.borders import Border
from edgec.toolchain.kernels.cpu.library import Library
from edgec.toolchain.kernels.cpu.source.pooling import Pooling, pooling_kernel, pools
from edgec.toolchain.kernels.cpu.source.result import Result
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit
from edgec.toolchain.kernels.cpu.tails import find_tail
from edgec.toolchain.kernels.longest import say_cut_short
from edgec.toolchain.kernels.spec import Answers, Declined, Kernel
from edgec.toolchain.match import pooling as match
from edgec.toolchain.match.description import validate

__all__ = ["place_pooling"]


def place_pooling(op: Any, library: Library, unit: VectorUnit, answers: Answers) -> None:
    """Put a kernel in place of a `stablehlo.reduce_window`, of what follows it, and of a pad."""
    found = match.read_pooling(op)
    if found is None or math.prod(found.out) == 1:  # one window is a plain reduction
        return
    reason = _why_not(found, unit)
    if reason is not None:
        answers.record(op, str(found), found.work, Declined(reason=reason))
        return
    answers.record(op, str(found), found.work, Kernel(name="pooling"))
    validate(found, "pooling")
    tail = find_tail(found.value, ())
    say_cut_short(tail.value, tail.why, answers)
    pad, border = _border(tail.value)
    value = tail.value if pad is None else pad.results[0]
    operations = [op, *tail.operations, *([] if pad is None else [pad])]
    result = Result(
        batch=found.batch,
        height=found.out[0],
        width=found.out[1],
        channels=found.channels,
        pad=border.pad,
        edge=border.edge,
        epilogue=tail.epilogue,
    )
    kernel = Pooling(
        height=found.height,
        width=found.width,
        channels=found.channels,
        result=result,
        window=found.window,
        stride=found.stride,
        dilation=found.dilation,
        before=found.before,
        name=found.name,
        start=found.start,
    )
    name = f"edgec_pooling_{'x'.join(map(str, found.window))}_{result.height}x{result.width}"
    with ir.InsertionPoint(operations[-1]), op.location:
        output = library.call(
            f"{name}x{result.channels}",
            pooling_kernel("NAME", kernel, unit),
            [found.image, *tail.channels, *tail.tensors],
            value.type,
        )
    come_from(output, value)
    value.replace_all_uses_with(output)
    for each in reversed(operations):
        each.erase()


def _why_not(found: match.Pooling, unit: VectorUnit) -> str | None:
    """Why no kernel takes it; None where one does."""
    kind = str(found.value.type.element_type)
    if kind != "f32":
        return f"elements of {kind}"
    return None if pools(found.channels, unit) else f"{found.channels} channels, or not last"


def _border(value: Any) -> tuple[Any | None, Border]:
    """The pad that alone uses a value, if a kernel can write what it puts around an image."""
    users = [use.owner.operation for use in value.uses]
    if len(users) != 1 or users[0].name != "stablehlo.pad" or len(shape_of(value)) != 4:
        return None, Border()
    (pad,) = users
    low, high, inner = (
        integers(pad, name)
        for name in ("edge_padding_low", "edge_padding_high", "interior_padding")
    )
    edge = splat(pad.operands[1])
    if pad.operands[0] != value or edge is None or any(inner) or min(*low, *high) < 0:
        return None, Border()
    if any((low[0], high[0], low[3], high[3])):
        return None, Border()
    return pad, Border(pad=((low[1], high[1]), (low[2], high[2])), edge=edge)
