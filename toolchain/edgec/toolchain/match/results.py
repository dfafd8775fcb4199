"""A result followed through what alone uses it and only moves its elements.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from edgec.toolchain.ir.read import shape_of
from edgec.toolchain.ir.views import Digit, Strided, before, dense, identity, joined

__all__ = ["moved_result"]

_MOVES = ("stablehlo.transpose", "stablehlo.reshape", "stablehlo.broadcast_in_dim")


def moved_result(
    value: Any, accept: Callable[[Strided], bool], *, converts: bool = False
) -> Strided:
    """Where the elements of a value lie in the last value that holds the same ones in some order.

    Args:
        value: a result.
        accept: of the values on the way, the last for which this is true is taken.
        converts: whether to follow conversions between floats, too.

    Returns:
        That value's memory, by the axes of `value`.
    """
    sizes = [size or 0 for size in shape_of(value)]
    best = identity(value)
    moves = (*_MOVES, "stablehlo.convert") if converts else _MOVES
    last = value
    while len(uses := list(last.uses)) == 1 and uses[0].owner.operation.name in moves:
        last = uses[0].owner.operation.results[0]
        back: Strided | None = identity(last)
        while back is not None and back.value != value:
            back = before(back, converts=converts)
        axes = _inverse(back, sizes) if back is not None and back.start == 0 else None
        if axes is None:
            continue
        view = Strided(value=last, start=0, axes=axes)
        if accept(view):
            best = view
    return best


def _inverse(back: Strided, sizes: Sequence[int]) -> tuple[tuple[Digit, ...], ...] | None:
    """From where a value's elements lie in a dense one, where that one's lie in the value.

    None where the value repeats or leaves out some.
    """
    runs: list[tuple[int, int, int]] = []  # step in the dense one, size, step in the value
    step = 1
    for digits in reversed(back.axes):
        for digit in reversed(digits):
            runs.append((digit.step, digit.size, step))
            step *= digit.size
    if step != math.prod(sizes):
        return None
    runs.sort(reverse=True)
    axes = []
    for size, packed in zip(sizes, dense(sizes), strict=True):
        mine = [run for run in runs if packed <= run[0] < packed * size] if size > 1 else []
        if math.prod(run[1] for run in mine) != size:
            return None
        axes.append(joined([Digit(size=n, step=there) for _, n, there in mine]))
    return tuple(axes)
