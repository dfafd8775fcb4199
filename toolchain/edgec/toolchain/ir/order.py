"""The order of a block's operations: what rests on a value goes behind another operation.

A module imported only by a pass that runs; it needs the compiler.
"""

from typing import Any

from edgec.toolchain.ir.functions import inside

__all__ = ["put_behind"]


def put_behind(value: Any, end: Any) -> None:
    """Move all that rests on a value and stands before `end` to right before it, in order.

    What stands there already, but does not rest on the value, may then take its place.

    Args:
        value: a result of an operation of the block of `end`.
        end: the operation; it may rest on the value itself.
    """
    resting = {value}
    moving = []
    for each in end.block.operations:
        op = each.operation
        if op == end:
            break
        if any(operand in resting for one in (op, *inside(op)) for operand in one.operands):
            resting.update(op.results)
            moving.append(op)
    for op in moving:
        op.move_before(end)
