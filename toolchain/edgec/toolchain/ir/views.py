"""Where the elements of a value lie, seen through reshapes, transposes, slices, repeats and rolls.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir.fold import splat
from edgec.toolchain.ir.read import element_type, integers, is_float, shape_of
from edgec.toolchain.ir.rotations import rotation

__all__ = [
    "Digit",
    "Roll",
    "Strided",
    "before",
    "dense",
    "identity",
    "joined",
    "rolled",
    "strided",
    "through",
]


@dataclass(frozen=True, kw_only=True)
class Digit:
    """Part of an index: `size` steps of `step` elements; a step of 0 repeats one element."""

    size: int
    step: int


@dataclass(frozen=True, kw_only=True)
class Roll:
    """An axis of dense memory turned in itself: its index i becomes (i + shift) % size.

    Attributes:
        size: of the axis.
        step: from one index of it to the next.
        shift: from 1 to `size` - 1.
    """

    size: int
    step: int
    shift: int


@dataclass(frozen=True, kw_only=True)
class Strided:
    """Elements in the memory of a value, by some axes of whoever looks at them.

    Attributes:
        value: whose memory it is, dense.
        start: where the first element lies.
        axes: for each axis of the one who looks, its parts, the outermost first; none for a size
            of one.
        scale: what every element is multiplied with.
        rolls: what becomes of the places that start and axes give, in order.
    """

    value: Any
    start: int
    axes: tuple[tuple[Digit, ...], ...]
    scale: float = 1.0
    rolls: tuple[Roll, ...] = ()


def dense(sizes: Sequence[int]) -> list[int]:
    """The steps of dense memory of these sizes."""
    return [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]


def identity(value: Any) -> Strided:
    """A value's own elements by its own axes."""
    sizes = _sizes(value)
    axes = tuple(
        (Digit(size=size, step=step),) if size > 1 else ()
        for size, step in zip(sizes, dense(sizes), strict=True)
    )
    return Strided(value=value, start=0, axes=axes)


def strided(
    view: Strided,
    *,
    until: Any = None,
    converts: bool = False,
    rolls: bool = False,
    accept: Callable[[Strided], bool] = lambda _: True,
) -> Strided:
    """Follow a view back through what only moves or repeats elements, and products by a constant.

    Args:
        view: where to begin.
        until: a value to stop at.
        converts: whether to see through conversions between floats, too.
        rolls: whether to see through rotations, too.
        accept: of the views on the way, the furthest for which this is true is taken.
    """
    best = view
    while until is None or view.value != until:
        further = before(view, converts=converts, rolls=rolls) or _unscaled(view)
        if further is None:
            break
        view = further
        if accept(view):
            best = view
    return best


def before(view: Strided, *, converts: bool = False, rolls: bool = False) -> Strided | None:
    """The same elements in the memory of the value that an operation moved or repeated.

    Args:
        view: elements of that operation's result.
        converts: whether to see through conversions between floats, too.
        rolls: whether to see through rotations, too.

    Returns:
        None where the value comes from anything else, or that cannot be said with steps.
    """
    if isinstance(view.value.owner, ir.Block):
        return None
    op = view.value.owner.operation
    match op.name:
        case "stablehlo.reshape":
            return replace(view, value=op.operands[0])
        case "stablehlo.convert" if converts:
            floats = is_float(element_type(op.operands[0])) and is_float(element_type(view.value))
            return replace(view, value=op.operands[0]) if floats else None
        case "stablehlo.broadcast_in_dim":
            source = op.operands[0]
            steps = [0] * len(_sizes(view.value))
            sizes = _sizes(source)
            where = integers(op, "broadcast_dimensions")
            for axis, size, step in zip(where, sizes, dense(sizes), strict=True):
                steps[axis] = step if size > 1 else 0
            return through(view, source, steps)
        case "stablehlo.transpose":
            source = op.operands[0]
            steps = dense(_sizes(source))
            return through(view, source, [steps[i] for i in integers(op, "permutation")])
        case "stablehlo.slice":
            source = op.operands[0]
            steps = dense(_sizes(source))
            starts = integers(op, "start_indices")
            start = sum(n * step for n, step in zip(starts, steps, strict=True))
            strides = integers(op, "strides")
            jumps = [step * n for step, n in zip(steps, strides, strict=True)]
            return through(view, source, jumps, start)
        case "stablehlo.concatenate" if rolls and (found := rotation(op)) is not None:
            return rolled(view, found.source, found.axis, found.shift)
    return None


def rolled(view: Strided, source: Any, axis: int, shift: int) -> Strided:
    """The same elements in a value that the one viewed is, but for an axis turned in itself.

    Args:
        view: elements of a value.
        source: a value of the same sizes.
        axis: index i of it in the value is index (i + shift) % size in `source`.
        shift: see `axis`.
    """
    sizes = _sizes(source)
    size, step = sizes[axis], dense(sizes)[axis]
    rolls = view.rolls
    if rolls and (rolls[-1].size, rolls[-1].step) == (size, step):
        shift, rolls = shift + rolls[-1].shift, rolls[:-1]
    if shift % size:
        rolls = (*rolls, Roll(size=size, step=step, shift=shift % size))
    return replace(view, value=source, rolls=rolls)


def _unscaled(view: Strided) -> Strided | None:
    """The same elements before a product with a constant."""
    if isinstance(view.value.owner, ir.Block):
        return None
    op = view.value.owner.operation
    if op.name == "stablehlo.multiply":
        for one, other in ((0, 1), (1, 0)):
            number = splat(op.operands[other])
            if number is not None:
                return replace(view, value=op.operands[one], scale=view.scale * number)
    if op.name == "stablehlo.divide" and (number := splat(op.operands[1])):
        return replace(view, value=op.operands[0], scale=view.scale / number)
    return None


def through(view: Strided, source: Any, steps: Sequence[int], start: int = 0) -> Strided | None:
    """Where elements lie in `source`, if each index of the value that is viewed has a step there.

    Args:
        view: elements of a value.
        source: whose memory is asked for.
        steps: from one index along each axis of that value to the next, in `source`.
        start: where the value's first element lies in it.

    Returns:
        None where a part of the view would run from one axis into another unevenly, or an axis
        that is rolled is not one of `source`.
    """
    sizes = _sizes(view.value)
    packed = dense(sizes)
    rolls = _moved(view.rolls, list(zip(sizes, packed, strict=True)), steps, source)
    if rolls is None:
        return None
    reach = [view.start // step % size for step, size in zip(packed, sizes, strict=True)]
    start += sum(n * step for n, step in zip(reach, steps, strict=True))
    axes = []
    for digits in view.axes:
        parts: list[Digit] = []
        for digit in digits:
            found = _spread(digit, sizes, packed)
            if found is None:
                return None
            for axis, size, jump in found:
                if axis < 0:
                    parts.append(Digit(size=size, step=0))
                    continue
                reach[axis] += (size - 1) * jump
                parts.append(Digit(size=size, step=jump * steps[axis]))
        axes.append(joined(parts))
    # A run that leaves its axis would go on in the one outside of it.
    if any(n >= size for n, size in zip(reach, sizes, strict=True)):
        return None
    return replace(view, value=source, start=start, axes=tuple(axes), rolls=rolls)


def _moved(
    rolls: Sequence[Roll], axes: Sequence[tuple[int, int]], steps: Sequence[int], source: Any
) -> tuple[Roll, ...] | None:
    """Rolls along axes, of these sizes and steps, as rolls of whole ones of `source`."""
    if not rolls:
        return ()
    sizes = _sizes(source)
    there = list(zip(sizes, dense(sizes), strict=True))
    found: list[Roll] = []
    for roll in rolls:
        if (roll.size, roll.step) not in axes:
            return None
        step = steps[axes.index((roll.size, roll.step))]
        if (roll.size, step) not in there:
            return None
        found.append(replace(roll, step=step))
    return tuple(found)


def _spread(
    digit: Digit, sizes: Sequence[int], packed: Sequence[int]
) -> list[tuple[int, int, int]] | None:
    """A run over dense memory as runs over its axes: which one, how many, by how much each.

    A run that stays where it is, is over axis -1.
    """
    if digit.step == 0:
        return [(-1, digit.size, 0)]
    parts: list[tuple[int, int, int]] = []
    left, step = digit.size, digit.step
    for axis in reversed(range(len(sizes))):
        end = packed[axis] * sizes[axis]
        if left == 1 or sizes[axis] == 1 or step >= end:
            continue
        if step % packed[axis]:
            return None
        jump = step // packed[axis]
        room = -(-sizes[axis] // jump)
        taken = min(left, room)
        if left > taken and (sizes[axis] % jump or left % taken):
            return None
        parts.insert(0, (axis, taken, jump))
        left //= taken
        step = end
    return parts if left == 1 else None


def joined(digits: Sequence[Digit]) -> tuple[Digit, ...]:
    """Neighbouring parts that are one run joined."""
    joined: list[Digit] = []
    for digit in digits:
        if joined and joined[-1].step == digit.step * digit.size:
            digit = Digit(size=joined.pop().size * digit.size, step=digit.step)
        joined.append(digit)
    return tuple(joined)


def _sizes(value: Any) -> list[int]:
    return [size or 0 for size in shape_of(value)]
