"""Loops and branches in functions with dynamic shapes.

A module imported only by a pass that runs; it needs the compiler.
"""

from collections.abc import Sequence
from typing import Any

from iree.compiler import ir

from edgec.toolchain.passes.dynamic_shapes.emit import Emitter
from edgec.toolchain.passes.dynamic_shapes.reading import element_type, shape_of

__all__ = ["branch", "keep_outside", "loop"]


def keep_outside(loop_op: Any) -> None:
    """Let a loop's regions read what it carries unchanged from outside.

    With its bound outside, a counted loop becomes one that the host counts; otherwise the counter
    is read back from the device at every turn.
    """
    condition, body = _blocks(loop_op)
    for i, value in enumerate(_end(body).operands):
        if value == body.arguments[i]:
            for block in (condition, body):
                block.arguments[i].replace_all_uses_with(loop_op.operands[i])


def loop(e: Emitter) -> bool:
    """What a loop carries gets memory of its own, on the way in and at each turn.

    The compiler gives values that come into being together one piece of memory, and loses the
    place of each on the way into a loop if it depends on two dynamic dimensions (iree-compile
    3.13): the loop then reads another value.
    """
    condition, body = _blocks(e.op)
    counter = _counter(condition)
    carried = [
        i
        for i, value in enumerate(_end(body).operands)
        if i != counter and value != e.op.operands[i]
    ]
    _set_apart(e, e.op, carried)
    with ir.InsertionPoint(_end(body)):
        _set_apart(e.at(_end(body)), _end(body), carried)
    return False


def branch(e: Emitter) -> bool:
    """What a branch gives gets memory of its own, as what a loop carries does."""
    for block in _blocks(e.op):
        end = _end(block)
        with ir.InsertionPoint(end):
            _set_apart(e.at(end), end, range(len(end.operands)))
    return False


def _blocks(op: Any) -> list[Any]:
    return [region.blocks[0] for region in op.regions]


def _end(block: Any) -> Any:
    return block.operations[len(block.operations) - 1].operation


def _counter(condition: Any) -> int | None:
    """The argument that a loop counts with, if its condition only compares one with a bound."""
    if len(condition.operations) != 2:
        return None
    test = condition.operations[0].operation
    if test.name != "stablehlo.compare":
        return None
    counters = [i for i, a in enumerate(condition.arguments) if a == test.operands[0]]
    return counters[0] if counters else None


def _set_apart(e: Emitter, op: Any, places: Sequence[int]) -> None:
    for i in places:
        value = op.operands[i]
        if not isinstance(value.type, ir.RankedTensorType):
            continue
        plain = e.signless(value)
        apart = e.create("util.optimization_barrier", plain.type, [plain])
        if None in shape_of(value):
            sizes = e.sizes.of(value)
            known = zip(sizes, shape_of(value), strict=True)
            dynamic = [e.index(size) for size, number in known if number is None]
            apart = e.create("flow.tensor.tie_shape", plain.type, [apart, *dynamic])
        if element_type(apart) != element_type(value):
            apart = e.create("stablehlo.bitcast_convert", value.type, [apart])
        e.sizes.set(apart, e.sizes.of(value))
        op.operands[i] = apart
