"""A result followed through what alone uses it and only moves its elements.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from edgec.toolchain.ir.read import integers, shape_of
from edgec.toolchain.ir.rotations import rotation
from edgec.toolchain.ir.views import Strided, dense, identity, rolled, through

__all__ = ["moved_result", "mover"]

_MOVES = ("stablehlo.transpose", "stablehlo.reshape", "stablehlo.broadcast_in_dim")


def moved_result(
    value: Any,
    accept: Callable[[Strided], bool],
    *,
    converts: bool = False,
    rolls: bool = False,
) -> Strided:
    """Where the elements of a value lie in the last value that holds the same ones in some order.

    Args:
        value: a result.
        accept: of the values on the way, the last for which this is true is taken.
        converts: whether to follow conversions between floats, too.
        rolls: whether to follow rotations, too.

    Returns:
        That value's memory, by the axes of `value`.
    """
    best = identity(value)
    view: Strided | None = best
    while view is not None and (op := mover(view.value, converts=converts, rolls=rolls)):
        view = _after(view, op)
        if view is not None and accept(view):
            best = view
    return best


def mover(value: Any, *, converts: bool = False, rolls: bool = False) -> Any | None:
    """The operation that alone uses a value and only moves its elements; None where there is none.

    Args:
        value: a result.
        converts: whether a conversion between floats is one, too.
        rolls: whether a rotation is one, too, of whose parts each uses the value.
    """
    users = [use.owner.operation for use in value.uses]
    if len(users) == 1:
        moves = (*_MOVES, "stablehlo.convert") if converts else _MOVES
        return users[0] if users[0].name in moves and _is_whole(users[0]) else None
    if not rolls or len(users) != 2 or any(op.name != "stablehlo.slice" for op in users):
        return None
    joins = {use.owner.operation for op in users for use in op.results[0].uses}
    join = joins.pop() if len(joins) == 1 else None
    if join is None or join.name != "stablehlo.concatenate":
        return None
    found = rotation(join)
    return join if found is not None and found.source == value else None


def _is_whole(op: Any) -> bool:
    """Whether an operation repeats no element."""
    count, wide = (math.prod(n or 0 for n in shape_of(v)) for v in (*op.operands, op.results[0]))
    return count == wide


def _after(view: Strided, op: Any) -> Strided | None:
    """The same elements in the result of an operation that moves those of the value viewed."""
    (result,) = op.results
    sizes = [size or 0 for size in shape_of(result)]
    steps = dense(sizes)
    match op.name:
        case "stablehlo.transpose":
            order = integers(op, "permutation")
            return through(view, result, [steps[order.index(i)] for i in range(len(order))])
        case "stablehlo.broadcast_in_dim":
            return through(view, result, [steps[i] for i in integers(op, "broadcast_dimensions")])
        case "stablehlo.concatenate":
            found = rotation(op)
            return None if found is None else rolled(view, result, found.axis, -found.shift)
    return replace(view, value=result)
