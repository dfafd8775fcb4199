"""Rows that are sorted by group, each multiplied by its group's matrix, as experts have them.

Frameworks write it as one product for each group, of all rows with those of other groups as zeros,
and add these up; or as one product that sums over the groups, too (`jax.lax.ragged_dot`). A module
imported only by a pass that runs; it needs the compiler.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.toolchain.ir.elementwise import direction
from edgec.toolchain.ir.fold import splat
from edgec.toolchain.ir.read import adds_up, integers, made_by, maker, shape_of, unshaped
from edgec.toolchain.ir.varying import varying_axes
from edgec.toolchain.match.description import Array, Description, draw
from edgec.toolchain.match.matrix_product import axes_of

__all__ = ["GroupedProduct", "GroupedProducts", "as_they_lie"]

_SOURCES = ("stablehlo.constant", "util.global.load")
_KEPT = ("stablehlo.transpose", "stablehlo.convert")
_TURNED = {"GE": "LE", "GT": "LT", "LE": "GE", "LT": "GT", "EQ": "EQ", "NE": "NE"}


@dataclass(frozen=True, kw_only=True)
class GroupedProduct(Description):
    """Rows [rows, k] by matrices [groups, k, n] to [rows, n], zeros for rows of no group.

    Attributes:
        rows: what is multiplied.
        matrices: one for each group; their axis 1 is summed.
        groups: the group of each row, in ascending order; or, of `by_ends`, the row before which
            each group ends, in ascending order, too: groups are counted, none has fewer than 0.
        by_ends: which of them.
        value: the result.
        product: the operation that multiplies, or one of them.
    """

    rows: Any
    matrices: Any
    groups: Any
    by_ends: bool
    value: Any
    product: Any

    @property
    def operands(self) -> tuple[Any, ...]:
        """The values that it reads."""
        return (self.rows, self.matrices, self.groups)

    @property
    def results(self) -> tuple[Any, ...]:
        """The value that it computes."""
        return (self.value,)

    def inputs(self, rng: np.random.Generator) -> tuple[Array, ...]:
        """Groups, or their ends, in ascending order, some of no group."""
        count, many = shape_of(self.rows)[0] or 0, shape_of(self.matrices)[0] or 0
        sizes = [size or 0 for size in shape_of(self.groups)]
        most = count if self.by_ends else many + 1
        groups = np.sort(rng.integers(0, most, math.prod(sizes))).reshape(sizes)
        return (draw(self.rows, rng), draw(self.matrices, rng), groups)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """The numbers of the result from those of rows, matrices and groups."""
        rows, matrices, groups = inputs
        groups = groups.reshape(-1)
        if self.by_ends:
            groups = (np.arange(len(rows))[:, None] >= groups).sum(1)
        found = np.zeros((len(rows), matrices.shape[2]))
        for number, matrix in enumerate(matrices):
            found[groups == number] = rows[groups == number] @ matrix
        return (found,)


class GroupedProducts:
    """Reads a program's operations, each once and in their order."""

    def __init__(self) -> None:
        self._parts: dict[Any, _Part | None] = {}

    def read(self, op: Any) -> GroupedProduct | None:
        """What an operation is of rows of groups: the addition of the last group's product to all
        others', or a product that sums over groups; None of others."""
        if op.name != "stablehlo.add":
            return _summed(op) if op.name == "stablehlo.dot_general" else None
        part = self._part(op.results[0], [self._of(value) for value in op.operands])
        if part is None:
            return None
        rows, matrices, groups = part.of
        if part.seen != (1 << (shape_of(matrices)[0] or 0)) - 1 or not _ascends(groups, 0):
            return None
        del self._parts[op.results[0]]  # another value may come to lie where this one lay
        return GroupedProduct(
            rows=rows,
            matrices=matrices,
            groups=groups,
            by_ends=False,
            value=op.results[0],
            product=part.product,
        )

    def _of(self, value: Any) -> "_Part | None":
        """What a value is the sum of, if of products of groups."""
        if value not in self._parts:
            nothing = splat(value) == 0.0
            self._parts[value] = _Part() if nothing else _of_group(value)
        return self._parts[value]

    def _part(self, value: Any, operands: list["_Part | None"]) -> "_Part | None":
        """Keep what a sum of two values is the sum of."""
        one, other = operands
        found = None
        if one is not None and other is not None and one.joins(other):
            found = _Part(
                of=one.of or other.of,
                seen=one.seen | other.seen,
                product=one.product or other.product,
            )
        self._parts[value] = found
        return found if found is not None and found.of else None


@dataclass(frozen=True, kw_only=True)
class _Part:
    """A sum of products of some groups.

    Attributes:
        of: rows, matrices and groups; empty of a sum of zeros.
        seen: which groups, a bit each.
        product: one of them; None in a sum of zeros.
    """

    of: tuple[Any, ...] = ()
    seen: int = 0
    product: Any = None

    def joins(self, other: "_Part") -> bool:
        """Whether two such sums add up to one of different groups of the same rows."""
        alike = not self.of or not other.of or self.of == other.of
        return alike and not self.seen & other.seen


def as_they_lie(matrices: Any) -> tuple[Any, list[int]] | None:
    """Matrices [groups, ., .] before they were turned, and the order of axes that turns them.

    None of those that are worked out, as weights in blocks are.
    """
    order = list(range(len(shape_of(matrices))))
    while (op := made_by(matrices, "transpose")) is not None:
        order = [integers(op, "permutation")[axis] for axis in order]
        matrices = op.operands[0]
    root = matrices
    while maker(root) in _KEPT:
        root = root.owner.operation.operands[0]
    is_source = not maker(root) or maker(root) in _SOURCES
    return (matrices, order) if is_source and order[0] == 0 else None


def _of_group(value: Any) -> _Part | None:
    """The product of one group's rows alone, all others as zeros."""
    op = made_by(value, "dot_general")
    if op is None or axes_of(op) != [([], [0], [1]), ([], [1], [0])]:
        return None
    masked, matrix = op.operands
    chosen = made_by(masked, "select")
    cut = made_by(unshaped(matrix), "slice")
    if chosen is None or cut is None or splat(chosen.operands[2]) != 0.0:
        return None
    begin, end, steps = (
        integers(cut, name) for name in ("start_indices", "limit_indices", "strides")
    )
    matrices = cut.operands[0]
    count, *sizes = (size or 0 for size in shape_of(matrices))
    number = begin[0]
    if begin[1:] != [0] * len(sizes) or end != [number + 1, *sizes] or set(steps) != {1}:
        return None
    if tuple(sizes) != shape_of(matrix) or not count:
        return None
    test = _along(chosen.operands[0], 0)
    compared = None if test is None else _compared(test, lambda value: splat(value) == number)
    if compared is None or compared[0] != "EQ" or len(shape_of(test)) != 1:
        return None
    of = (chosen.operands[1], matrices, unshaped(compared[1]))
    return _Part(of=of, seen=1 << number, product=op)


def _summed(op: Any) -> GroupedProduct | None:
    """A product that sums over groups, too, of rows that are repeated for each and masked."""
    axes = axes_of(op)
    if [(batch, own) for batch, own, _ in axes] != [([], [1]), ([], [2])]:
        return None
    if dict(zip(axes[0][2], axes[1][2], strict=True)) != {0: 0, 2: 1}:
        return None
    masked, matrices = op.operands
    chosen = made_by(masked, "select")
    if chosen is None or splat(chosen.operands[2]) != 0.0:
        return None
    repeated = made_by(chosen.operands[1], "broadcast_in_dim")
    if repeated is None or integers(repeated, "broadcast_dimensions") != [1, 2]:
        return None
    rows = repeated.operands[0]
    both = made_by(chosen.operands[0], "and")
    if shape_of(rows) != shape_of(masked)[1:] or both is None:
        return None
    bounds = {}
    for test in both.operands:
        compared = _compared(test, lambda value: _counts(value, 1))
        if compared is not None:
            bounds[compared[0]] = _along(compared[1], 0)
    ends, starts = bounds.get("GT"), bounds.get("LE")
    if ends is None or starts is None or not _follow(starts, ends):
        return None
    return GroupedProduct(
        rows=rows,
        matrices=matrices,
        groups=ends,
        by_ends=True,
        value=op.results[0],
        product=op,
    )


def _follow(starts: Any, ends: Any) -> bool:
    """Whether each group starts where the one before it ends, the first one at 0."""
    joined = made_by(starts, "concatenate")
    if joined is None or len(joined.operands) != 2 or shape_of(joined.operands[0]) != (1,):
        return False
    first, others = joined.operands
    part = made_by(first, "slice")
    if splat(first if part is None else part.operands[0]) != 0.0:
        return False
    cut = made_by(unshaped(others), "slice")
    if cut is None or integers(cut, "start_indices") != [0] or integers(cut, "strides") != [1]:
        return False
    return bool(unshaped(cut.operands[0]) == ends)


def _compared(test: Any, is_other: Any) -> tuple[str, Any] | None:
    """How a value compares with another that is meant, and the value: `value direction other`."""
    op = made_by(test, "compare")
    if op is None:
        return None
    left, right = op.operands
    if is_other(right):
        return direction(op), left
    return (_TURNED[direction(op)], right) if is_other(left) else None


def _along(value: Any, axis: int) -> Any | None:
    """The vector that a value repeats along all axes but one; None where it is not so."""
    size = shape_of(value)[axis]
    while math.prod(each or 0 for each in shape_of(value)) != size:
        op = made_by(value, "broadcast_in_dim")
        if op is None:
            return None
        source = op.operands[0]
        places = integers(op, "broadcast_dimensions")
        if axis not in places or shape_of(source)[places.index(axis)] != size:
            return None
        value, axis = source, places.index(axis)
    return unshaped(value)


def _counts(value: Any, axis: int) -> bool:
    """Whether the numbers of a value are their places along an axis."""
    if maker(value) in ("stablehlo.iota", "stablehlo.dynamic_iota"):
        return integers(value.owner.operation, "iota_dimension") == [axis]
    inner = _inner(value, axis)
    return inner is not None and _counts(*inner)


def _inner(value: Any, axis: int) -> tuple[Any, int] | None:
    """What a broadcast or a reshape repeats along other axes, and its axis; None of others."""
    op = made_by(value, "broadcast_in_dim") or made_by(value, "reshape")
    if op is None:
        return None
    source, size = op.operands[0], shape_of(value)[axis]
    if op.name == "stablehlo.broadcast_in_dim":
        places = integers(op, "broadcast_dimensions")
        at = places.index(axis) if axis in places else None
    else:
        whole = math.prod(each or 0 for each in shape_of(value)) == size
        at = shape_of(source).index(size) if whole and size in shape_of(source) else None
    return (source, at) if at is not None and shape_of(source)[at] == size else None


def _ascends(value: Any, axis: int) -> bool:
    """Whether no number of a value is less than one before it along an axis."""
    if axis not in varying_axes(value) or _counts(value, axis):
        return True
    inner = _inner(value, axis)
    if inner is not None:
        return _ascends(*inner)
    name = maker(value)
    if name == "stablehlo.convert":
        source = value.owner.operation.operands[0]
        return str(source.type.element_type) == "i1" and _ascends(source, axis)
    if name == "stablehlo.reduce":
        op = value.owner.operation
        summed = integers(op, "dimensions")
        kept = [each for each in range(len(shape_of(op.operands[0]))) if each not in summed]
        return adds_up(op) and len(op.results) == 1 and _ascends(op.operands[0], kept[axis])
    if name == "stablehlo.compare":
        op = value.owner.operation
        left, right = op.operands
        low, high = (right, left) if direction(op) in ("GE", "GT") else (left, right)
        ordered = direction(op) not in ("EQ", "NE")
        return ordered and axis not in varying_axes(low) and _ascends(high, axis)
    return False
