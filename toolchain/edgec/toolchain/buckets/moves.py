"""Operations that make values or move them, for one size: rules as in `rules`.

A module imported only where it is needed; it takes the compiler's bindings.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from edgec.toolchain.buckets.filled import Filling, Step
from edgec.toolchain.buckets.holding import moved
from edgec.toolchain.buckets.sizes import NotFilled, Size
from edgec.toolchain.ir import write
from edgec.toolchain.ir.read import numbers_of

__all__ = [
    "broadcast_in_dim",
    "concatenate",
    "dynamic_slice",
    "dynamic_update",
    "gather",
    "iota",
    "pad",
    "reshape",
    "slice_",
    "transpose",
]


def iota(filling: Filling, step: Step) -> list[Any]:
    """Counted from the start."""
    if step.op.name == "stablehlo.iota":
        return filling.clone(step)
    ((axis,), _), (sizes,) = step.numbers("iota_dimension"), step.results
    kind = step.op.results[0].type.element_type
    return [write.iota([size.of(filling.size) for size in sizes], axis, kind)]


def broadcast_in_dim(filling: Filling, step: Step) -> list[Any]:
    """Repeated along what is open, or open before."""
    axes, twins = step.numbers("broadcast_dimensions")
    (operand, *_), (result,) = step.operands, step.results
    if axes != twins:
        raise NotFilled("the program changes with it")
    for size, axis in zip(operand, axes, strict=True):
        if size != result[axis] and size != Size(each=0, more=1):
            raise NotFilled("a size grows otherwise than with it")
    filling.held[step.op.results[0]] = moved(step.held[0], dict(enumerate(axes)))
    sizes = [size.of(filling.size) for size in result]
    return [write.broadcast(filling.operands(step)[0], sizes, axes)]


def transpose(filling: Filling, step: Step) -> list[Any]:
    """Each axis goes where it is said to go."""
    order, twins = step.numbers("permutation")
    if order != twins:
        raise NotFilled("the program changes with it")
    places = {source: axis for axis, source in enumerate(order)}
    filling.held[step.op.results[0]] = moved(step.held[0], places)
    return filling.clone(step)


def reshape(filling: Filling, step: Step) -> list[Any]:
    """What is live stays at the start: an open axis is the first of those that become others."""
    (operand, *_), (result,) = step.operands, step.results
    places: dict[int, int] = {}
    for before, after in _groups(filling, operand, result):
        sources = [axis for axis in before if operand[axis] != _ONE]
        aims = [axis for axis in after if result[axis] != _ONE]
        if len(sources) == len(aims) == 1:
            places[sources[0]] = aims[0]
        for sizes, axes in ((operand, sources), (result, aims)):
            if any(sizes[axis].is_open for axis in axes[1:]):
                raise NotFilled("it is counted together with what lies before it")
            if len(axes) > 1 and sizes[axes[0]].is_open and sizes[axes[0]].more:
                raise NotFilled("a size grows otherwise than with it")
    filling.held[step.op.results[0]] = moved(step.held[0], places)
    return [write.reshape(filling.operands(step)[0], [size.of(filling.size) for size in result])]


_ONE = Size(each=0, more=1)


def _groups(
    filling: Filling, before: Sequence[Size], after: Sequence[Size]
) -> list[tuple[list[int], list[int]]]:
    """Axes of the operand that become axes of the result together."""
    ends = []
    for sizes in (before, after):
        totals, products = [], [1, 1]
        for size in sizes:
            numbers = (size.of(filling.two.one), size.of(filling.two.other))
            products = [a * b for a, b in zip(products, numbers, strict=True)]
            totals.append(tuple(products))
        ends.append(totals)
    common = sorted({*ends[0]} & {*ends[1]})
    if not before or not after:
        return [([*range(len(before))], [*range(len(after))])]
    cuts = []
    for totals in ends:
        marks = [0] + [max(i for i, t in enumerate(totals) if t == c) + 1 for c in common]
        marks[-1] = len(totals)
        cuts.append([[*range(a, b)] for a, b in pairwise(marks)])
    return list(zip(*cuts, strict=True))


def slice_(filling: Filling, step: Step) -> list[Any]:
    """From a fixed start, or of a fixed size that ends where what is live does."""
    (operand,), (result,) = step.operands, step.results
    starts, limits, strides = (
        step.numbers(name) for name in ("start_indices", "limit_indices", "strides")
    )
    begins: list[Any] = []
    for axis, size in enumerate(operand):
        begin = filling.two.size(starts[0][axis], starts[1][axis])
        end = filling.two.size(limits[0][axis], limits[1][axis])
        follows = size.is_open or begin.is_open or end.is_open
        if follows and strides[0][axis] != 1 and (begin.is_open or not end.is_open):
            raise NotFilled("steps go along it")
        if begin.is_open and result[axis].is_open:
            raise NotFilled("what is cut out of it begins where it says")
        if size.is_open and not end.is_open and end.more > size.of(filling.least):
            raise NotFilled("more is cut out of it than the least size has")
        begins.append(begin)
    if not any(begin.is_open for begin in begins):
        return filling.clone(step)
    if any(stride != 1 for stride in strides[0]):
        raise NotFilled("steps go along it")
    sizes = [size.of(filling.size) for size in result]
    return [
        write.dynamic_slice(filling.operands(step)[0], [filling.alive(b) for b in begins], sizes)
    ]


def concatenate(filling: Filling, step: Step) -> list[Any]:
    """One behind what is live of the other."""
    ((axis,), _) = step.numbers("dimension")
    sizes = [operand[axis] for operand in step.operands]
    if not any(size.is_open for size in sizes[:-1]):
        return filling.clone(step)
    whole, *_ = filling.clone(step)
    rank, at = len(step.results[0]), Size(each=0, more=0)
    nothing = filling.alive(Size(each=0, more=0))
    for place, value in enumerate(filling.operands(step)):
        if place:
            at = at.plus(sizes[place - 1])
        if at.is_open:  # over the filling of what lies before it
            places = [filling.alive(at) if i == axis else nothing for i in range(rank)]
            whole = write.dynamic_update(whole, value, places)
    return [whole]


def pad(filling: Filling, step: Step) -> list[Any]:
    """Behind what is live comes what it is padded with."""
    lows, highs, between = (
        step.numbers(name) for name in ("edge_padding_low", "edge_padding_high", "interior_padding")
    )
    axes = []
    for axis in step.open_axes():
        if between[0][axis] or lows[0][axis] != lows[1][axis]:
            raise NotFilled("elements are put between those along it")
        if max(highs[0][axis], highs[1][axis]) > 0:
            axes.append(axis)
    operands = filling.operands(step)
    if axes:
        operands[0] = filling.masked(step.op.operands[0], axes, operands[1])
    return filling.clone(step, operands)


def _bounded(filling: Filling, start: Any, size: Size, cut: Size) -> Any:
    """A start of a slice, where the smaller array would hold it; of any shape."""
    kind = start.type.element_type
    last = filling.alive(size.plus(cut, -1))
    bound = write.broadcast(write.convert(last, kind), write.shape(start))
    return write.binary("minimum", start, bound)


def gather(filling: Filling, step: Step) -> list[Any]:
    """Looked up within what is live."""
    table, indices = step.operands
    numbers = numbers_of(step.op.attributes["dimension_numbers"])
    cuts = [filling.two.size(*both) for both in zip(*step.numbers("slice_sizes"), strict=True)]
    along = next(iter(numbers.get("index_vector_dim", [])), 0)
    operands = filling.operands(step)
    looked_up = numbers.get("start_index_map", [])
    if along < len(indices) and indices[along].is_open:
        raise NotFilled("an index has as many parts")
    if not any(table[axis].is_open for axis in looked_up):
        return filling.clone(step, operands)
    parts = []
    for place, axis in enumerate(looked_up):
        part = operands[1]
        if along < len(indices):
            starts, limits = [0] * len(indices), [size.of(filling.size) for size in indices]
            starts[along], limits[along] = place, place + 1
            part = write.slice_(part, starts, limits)
        if table[axis].is_open:
            part = _bounded(filling, part, table[axis], cuts[axis])
        parts.append(part)
    operands[1] = write.concatenate(parts, along)
    return filling.clone(step, operands)


def dynamic_slice(filling: Filling, step: Step) -> list[Any]:
    """Cut out within what is live."""
    sizes = step.operands[0]
    cuts = [filling.two.size(*both) for both in zip(*step.numbers("slice_sizes"), strict=True)]
    operand, *starts = filling.operands(step)
    bounded = [
        _bounded(filling, start, size, cut) if size.is_open else start
        for start, size, cut in zip(starts, sizes, cuts, strict=True)
    ]
    return filling.clone(step, [operand, *bounded])


def dynamic_update(filling: Filling, step: Step) -> list[Any]:
    """Written within what is live."""
    whole, cut, *_ = step.operands
    operand, update, *starts = filling.operands(step)
    for size, part in zip(whole, cut, strict=True):
        if part.is_open and part != size:
            raise NotFilled("it is written into something larger")
    bounded = [
        _bounded(filling, start, size, part) if size.is_open else start
        for start, size, part in zip(starts, whole, cut, strict=True)
    ]
    return filling.clone(step, [operand, update, *bounded])
