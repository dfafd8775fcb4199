"""Sorts of many elements, as networks of comparisons."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.toolchain.ir.rewriting import rewrite_each
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["SortNetworks"]

_MANY = 64
"""Elements from which on every sort is one, and its turns a loop of the program."""


@dataclass(frozen=True, kw_only=True)
class SortNetworks:
    """A sort, or the search for the largest, of many elements is a loop over whole arrays.

    iree-compile 3.13 lets one thread compare each element with every other: 16,000 numbers take
    1.5 s on a processor, and on a GPU one of its threads does it; Mesa's llvmpipe ends such loops
    after 65,535 rounds, and 1,000 numbers come out unsorted.

    Here each turn of a loop compares every element with one partner (Batcher's bitonic sorter, in
    which all comparisons go one way, so that any number of elements can be sorted): for n elements
    log2(n) (log2(n) + 1) / 2 turns, 105 for 16,000. Equal elements keep their order by their places
    where that is asked for. Fewer elements are sorted so, too, where something that is worked out
    once for all calls moves with them (a count that is spread over rows): the compiler sorts in
    place, and the next call would find it sorted.

    Measured on two cores: 16,000 numbers 1,359 ms without it and 1.3 with it, 1,000 numbers 5.5 and
    0.23, 64 numbers 0.19 and 0.12.
    """

    name = "sort-networks"
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "SortNetworks | None":
        """For programs in StableHLO with sorts."""
        return cls() if situation.operations & {"stablehlo.sort", "chlo.top_k"} else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many sorts changed."""
        largest = rewrite_each(module, ["chlo.top_k"], _largest)
        return largest + rewrite_each(module, ["stablehlo.sort"], _sort)


def _largest(op: Any) -> Sequence[Any] | None:
    """The first of what is sorted downwards, with places; equal ones in order."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    (value,) = op.operands
    sizes = graph.shape(value)
    kind = graph.element(value)
    if sizes[-1] < _MANY or not isinstance(kind, ir.FloatType | ir.IntegerType):
        return None
    axis = len(sizes) - 1
    places = graph.iota(sizes, axis, graph.element(op.results[1]))

    def before(keys: Sequence[Any], others: Sequence[Any]) -> Any:
        return graph.compare("GT", keys[0], others[0], total=True)

    found = _network([value, places], axis, before, by_place=places)
    ends = graph.shape(op.results[0])
    return [graph.slice_(each, [0] * len(sizes), ends) for each in found]


def _sort(op: Any) -> Sequence[Any] | None:
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph
    from edgec.toolchain.ir.read import sorted_axis

    operands = list(op.operands)
    sizes = graph.shape(operands[0])
    axis = sorted_axis(op)
    region = op.regions[0]
    few = sizes[axis] < _MANY and not any(_is_worked_out(value) for value in operands)
    if few or sizes[axis] < 2 or not graph.is_elementwise(region):
        return None

    def before(keys: Sequence[Any], others: Sequence[Any]) -> Any:
        pairs = [each for pair in zip(keys, others, strict=True) for each in pair]
        return graph.apply(region, pairs)[0]

    places = None
    if graph.flag(op, "is_stable") and len(operands) > 1:
        places = graph.iota(sizes, axis, ir.IntegerType.get_signless(32))
    return _network(operands, axis, before, by_place=places)


def _is_worked_out(value: Any) -> bool:
    """Whether a value is made of counts and constants alone, and is more than one of them."""
    from iree.compiler import ir

    if isinstance(value.owner, ir.Block):
        return False
    op = value.owner.operation
    return bool(op.operands) and all(
        _is_worked_out(each) or _is_plain(each) for each in op.operands
    )


def _is_plain(value: Any) -> bool:
    from iree.compiler import ir

    kinds = ("stablehlo.iota", "stablehlo.constant")
    return not isinstance(value.owner, ir.Block) and value.owner.operation.name in kinds


def _network(operands: list[Any], axis: int, before: Any, *, by_place: Any | None) -> list[Any]:
    """The operands sorted along an axis.

    Args:
        operands: arrays of one shape, which move together.
        axis: along which.
        before: from some elements of the operands, and others, to whether the first go before.
        by_place: places by which equal elements are ordered; None where that is not asked for.
    """
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    sizes = graph.shape(operands[0])
    count = sizes[axis]
    order = [axis, *(at for at in range(len(sizes)) if at != axis)]
    back = [order.index(at) for at in range(len(sizes))]
    rows = [sizes[at] for at in order]
    carried = [graph.transpose(value, order) for value in operands]
    if by_place is not None:
        carried.append(graph.transpose(by_place, order))
    index = ir.IntegerType.get_signless(32)
    masks = _masks(count)
    own = graph.iota([count], 0, index)

    def turned(mask: Any, values: Sequence[Any]) -> list[Any]:
        partner = graph.binary("xor", own, graph.broadcast(mask, [count]))
        last = graph.fill(count - 1, [count], index)
        there = graph.compare("LE", partner, last)
        partner = graph.binary("minimum", partner, last)
        low = _along(graph.compare("LT", own, partner), rows)
        others = [graph.taken(value, partner) for value in values]
        first = [graph.select(low, a, b) for a, b in zip(values, others, strict=True)]
        second = [graph.select(low, b, a) for a, b in zip(values, others, strict=True)]
        keys = len(operands)
        swap = before(second[:keys], first[:keys])
        if by_place is not None:
            equal = graph.unary("not", before(first[:keys], second[:keys]))
            earlier = graph.compare("LT", second[-1], first[-1])
            swap = graph.binary("or", swap, graph.binary("and", equal, earlier))
        swap = graph.binary("and", swap, _along(there, rows))
        return [graph.select(swap, b, a) for a, b in zip(values, others, strict=True)]

    if count < _MANY:
        # The compiler does not follow every program with one more loop in it.
        found = carried
        for mask in masks:
            found = turned(graph.fill(mask, (), index), found)
    else:
        known = graph.constant(np.array(masks, np.int32), index)

        def turn(number: Any, values: Sequence[Any]) -> list[Any]:
            mask = graph.dynamic_slice(known, [number], [1])
            return turned(graph.reshape(mask, []), values)

        found = graph.loop(len(masks), carried, turn)
    return [graph.transpose(value, back) for value in found[: len(operands)]]


def _masks(count: int) -> list[int]:
    """By which bits the places of partners differ, turn by turn."""
    masks, size = list[int](), 1
    while size < count:
        masks.append(2 * size - 1)
        step = size // 2
        while step:
            masks.append(step)
            step //= 2
        size *= 2
    return masks


def _along(value: Any, sizes: Sequence[int]) -> Any:
    from edgec.toolchain.ir import write as graph

    return graph.broadcast(value, sizes, [0])
