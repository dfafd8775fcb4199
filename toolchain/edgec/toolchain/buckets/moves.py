"""Operations that make values or move them, for one size: rules as in `rules`.

A module imported only where it is needed; it takes the compiler's bindings.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from edgec.toolchain.buckets.filled import Filling, Step
from edgec.toolchain.buckets.holding import moved
from edgec.toolchain.buckets.sizes import NotFilled, Size
from edgec.toolchain.ir import write
from edgec.toolchain.ir.literal import literal
from edgec.toolchain.ir.read import numbers_of

__all__ = [
    "broadcast_in_dim",
    "concatenate",
    "constant",
    "dynamic_slice",
    "dynamic_update",
    "gather",
    "iota",
    "pad",
    "reshape",
    "slice_",
    "transpose",
]


def constant(filling: Filling, step: Step) -> list[Any]:
    """The start of a table, one number everywhere, the size in some form, or a table and it."""
    here, there = literal(step.op), literal(step.twin)
    (sizes,) = step.results
    kind = step.op.results[0].type.element_type
    if all(_is_size(use) for use in step.op.results[0].uses):
        return filling.clone(step)
    if here is None or there is None or here.dtype.kind in "Vc":
        raise NotFilled("numbers of a type that NumPy does not have follow it")
    shape = [size.of(filling.size) for size in sizes]
    few = [np.unique(each) if each.size else each for each in (_least(here), _least(there))]
    if all(each.size == 1 for each in few):
        one, other = (each[0] for each in few)
        if one == other or (one != one and other != other):
            return [write.broadcast(_scalar(one, kind), shape)]
        return [write.broadcast(_of_size(filling, one, other, kind), shape)]
    start = tuple(slice(0, size) for size in there.shape)
    if here.ndim != there.ndim or any(n > m for n, m in zip(shape, here.shape, strict=True)):
        raise NotFilled("a table of numbers follows it")
    live = here[tuple(slice(0, size) for size in shape)]
    if np.array_equal(here[start], there, equal_nan=here.dtype.kind == "f"):
        return [write.constant(live, kind)]
    apart = np.unique(here[start] - there) if here.dtype.kind in "iu" else np.zeros(0)
    if apart.size != 1:
        raise NotFilled("a table of numbers follows it")
    each, rest = divmod(int(apart[0]), filling.two.one - filling.two.other)
    if rest:
        raise NotFilled("a table of numbers follows it")
    grown = write.convert(filling.alive(Size(each=each, more=0)), kind)
    fixed = write.constant((live - each * filling.two.one).astype(here.dtype), kind)
    return [write.binary("add", fixed, write.broadcast(grown, shape))]


_SIZES = {
    "stablehlo.dynamic_broadcast_in_dim": 1,
    "stablehlo.dynamic_iota": 0,
    "stablehlo.dynamic_reshape": 1,
}
"""Which operand says the sizes of the result, whose type says them, too."""


def _is_size(use: Any) -> bool:
    """Whether a value is used as sizes alone."""
    return bool(_SIZES.get(use.owner.name) == use.operand_number)


def _least(array: Any) -> Any:
    """The array with one element along each axis that repeats one."""
    return array[tuple(slice(0, 1) if step == 0 else slice(None) for step in array.strides)]


def _scalar(number: Any, kind: Any) -> Any:
    plain = bool(number) if str(kind) == "i1" else number.item()
    return write.fill(plain, (), kind)


def _of_size(filling: Filling, one: Any, other: Any, kind: Any) -> Any:
    """A scalar that is a multiple of the size, or one over it.

    Raises:
        NotFilled: it is neither.
    """
    two, floats = filling.two, np.dtype(type(one)).kind == "f"
    for over in (False, True) if floats else (False,):
        if over and not (one and other):
            continue
        values = [1 / one, 1 / other] if over else [one, other]
        whole = [round(float(value)) for value in values]
        exact = [
            number and type(one)(1 / number) == value if over else number == value
            for number, value in zip(whole, (one, other), strict=True)
        ]
        if all(exact):
            size = two.size(*whole)
            value = write.convert(filling.alive(size), kind)
            return write.binary("divide", write.fill(1.0, (), kind), value) if over else value
    raise NotFilled("a number in it follows the size")


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
        if follows and strides[0][axis] != 1:
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
    for value, size in zip(filling.operands(step), sizes, strict=True):
        if at.is_open:  # over the filling of what lies before it
            places = [filling.alive(at) if i == axis else nothing for i in range(rank)]
            whole = write.dynamic_update(whole, value, places)
        at = Size(each=at.each + size.each, more=at.more + size.more)
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
    last = filling.alive(Size(each=size.each - cut.each, more=size.more - cut.more))
    bound = write.broadcast(write.convert(last, kind), write.shape(start))
    return write.binary("minimum", start, bound)


def gather(filling: Filling, step: Step) -> list[Any]:
    """Looked up within what is live."""
    table, indices = step.operands
    numbers = numbers_of(step.op.attributes["dimension_numbers"])
    cuts = [filling.two.size(*both) for both in zip(*step.numbers("slice_sizes"), strict=True)]
    along = next(iter(numbers.get("index_vector_dim", [])), 0)
    operands = filling.operands(step)
    parts = []
    for place, axis in enumerate(numbers.get("start_index_map", [])):
        part = operands[1]
        if along < len(indices):
            starts, limits = [0] * len(indices), [size.of(filling.size) for size in indices]
            starts[along], limits[along] = place, place + 1
            part = write.slice_(part, starts, limits)
        if table[axis].is_open:
            part = _bounded(filling, part, table[axis], cuts[axis])
        parts.append(part)
    if any(table[axis].is_open for axis in numbers.get("start_index_map", [])):
        operands[1] = write.concatenate(parts, along)
    if along < len(indices) and indices[along].is_open:
        raise NotFilled("an index has as many parts")
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
