"""Layout changes between kernels, or at the program's ends, to dispatches of a kernel.

The compiler carries a transpose into what stands beside it; where both sides are kernels or the
program's own ends, it is a copy of its own, element by element.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir.functions import inside
from edgec.toolchain.ir.read import integers, shape_of
from edgec.toolchain.kernels.cpu.library import Library
from edgec.toolchain.kernels.cpu.source.turn import Turn, turn_kernel, turns
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit

__all__ = ["is_given", "is_taken", "place_turns", "turn_padded"]

_LEAST_ELEMENTS = 4096
_ENDS = ("func.return", "util.return")
_KERNEL = "flow.dispatch"

Pad = tuple[tuple[int, int], tuple[int, int]]


def place_turns(module: Any, library: Library, unit: VectorUnit) -> None:
    """Replace every transpose of which both sides are kernels or ends."""
    for op in list(inside(module.operation)):
        if op.name != "stablehlo.transpose" or not is_given(op.operands[0]):
            continue
        turn = _read(op)
        if turn is None or not turns(turn, unit) or not is_taken(op.results[0]):
            continue
        with ir.InsertionPoint(op), op.location:
            result = _call(op, turn, library, unit, op.results[0].type)
        op.results[0].replace_all_uses_with(result)
        op.erase()


def turn_padded(value: Any, pad: Pad, library: Library, unit: VectorUnit) -> Any | None:
    """An image with zeros around it, if it is made by turning what a kernel or the caller gives.

    It is made at the insertion point.
    """
    if isinstance(value.owner, ir.Block) or value.owner.operation.name != "stablehlo.transpose":
        return None
    op = value.owner.operation
    sizes = [size or 0 for size in shape_of(value)]
    turn = _read(op)
    if turn is None or len(sizes) != 4 or not is_given(op.operands[0]):
        return None
    batch, height, width, rows = sizes
    if (batch, rows, height * width) != (turn.batch, turn.rows, turn.width):
        return None
    turn = Turn(batch=batch, rows=rows, height=height, width=width, pad=pad)
    if not turns(turn, unit):
        return None
    kind = ir.RankedTensorType.get(turn.sizes, value.type.element_type)
    return _call(op, turn, library, unit, kind)


def _read(op: Any) -> Turn | None:
    """The matrices that a transpose turns; None where it does anything else."""
    sizes = shape_of(op.operands[0])
    if str(op.results[0].type.element_type) != "f32" or not all(sizes):
        return None
    known = [size or 0 for size in sizes]
    if math.prod(known) < _LEAST_ELEMENTS:
        return None
    axes = [axis for axis in integers(op, "permutation") if known[axis] > 1]
    runs: list[list[int]] = []  # of axes that stay neighbours
    wide = sorted(axes)
    for axis in axes:
        if runs and wide.index(axis) == wide.index(runs[-1][-1]) + 1:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    counts = [math.prod(known[axis] for axis in run) for run in runs]
    order = [sorted(run[0] for run in runs).index(run[0]) for run in runs]
    match order:
        case [1, 0]:
            return Turn(batch=1, rows=counts[1], width=counts[0])
        case [0, 2, 1]:
            return Turn(batch=counts[0], rows=counts[2], width=counts[1])
    return None


def _call(op: Any, turn: Turn, library: Library, unit: VectorUnit, kind: Any) -> Any:
    name = f"edgec_turn_{turn.batch}x{turn.rows}x{turn.height}x{turn.width}"
    return library.call(name, turn_kernel("NAME", turn, unit), [op.operands[0]], kind)


def is_given(value: Any) -> bool:
    """Whether a kernel or the caller gives a value."""
    if isinstance(value.owner, ir.Block):
        return True
    op = value.owner.operation
    return op.name == _KERNEL or (op.name == "stablehlo.reshape" and is_given(op.operands[0]))


def is_taken(value: Any) -> bool:
    """Whether kernels and the caller alone take a value."""
    users = [use.owner.operation for use in value.uses]
    return bool(users) and all(
        user.name in (_KERNEL, *_ENDS)
        or (user.name == "stablehlo.reshape" and is_taken(user.results[0]))
        for user in users
    )
