"""Values that repeat one row of numbers, and values before they were widened.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir.read import integers
from edgec.toolchain.ir.write import shape

__all__ = ["is_widening", "row_of", "unwidened"]

_HALVES = ("f16", "bf16")


def row_of(value: Any, columns: int, *, narrow: bool = True) -> Any | None:
    """The value of `columns` numbers that another one repeats from its first element on, if any.

    It may be of any shape: its elements, in order, are those of each piece of `columns` elements.

    Args:
        value: an `ir.Value` of a static tensor type.
        columns: how long a row is.
        narrow: take the numbers before they were widened from f16 or bf16, too.
    """
    while math.prod(shape(value)) != columns or _is_move(value, narrow):
        if isinstance(value.owner, ir.Block):
            return None
        op = value.owner.operation
        if op.name == "stablehlo.broadcast_in_dim":
            if not _repeats_whole(op):
                return None
        elif op.name != "stablehlo.reshape" and not (narrow and is_widening(op)):
            return None
        value = op.operands[0]
        if math.prod(shape(value)) < columns:
            return None
    return value


def _is_move(value: Any, narrow: bool) -> bool:
    """Whether a row is only another one's in another shape, or widened."""
    if isinstance(value.owner, ir.Block):
        return False
    op = value.owner.operation
    if op.name == "stablehlo.broadcast_in_dim":
        same = math.prod(shape(value)) == math.prod(shape(op.operands[0]))
        return same and _repeats_whole(op)
    return op.name == "stablehlo.reshape" or (narrow and is_widening(op))


def _repeats_whole(op: Any) -> bool:
    """Whether a broadcast repeats its operand as a whole: its axes are the last ones, in order."""
    axes = integers(op, "broadcast_dimensions")
    sizes, wide = shape(op.operands[0]), shape(op.results[0])
    long = [axis for axis, size in zip(axes, sizes, strict=True) if size > 1]
    if not long:
        return math.prod(wide) == 1 or math.prod(sizes) == 1
    return long == [axis for axis in range(long[0], len(wide)) if wide[axis] > 1]


def is_widening(op: Any) -> bool:
    """Whether an operation makes f32 of f16 or bf16, which loses nothing."""
    if op.name != "stablehlo.convert":
        return False
    before, after = (str(v.type.element_type) for v in (op.operands[0], op.results[0]))
    return before in _HALVES and after == "f32"


def unwidened(value: Any) -> Any:
    """The value before it was widened; itself if it was not."""
    if isinstance(value.owner, ir.Block) or not is_widening(value.owner.operation):
        return value
    return value.owner.operation.operands[0]
