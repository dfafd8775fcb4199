"""Where the elements of a value lie, seen through reshapes, transposes and slices.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir.fold import splat
from edgec.toolchain.ir.read import integers, shape_of

__all__ = ["Digit", "Strided", "joined", "strided"]


@dataclass(frozen=True, kw_only=True)
class Digit:
    """Part of an index: `size` steps of `step` elements."""

    size: int
    step: int


@dataclass(frozen=True, kw_only=True)
class Strided:
    """A value's elements in the memory of another value.

    Attributes:
        value: whose memory it is, dense.
        start: where the first element lies.
        axes: for each axis of the value, its parts, the outermost first; none for a size of one.
        scale: what every element is multiplied with.
    """

    value: Any
    start: int
    axes: tuple[tuple[Digit, ...], ...]
    scale: float = 1.0


def strided(value: Any, until: Any = None) -> Strided:
    """Follow a value back through what only moves its elements, and products by a constant.

    Args:
        value: where to begin.
        until: a value to stop at.
    """
    steps = _dense(_sizes(value))
    axes = tuple(
        (Digit(size=size, step=step),) if size > 1 else ()
        for size, step in zip(_sizes(value), steps, strict=True)
    )
    view = Strided(value=value, start=0, axes=axes)
    while until is None or view.value != until:
        further = _further(view)
        if further is None:
            return view
        view = further
    return view


def _sizes(value: Any) -> list[int]:
    return [size or 0 for size in shape_of(value)]


def _dense(sizes: Sequence[int]) -> list[int]:
    return [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]


def _further(view: Strided) -> Strided | None:
    """The same elements in the memory of the value before; None where that cannot be said."""
    if isinstance(view.value.owner, ir.Block):
        return None
    op = view.value.owner.operation
    match op.name:
        case "stablehlo.reshape":
            return _moved(view, op.operands[0], view.start, view.axes)
        case "stablehlo.broadcast_in_dim":
            if math.prod(_sizes(op.operands[0])) != math.prod(_sizes(view.value)):
                return None
            where = integers(op, "broadcast_dimensions")
            if where != sorted(where):
                return None
            return _moved(view, op.operands[0], view.start, view.axes)
        case "stablehlo.multiply":
            for one, other in ((0, 1), (1, 0)):
                number = splat(op.operands[other])
                if number is not None:
                    return _moved(view, op.operands[one], view.start, view.axes, number)
            return None
        case "stablehlo.divide":
            number = splat(op.operands[1])
            if not number:
                return None
            return _moved(view, op.operands[0], view.start, view.axes, 1 / number)
        case "stablehlo.transpose":
            return _before_transpose(view, op)
        case "stablehlo.slice":
            return _before_slice(view, op)
    return None


def _moved(
    view: Strided,
    value: Any,
    start: int,
    axes: Sequence[tuple[Digit, ...]],
    factor: float = 1.0,
) -> Strided:
    return Strided(value=value, start=start, axes=tuple(axes), scale=view.scale * factor)


def _before_transpose(view: Strided, op: Any) -> Strided | None:
    if view.start:
        return None
    source = op.operands[0]
    before = _dense(_sizes(source))
    order = integers(op, "permutation")
    sizes = _sizes(view.value)
    after = _dense(sizes)
    steps = [before[i] for i in order]
    axes = []
    for digits in view.axes:
        parts: list[Digit] = []
        for digit in digits:
            found = _spread(digit, sizes, after, steps)
            if found is None:
                return None
            parts += found
        axes.append(joined(parts))
    return _moved(view, source, 0, axes)


def _spread(
    digit: Digit, sizes: Sequence[int], dense: Sequence[int], steps: Sequence[int]
) -> list[Digit] | None:
    """A run over dense memory of some sizes as runs over its axes, whose real steps are given."""
    parts: list[Digit] = []
    left, step = digit.size, digit.step
    for axis in reversed(range(len(sizes))):
        end = dense[axis] * sizes[axis]
        if left == 1 or sizes[axis] == 1 or step >= end:
            continue
        if step % dense[axis]:
            return None
        jump = step // dense[axis]
        room = sizes[axis] // jump
        taken = min(left, room)
        if sizes[axis] % jump or left % taken:
            return None
        parts.insert(0, Digit(size=taken, step=jump * steps[axis]))
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


def _before_slice(view: Strided, op: Any) -> Strided | None:
    """A cut along one axis: what lies outside that axis gets longer steps."""
    source = op.operands[0]
    if set(integers(op, "strides")) != {1}:
        return None
    before, after = _sizes(source), _sizes(view.value)
    cut = [axis for axis in range(len(before)) if before[axis] != after[axis]]
    if not cut:
        return _moved(view, source, view.start, view.axes)
    if len(cut) > 1:
        return None
    (axis,) = cut
    held = math.prod(after[axis:])
    stretch = math.prod(before[axis:])
    start = integers(op, "start_indices")[axis] * math.prod(after[axis + 1 :])
    if view.start >= held:
        return None
    inside = view.start
    axes = []
    for digits in view.axes:
        parts = []
        for digit in digits:
            if digit.step >= held and digit.step % held == 0:
                parts.append(Digit(size=digit.size, step=digit.step // held * stretch))
            elif digit.step < held:
                inside += (digit.size - 1) * digit.step
                parts.append(digit)
            else:
                return None
        axes.append(tuple(parts))
    # A run that would leave the piece would meet the elements beside it.
    return None if inside >= held else _moved(view, source, start + view.start, axes)
