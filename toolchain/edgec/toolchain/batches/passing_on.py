"""Which way an operation's results count examples, from the way that its operands do.

The sizes of a result say along which axis and how many elements an example has; whether they lie
together or between those of others follows from what it was computed from. Whether that is true is
for `rules` to say. A module imported only where it is needed; it takes the compiler's bindings.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from edgec.toolchain.batches.marks import Mark, NotByExample
from edgec.toolchain.batches.moves import reshaped
from edgec.toolchain.batches.rules import by_element
from edgec.toolchain.ir.read import integers

__all__ = ["given", "levelled"]


def levelled(marks: Sequence[Mark | None]) -> list[Mark | None]:
    """Marks of operands, where what is the same for all examples lies as the others do."""
    ways = {mark.before for mark in marks if mark and not mark.uniform}
    if len(ways) != 1:
        return list(marks)
    (before,) = ways
    return [
        mark.going_through(before) if mark and mark.uniform and not mark.total % before else mark
        for mark in marks
    ]


def given(
    op: Any, operands: Sequence[Mark | None], sizes: Sequence[Mark | None]
) -> list[Mark | None]:
    """The marks of an operation's results.

    Args:
        op: the operation.
        operands: the marks of its operands.
        sizes: those of its results by their sizes alone.

    Raises:
        NotByExample: no way of counting fits.
    """
    found = [mark for mark in operands if mark is not None]
    if op.name == "stablehlo.reshape" and found and sizes[0] is not None:
        made = reshaped(op, found[0], sizes[0]) or sizes[0]
        same = found[0].uniform and (made.each, made.before) == (found[0].each, found[0].before)
        return [replace(made, uniform=same)]
    before = {mark.before for mark in found}
    if len(before) > 1:
        raise NotByExample(f"{op.name.partition('.')[2]} joins examples that lie otherwise")
    uniform = _is_uniform(op, found, sizes)
    (way,) = before or {1}
    return [mark and replace(mark.going_through(way), uniform=uniform) for mark in sizes]


def _is_uniform(op: Any, found: Sequence[Mark], sizes: Sequence[Mark | None]) -> bool:
    """Whether all elements of the results along their axes of examples are the same."""
    if found:
        moves = by_element(op) or op.name == "stablehlo.broadcast_in_dim"
        return moves and all(mark.uniform for mark in found)
    if op.name == "stablehlo.broadcast_in_dim":
        return True  # along an axis that it repeats, as its rule wants
    axes = [mark.axis for mark in sizes if mark is not None]
    return op.name == "stablehlo.iota" and integers(op, "iota_dimension") != axes
