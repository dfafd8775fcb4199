"""Rows that an operation looks up in a table: which axis counts them, and where they are asked for.

A module imported only by what rewrites programs; it needs the compiler.
"""

import math
from dataclasses import dataclass
from typing import Any

from edgec.toolchain.ir.read import integers, made_by, numbers_of, shape_of

__all__ = ["LOOK_UPS", "LookUp", "Pieces", "read_look_up", "read_pieces"]

_GATHER = "stablehlo.gather"
_SLICE = "stablehlo.dynamic_slice"
LOOK_UPS = frozenset({_GATHER, _SLICE})
"""Operations that may look rows up."""


@dataclass(frozen=True, kw_only=True)
class LookUp:
    """Whole rows of a matrix, whose axes may stand among others of size one.

    Attributes:
        op: a gather by one number for each row, or a dynamic slice of some neighbouring rows.
        table: what is looked up.
        places: which rows: all the numbers of a gather, the first one of a slice.
        rows: how many there are.
        inner: numbers of a row.
        some: how many neighbouring rows are taken from each place.
        vector: the axis of a gather's places, of size one or behind the last, that says of which
            axis they are.
    """

    op: Any
    table: Any
    places: Any
    rows: int
    inner: int
    some: int = 1
    vector: int = 0

    @property
    def is_gather(self) -> bool:
        """Whether places are a tensor of numbers, each of which gives a row."""
        return bool(self.op.name == _GATHER)

    @property
    def axes(self) -> int:
        """How many axes the rows are along that it gives, apart from those of size one."""
        rank = len(shape_of(self.places))
        return rank - (self.vector < rank) if self.is_gather else 1


@dataclass(frozen=True, kw_only=True)
class Pieces:
    """Whole pieces of a table along its first axis, one behind the other, as matrices of many.

    Attributes:
        table: what is looked up.
        places: which pieces, whole numbers; one out of bounds is the nearest within.
    """

    table: Any
    places: Any


def read_pieces(value: Any) -> Pieces | None:
    """The pieces that a value consists of; None where it is anything else."""
    op = made_by(value, "gather")
    if op is None:
        return None
    numbers = numbers_of(op.attributes["dimension_numbers"])
    table, places = op.operands
    sizes, given = shape_of(table), shape_of(value)
    batch = len(given) - len(sizes) + 1
    if integers(op, "slice_sizes") != [1, *sizes[1:]] or numbers.get("operand_batching_dims"):
        return None
    firsts = (numbers.get("start_index_map"), numbers.get("collapsed_slice_dims"))
    offsets = numbers.get("offset_dims", [])
    if firsts != ([0], [0]) or offsets != list(range(batch, len(given))):
        return None
    counts = [math.prod(each or 0 for each in one) for one in (shape_of(places), given[:batch])]
    return Pieces(table=table, places=places) if counts[0] == counts[1] > 0 else None


def read_look_up(op: Any) -> LookUp | None:
    """The rows that an operation looks up; None where it takes anything but whole ones."""
    if op.name not in LOOK_UPS:
        return None
    table = op.operands[0]
    sizes = [size or 0 for size in shape_of(table)]
    if len(sizes) < 2 or 0 in sizes:
        return None
    *before, inner = sizes
    rows = math.prod(before)
    taken = integers(op, "slice_sizes")
    if taken[-1] != inner or max(before) != rows or rows < 2:
        return None
    axis = before.index(rows)
    if op.name == _GATHER:
        vector = _by_row(op, axis) if taken[axis] == 1 else None
        if vector is None:
            return None
        places = op.operands[1]
        return LookUp(op=op, table=table, places=places, rows=rows, inner=inner, vector=vector)
    if taken[axis] == rows:
        return None
    places = op.operands[1 + axis]
    return LookUp(op=op, table=table, places=places, rows=rows, inner=inner, some=taken[axis])


def _by_row(op: Any, axis: int) -> int | None:
    """Which axis of a gather's places is no place, if each is one along an axis of its table.

    None of other gathers, and of those whose rows are not the last axis of what they give.
    """
    numbers = numbers_of(op.attributes["dimension_numbers"])
    table, places = (shape_of(operand) for operand in op.operands)
    given, offsets = shape_of(op.results[0]), numbers.get("offset_dims", [])
    if numbers.get("start_index_map") != [axis] or numbers.get("operand_batching_dims"):
        return None
    if offsets[-1:] != [len(given) - 1] or len(table) - 1 in numbers.get(
        "collapsed_slice_dims", []
    ):
        return None
    (vector,) = numbers.get("index_vector_dim", [0])
    batch = (*places[:vector], *places[vector + 1 :])
    if None in (*given, *batch) and given[:-1] != batch:
        return None
    return vector
