"""Operations that move elements (broadcast, reshape, pad, slice ...), for dynamic shapes.

A module imported only by a pass that runs; it needs the compiler.
"""

from collections.abc import Sequence
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir.read import (
    element_type,
    integers,
    is_float,
    is_unsigned,
    shape_of,
)
from edgec.toolchain.passes.legalise.dynamic_shapes.emit import Emitter, axes, fixed
from edgec.toolchain.passes.legalise.dynamic_shapes.sizes import Size, constant

__all__ = [
    "broadcast_in_dim",
    "concatenate",
    "convert",
    "dimension_size",
    "iota",
    "pad",
    "padded",
    "reshape",
    "slice_at_run_time",
    "update_slice",
]

_ONE = constant(1)


def broadcast_in_dim(e: Emitter) -> bool:
    """A `linalg.generic` that reads an axis at 0 where it is expanded.

    Whether a dynamic dimension is expanded is known from the sizes, the operation's own
    attributes or the framework's word; else it is looked up at run time.
    """
    operand, shape = e.operand(0), e.sizes.of(e.op.results[0])
    targets = integers(e.op, "broadcast_dimensions")
    kept = integers(e.op, "known_nonexpanding_dimensions")
    expanded = integers(e.op, "known_expanding_dimensions")
    own = e.sizes.of(operand)
    if own == shape and targets == list(range(len(shape))):
        e.finish(operand)
        return True
    unsure = []
    reads = []
    for axis, (size, target) in enumerate(zip(own, targets, strict=True)):
        if axis in expanded or (size == _ONE and shape[target] != _ONE):
            reads.append(fixed(0))
            continue
        reads += axes([target])
        sure = size == shape[target] or size.number is not None or axis in kept
        if not sure and not e.trusts_broadcasts:
            unsure.append(axis)
    into = e.empty(shape, element_type(operand))
    rank = len(shape)
    everywhere = axes(range(rank))
    if not unsure:
        e.finish(e.generic([operand], [reads], into, everywhere, rank, lambda a: [a[0]]))
        return True
    lengths = {axis: e.index(own[axis]) for axis in unsure}

    def look_up(_: Sequence[Any]) -> Sequence[Any]:
        at = []
        for axis, (size, target) in enumerate(zip(own, targets, strict=True)):
            if axis in lengths:
                single = e.compare(0, lengths[axis], e.number(1))
                at.append(
                    e.create("arith.select", e.index_type, [single, e.number(0), e.loop(target)])
                )
            elif axis in expanded or (size == _ONE and shape[target] != _ONE):
                at.append(e.number(0))
            else:
                at.append(e.loop(target))
        return [e.create("tensor.extract", element_type(operand), [operand, *at])]

    e.finish(e.generic([], [], into, everywhere, rank, look_up))
    return True


def reshape(e: Emitter) -> bool:
    """Groups of axes that are merged or split, where the sizes tell them; else `tensor.reshape`."""
    operand, shape = e.operand(0), e.sizes.of(e.op.results[0])
    own = e.sizes.of(operand)
    if own == shape:
        e.finish(operand)
        return True
    groups = _matching_groups(own, shape)
    if groups is None:
        sizes = [e.index(s) for s in shape]
        kind = ir.RankedTensorType.get([len(sizes)], e.index_type)
        to = e.create("tensor.from_elements", kind, sizes)
        e.finish(e.create("tensor.reshape", e.tensor(shape, element_type(operand)), [operand, to]))
        return True
    middle = []
    for merged, _ in groups:
        size = _ONE
        for axis in merged:
            size = size * own[axis]
        middle.append(size)
    value = operand
    if len(middle) < len(own):
        value = e.collapse(value, [merged for merged, _ in groups], middle)
    if len(middle) < len(shape):
        value = e.expand(value, [split for _, split in groups], shape)
    e.finish(value)
    return True


def _matching_groups(
    own: Sequence[Size], shape: Sequence[Size]
) -> list[tuple[list[int], list[int]]] | None:
    """The finest pairs of neighbouring axes with equal products, or None if there are none."""
    if not own or not shape:
        return None
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(own) and j < len(shape):
        found = _match(own[i:], shape[j:])
        if found is None:
            break
        a, b = found
        groups.append((list(range(i, i + a)), list(range(j, j + b))))
        i, j = i + a, j + b
    if any(s != _ONE for s in (*own[i:], *shape[j:])) or not groups:
        return None
    groups[-1][0].extend(range(i, len(own)))
    groups[-1][1].extend(range(j, len(shape)))
    return groups


def _match(own: Sequence[Size], shape: Sequence[Size]) -> tuple[int, int] | None:
    """The shortest beginnings with equal products."""
    for total in range(2, len(own) + len(shape) + 1):
        for a in range(max(1, total - len(shape)), min(len(own), total - 1) + 1):
            if _product(own[:a]) == _product(shape[: total - a]):
                return a, total - a
    return None


def _product(sizes: Sequence[Size]) -> Size:
    total = _ONE
    for size in sizes:
        total = total * size
    return total


def iota(e: Emitter) -> bool:
    """A `linalg.generic` that yields a loop's index."""
    kind = element_type(e.result_type())
    if not is_float(kind) and not isinstance(kind, ir.IntegerType):
        return False
    (axis,) = integers(e.op, "iota_dimension")
    shape = e.sizes.of(e.op.results[0])

    def count(_: Sequence[Any]) -> Sequence[Any]:
        if not is_float(kind):
            return [e.create("arith.index_cast", kind, [e.loop(axis)])]
        i32 = ir.IntegerType.get_signless(32)
        return [e.create("arith.sitofp", kind, [e.create("arith.index_cast", i32, [e.loop(axis)])])]

    rank = len(shape)
    e.finish(e.generic([], [], e.empty(shape, kind), axes(range(rank)), rank, count))
    return True


def pad(e: Emitter) -> bool:
    """`dynamic_pad`, whose widths are operands."""
    low, high, interior = (e.sizes.elements(v) for v in list(e.op.operands)[2:5])
    e.finish(padded(e, e.operand(0), low, high, interior, e.scalar(e.operand(1))))
    return True


def padded(
    e: Emitter,
    value: Any,
    low: Sequence[Size],
    high: Sequence[Size],
    interior: Sequence[Size],
    scalar: Any,
) -> Any:
    """A value padded, between its elements too, by widths that may be negative at the edges."""
    zero = constant(0)
    if all(s == zero for s in (*low, *high, *interior)):
        return value
    if all(s == zero for s in interior) and all(s.is_never_negative for s in (*low, *high)):
        return e.pad(value, low, high, scalar)
    own = e.sizes.of(value)
    shape = [
        s + i * (s - _ONE) + a + b if i != zero else s + a + b
        for s, a, b, i in zip(own, low, high, interior, strict=True)
    ]
    bounds = [
        (e.index(a), e.index(i + _ONE), e.index(s - _ONE), i == zero)
        for s, a, i in zip(own, low, interior, strict=True)
    ]

    def choose(_: Sequence[Any]) -> Sequence[Any]:
        inside = None
        at = []
        for axis, (before, step, last, dense) in enumerate(bounds):
            place = e.arith("subi", e.loop(axis), before)
            tests = [e.compare(5, place, e.number(0))]
            if not dense:
                tests.append(e.compare(0, e.arith("remsi", place, step), e.number(0)))
                place = e.arith("divsi", place, step)
            tests.append(e.compare(3, place, last))
            for test in tests:
                inside = test if inside is None else e.arith("andi", inside, test)
            at.append(e.clamp(place, e.number(0), last))
        element = e.create("tensor.extract", element_type(value), [value, *at])
        return [e.create("arith.select", element_type(value), [inside, element, scalar])]

    rank = len(shape)
    into = e.empty(shape, element_type(value))
    result = e.generic([], [], into, axes(range(rank)), rank, choose)
    e.sizes.set(result, shape)
    return result


def slice_at_run_time(e: Emitter) -> bool:
    """`real_dynamic_slice` as `tensor.extract_slice`."""
    operand = e.operand(0)
    starts, _, strides = (e.sizes.elements(v) for v in list(e.op.operands)[1:4])
    shape = e.sizes.of(e.op.results[0])
    kind = e.tensor(shape, element_type(operand))
    e.finish(
        e.extract_slice(
            operand, [e.index(s) for s in starts], shape, kind, [e.index(s) for s in strides]
        )
    )
    return True


def update_slice(e: Emitter) -> bool:
    """`dynamic_update_slice` as `tensor.insert_slice`, the start moved inside as it demands."""
    e.op.operands[0] = e.owned(e.op.operands[0])
    into, update = e.operand(0), e.operand(1)
    shape = e.sizes.of(update)
    starts = []
    for axis, (size, length) in enumerate(zip(e.sizes.of(into), shape, strict=True)):
        start = e.sizes.element(e.op.operands[2 + axis])
        if start.number == 0 or size == length:
            starts.append(e.number(0))
            continue
        starts.append(e.clamp(e.index(start), e.number(0), e.index(size - length)))
    e.finish(e.insert_slice(update, into, starts, shape))
    return True


def concatenate(e: Emitter) -> bool:
    """One `linalg.generic` that selects among the pieces.

    The compiler's own form nests branches, which comes out wrong on Vulkan; pieces that lie one
    after the other in memory are left to it, as it copies them.
    """
    (axis,) = integers(e.op, "dimension")
    shape = e.sizes.of(e.op.results[0])
    if all(size == _ONE for size in shape[:axis]):
        return False
    pieces = [e.operand(i) for i in range(len(e.op.operands))]
    kind = element_type(pieces[0])
    ends, lasts, total = [], [], constant(0)
    for piece in pieces:
        length = e.sizes.of(piece)[axis]
        lasts.append(e.index(length - _ONE))
        total = total + length
        ends.append(e.index(total))
    rank = len(shape)

    def choose(_: Sequence[Any]) -> Sequence[Any]:
        at = [e.loop(i) for i in range(rank)]
        chosen = None
        for i in reversed(range(len(pieces))):
            own = at[axis] if i == 0 else e.arith("subi", at[axis], ends[i - 1])
            own = e.clamp(own, e.number(0), lasts[i])
            place = [*at[:axis], own, *at[axis + 1 :]]
            element = e.create("tensor.extract", kind, [pieces[i], *place])
            if chosen is None:
                chosen = element
                continue
            before = e.compare(2, at[axis], ends[i])
            chosen = e.create("arith.select", kind, [before, element, chosen])
        return [chosen]

    e.finish(e.generic([], [], e.empty(shape, kind), axes(range(rank)), rank, choose))
    return True


def convert(e: Emitter) -> bool:
    """A size as an unsigned scalar goes through a signed one of that width."""
    operand, result = e.op.operands[0], e.op.results[0]
    kind = element_type(operand)
    if shape_of(operand) or not is_unsigned(element_type(result)):
        return False
    if not isinstance(kind, ir.IntegerType) or is_unsigned(kind):
        return False
    e.finish(e.create(e.op.name, e.result_type(), [operand]))
    return True


def dimension_size(e: Emitter) -> bool:
    """The size of an unsigned tensor is asked of its signless form."""
    if not is_unsigned(element_type(e.op.operands[0])):
        return False
    op = e.op
    dimension = {"dimension": op.attributes["dimension"]}
    e.finish(e.create(op.name, op.results[0].type, [e.signless(op.operands[0])], dimension))
    return True
