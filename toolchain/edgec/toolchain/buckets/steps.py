"""How many windows or steps there are along an open axis: sizes that numbers alone do not tell.

A module imported only where it is needed; it takes the compiler's bindings.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from edgec.toolchain.buckets.sizes import NotFilled, Size, Two
from edgec.toolchain.ir.places import place_of
from edgec.toolchain.ir.read import convolution_layout, integers

__all__ = ["counted", "learn_all"]

_ONE = Size(each=0, more=1)


def counted(op: Any, operands: Sequence[Sequence[Size]], two: Two, least: int) -> dict[int, Size]:
    """The sizes of a result along open axes of an operand which it goes along in steps; learnt.

    Args:
        op: any operation, of the program for `two.one`.
        operands: the sizes of its operands.
        two: what learns them.
        least: the least size that the open one gets.

    Raises:
        NotFilled: a size cannot be written down, or nothing is left for the least one; `TooClose`
            as for `Two.learn`.
    """
    count = _COUNTS.get(op.name)
    if count is None or not operands or not any(size.is_open for size in operands[0]):
        return {}
    found = {}
    for axis, (size, step) in count(op, operands[0]).items():
        made = size.in_steps(step).plus(_ONE)
        if made.is_open and made.of(least) < 1:
            raise NotFilled(f"of {least} of it no window is full; a larger least size may do")
        two.learn(made)
        found[axis] = made
    return found


def learn_all(pairs: Sequence[tuple[Any, Any]], two: Two, least: int) -> None:
    """Learn the sizes in steps of all operations, since some are asked for before they arise.

    Args:
        pairs: the operations, and the same of the program for the other size.
        two: what learns them.
        least: as for `counted`.

    Raises:
        NotFilled: as for `counted`.
    """
    known = -1
    while known != len(two.steps):
        known = len(two.steps)
        for op, twin in pairs:
            if op.name in _COUNTS and twin.name == op.name:
                try:
                    operand = two.shape_of(op.operands[0], twin.operands[0])
                except NotFilled:
                    continue  # It follows what is learnt later.
                try:
                    counted(op, [operand], two, least)
                except NotFilled as found:
                    found.where = found.where or place_of(op)
                    raise


_Steps = dict[int, tuple[Size, int]]
"""By axis of the result: how far the last window may begin, and how far apart windows are."""


def _windows(op: Any, sizes: Sequence[Size]) -> _Steps:
    rank = len(sizes)
    ones = [1] * rank
    window, strides, base, wide = (
        integers(op, name, ones)
        for name in ("window_dimensions", "window_strides", "base_dilations", "window_dilations")
    )
    pads = integers(op, "padding", [0] * 2 * rank)
    return {
        axis: (_room(sizes[axis], window[axis], base[axis], wide[axis], pads, axis), strides[axis])
        for axis in range(rank)
        if sizes[axis].is_open and strides[axis] != 1
    }


def _convolution(op: Any, sizes: Sequence[Size]) -> _Steps:
    before, weights, after = convolution_layout(op)
    rank = len(before) - 2
    ones = [1] * rank
    strides, base, wide = (
        integers(op, name, ones) or ones
        for name in ("window_strides", "lhs_dilation", "rhs_dilation")
    )
    pads = integers(op, "padding", [0] * 2 * rank) or [0] * 2 * rank
    window = list(op.operands[1].type.shape)
    found: _Steps = {}
    for axis, name in enumerate(before):
        if name in ("b", "f") or not sizes[axis].is_open or strides[int(name)] == 1:
            continue
        place = int(name)
        width = window[weights.index(name)]
        room = _room(sizes[axis], width, base[place], wide[place], pads, place)
        found[after.index(name)] = (room, strides[place])
    return found


def _room(size: Size, window: int, base: int, wide: int, pads: Sequence[int], place: int) -> Size:
    """Where the last window may begin, if they are next to each other."""
    # Of k elements with base - 1 zeros between them there are (k - 1) * base + 1.
    spread = Size(each=0, more=0).plus(size, base)
    taken = base - 1 + (window - 1) * wide + 1
    return spread.plus(Size(each=0, more=pads[2 * place] + pads[2 * place + 1] - taken))


def _slice(op: Any, sizes: Sequence[Size]) -> _Steps:
    starts, limits, strides = (
        integers(op, name) for name in ("start_indices", "limit_indices", "strides")
    )
    shape = list(op.operands[0].type.shape)
    return {
        axis: (size.plus(Size(each=0, more=limits[axis] - shape[axis] - starts[axis] - 1)), step)
        for axis, (size, step) in enumerate(zip(sizes, strides, strict=True))
        if size.is_open and step != 1
    }


_COUNTS: Mapping[str, Callable[[Any, Sequence[Size]], _Steps]] = {
    "stablehlo.convolution": _convolution,
    "stablehlo.reduce_window": _windows,
    "stablehlo.slice": _slice,
}
