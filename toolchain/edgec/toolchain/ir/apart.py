"""A value as one for each index of an axis.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir import write as graph
from edgec.toolchain.ir.read import integers
from edgec.toolchain.ir.views import Digit, Strided, before, dense, identity

__all__ = ["cut_apart", "put_together"]


def put_together(value: Any, axis: int) -> list[Any] | None:
    """The values that were put side by side to become an axis, written at the insertion point.

    Each is moved about as what they became was since, without that axis; None where it is none.
    """
    view: Strided | None = identity(value)
    while view is not None:
        found = _joined(view, axis)
        written = [_written(part) for part in found or ()]
        parts = [part for part in written if part is not None]
        if parts and len(parts) == len(written):
            return parts
        view = before(view)
    return None


def cut_apart(value: Any, axis: int) -> list[Any]:
    """For each index of an axis the value without it, written at the insertion point."""
    sizes = graph.shape(value)
    rest = [*sizes[:axis], *sizes[axis + 1 :]]
    return [
        graph.reshape(graph.cut(value, axis, index, index + 1), rest)
        for index in range(sizes[axis])
    ]


def _joined(view: Strided, axis: int) -> list[Strided] | None:
    """For each index of an axis the view of a value of its own; None where there is none."""
    if isinstance(view.value.owner, ir.Block) or view.rolls or view.scale != 1.0:
        return None
    op = view.value.owner.operation
    if op.name != "stablehlo.concatenate":
        return None
    parts = list(op.operands)
    (along,) = integers(op, "dimension")
    sizes = graph.shape(view.value)
    each = sizes[along] // len(parts) * math.prod(sizes[along + 1 :])
    whole = each * len(parts)
    if len({graph.shape(part) for part in parts}) > 1:
        return None
    if view.axes[axis] != (Digit(size=len(parts), step=each),):
        return None
    outer, inner = divmod(view.start, whole)
    axes, reach = [], inner
    for digits in (*view.axes[:axis], *view.axes[axis + 1 :]):
        moved = []
        for digit in digits:
            if digit.step % whole == 0:
                digit = replace(digit, step=digit.step // len(parts))
            else:
                reach += (digit.size - 1) * digit.step
            moved.append(digit)
        axes.append(tuple(moved))
    if reach >= each:
        return None
    start = outer * each + inner
    return [Strided(value=part, start=start, axes=tuple(axes)) for part in parts]


def _written(view: Strided) -> Any | None:
    """The elements of a view as operations, where it is all of a value turned about."""
    digits = [digit for axis in view.axes for digit in axis]
    order = sorted(range(len(digits)), key=lambda place: digits[place].step, reverse=True)
    sizes = [digits[place].size for place in order]
    if math.prod(sizes) != math.prod(graph.shape(view.value)):
        return None
    if view.start or dense(sizes) != [digits[place].step for place in order]:
        return None
    turned = graph.transpose(graph.reshape(view.value, sizes), _inverse(order))
    return graph.reshape(turned, [math.prod(d.size for d in axis) for axis in view.axes])


def _inverse(order: Sequence[int]) -> list[int]:
    return sorted(range(len(order)), key=order.__getitem__)
