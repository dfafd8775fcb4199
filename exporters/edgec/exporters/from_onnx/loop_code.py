"""Loops and branches of an ONNX graph in StableHLO: what their bodies became, called.

A module imported only by an export that has loops; it needs the compiler.
"""

from collections.abc import Callable, Sequence
from typing import Any

from iree.compiler import ir

from edgec.exporters.from_onnx.loop_forms import Part, Scanned, Turns
from edgec.toolchain.ir import write as graph
from edgec.toolchain.ir.joining import called, given_by

__all__ = ["written"]

_FEWEST = 4
"""Turns for which a loop is written as one."""

Body = Callable[[Any, Sequence[Any]], Sequence[Any]]


def written(part: Part, functions: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    """The operations of a part, at the insertion point; what it gives.

    Args:
        part: what was cut out.
        functions: the functions of its bodies.
        values: what it takes.
    """
    place = len(values) - part.outside
    given, outside = list(values[:place]), list(values[place:])
    reads = [[outside[number] for number in places] for places in part.reads]
    form = part.form
    if isinstance(form, Scanned):
        found = _scan(form, functions[0], given, reads[0])
    elif isinstance(form, Turns):
        found = _turns(form, functions[0], given, reads[0])
    else:
        found = _choice(functions, given[0], reads)
    return [found[number] for number in part.gives]


def _scan(form: Scanned, function: Any, given: list[Any], outside: list[Any]) -> list[Any]:
    states, scanned = given[: form.states], given[form.states :]
    rows = given_by(function)[form.states :]

    def body(turn: Any, carried: Sequence[Any]) -> Sequence[Any]:
        pieces = zip(scanned, form.axes, form.backward, strict=True)
        slices = [_slice(v, axis, _place(turn, form.count, back)) for v, axis, back in pieces]
        found = called(function, [*carried[: form.states], *slices, *outside])
        stacks = zip(carried[form.states :], found[form.states :], form.out_backward, strict=True)
        added = [_put(s, row, _place(turn, form.count, back)) for s, row, back in stacks]
        return [*found[: form.states], *added]

    results = _repeated(form.count, [*states, *_empty(rows, form.count)], body)
    stacks = zip(results[form.states :], form.out_axes, strict=True)
    return [*results[: form.states], *(_moved(stack, axis) for stack, axis in stacks)]


def _turns(form: Turns, function: Any, given: list[Any], outside: list[Any]) -> list[Any]:
    number, truth = ir.IntegerType.get_signless(64), ir.IntegerType.get_signless(1)
    if form.count is None:
        return _while(form, function, given, outside)
    going = graph.fill(True, (), truth)
    rows = given_by(function)[1 + form.states :]

    def body(turn: Any, carried: Sequence[Any]) -> Sequence[Any]:
        states = carried[: form.states]
        found = called(function, [graph.convert(turn, number), going, *states, *outside])[1:]
        stacks = zip(carried[form.states :], found[form.states :], strict=True)
        return [*found[: form.states], *(_put(stack, row, turn) for stack, row in stacks)]

    return _repeated(form.count, [*given, *_empty(rows, form.count)], body)


def _while(form: Turns, function: Any, given: list[Any], outside: list[Any]) -> list[Any]:
    """A loop that ends by a number or a condition that is computed."""
    number, truth = ir.IntegerType.get_signless(64), ir.IntegerType.get_signless(1)
    ends = given.pop(0) if form.bounded else None
    going = given.pop(0) if form.guarded else graph.fill(True, (), truth)
    firsts = [graph.fill(0, (), number), graph.reshape(going, ()), *given]
    types = [value.type for value in firsts]
    loop = ir.Operation.create("stablehlo.while", results=types, operands=firsts, regions=2)
    test = loop.regions[0].blocks.append(*types)
    with ir.InsertionPoint(test):
        turn, going, *_ = test.arguments
        if ends is not None:
            left = graph.compare("LT", turn, graph.reshape(ends, ()))
            going = graph.binary("and", left, going)
        ir.Operation.create("stablehlo.return", operands=[going])
    block = loop.regions[1].blocks.append(*types)
    with ir.InsertionPoint(block):
        turn, going, *states = block.arguments
        going, *states = called(function, [turn, going, *states, *outside])
        turn = graph.binary("add", turn, graph.fill(1, (), number))
        found = [turn, graph.reshape(going, ()), *states]
        ir.Operation.create("stablehlo.return", operands=found)
    return list(loop.results)[2:]


def _choice(functions: Sequence[Any], test: Any, reads: Sequence[list[Any]]) -> list[Any]:
    """What one of two functions gives."""
    chosen = ir.Operation.create(
        "stablehlo.if",
        results=given_by(functions[0]),
        operands=[graph.reshape(test, ())],
        regions=2,
    )
    for region, function, values in zip(chosen.regions, functions, reads, strict=True):
        with ir.InsertionPoint(region.blocks.append()):
            ir.Operation.create("stablehlo.return", operands=called(function, values))
    return list(chosen.results)


def _repeated(count: int, carried: Sequence[Any], body: Body) -> list[Any]:
    """A loop; so few turns that it gains nothing are written one after another."""
    if count >= _FEWEST:
        return graph.loop(count, carried, body)
    kind = ir.IntegerType.get_signless(32)
    for turn in range(count):
        carried = body(graph.fill(turn, (), kind), carried)
    return list(carried)


def _place(turn: Any, count: int, backward: bool) -> Any:
    """Where a turn reads or writes."""
    if not backward:
        return turn
    return graph.binary("subtract", graph.fill(count - 1, (), graph.element(turn)), turn)


def _slice(value: Any, axis: int, place: Any) -> Any:
    """One slice of a value along an axis, without the axis."""
    zero = graph.fill(0, (), graph.element(place))
    sizes = list(graph.shape(value))
    starts = [place if number == axis else zero for number in range(len(sizes))]
    sizes[axis] = 1
    one = graph.dynamic_slice(value, starts, sizes)
    return graph.reshape(one, [*sizes[:axis], *sizes[axis + 1 :]])


def _put(stack: Any, row: Any, place: Any) -> Any:
    """A stack with a row at its place."""
    zero = graph.fill(0, (), graph.element(place))
    one = graph.reshape(row, [1, *graph.shape(row)])
    return graph.dynamic_update(stack, one, [place, *[zero] * len(graph.shape(row))])


def _empty(rows: Sequence[Any], count: int) -> list[Any]:
    """Stacks of so many rows of these types."""
    return [graph.fill(0, [count, *row.shape], row.element_type) for row in rows]


def _moved(stack: Any, axis: int) -> Any:
    """A stack whose rows lie along another axis."""
    rank = len(graph.shape(stack))
    order = [*range(1, rank)]
    order.insert(axis % rank, 0)
    return graph.transpose(stack, order)
