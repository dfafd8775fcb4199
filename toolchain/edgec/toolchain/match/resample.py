"""Gathers by tables that are known, and the arithmetic around them, to separable maps.

Frameworks write resizing and adaptive pooling as gathers of single elements with tables of indices
that follow from the sizes alone, and sums of them weighted by tables. The tables are worked out
here, exactly, and an operation after the other is taken into one `Separable` map of what was
gathered from, as far as that goes.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from iree.compiler import ir

from edgec.toolchain.ir.fold import Constants, least
from edgec.toolchain.ir.read import integers, numbers_of, shape_of
from edgec.toolchain.match.description import Array, Description
from edgec.toolchain.match.separable import Separable, identity

__all__ = ["Resample", "find_resamples", "in_order", "tables_of"]

_Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Resample(Description):
    """A value that is a separable map of another.

    Attributes:
        value: what is computed.
        source: from what.
        map: how.
    """

    value: Any
    source: Any
    map: Separable

    @property
    def operands(self) -> tuple[Any, ...]:
        """What is resampled."""
        return (self.source,)

    @property
    def results(self) -> tuple[Any, ...]:
        """What comes of it."""
        return (self.value,)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """The weighted elements, in f64."""
        return (self.map.of(inputs[0]),)


def find_resamples(block: Any, known: Constants) -> list[Resample]:
    """The values of a block that are separable maps of others, and used by what is not one."""
    reading = _Reading(known)
    for each in block.operations:
        reading.visit(each.operation)
    return [
        resample
        for value, resample in reading.found.items()
        if len(resample.map.terms) == 1 and not reading.passes_on(value)
    ]


def in_order(op: Any, known: Constants) -> tuple[Any, int] | None:
    """What a gather takes neighbouring elements from, in order, and the place of the first.

    PyTorch writes views of memory (`as_strided`, in its group norms) as gathers of every element,
    whose indices of two axes change along one.
    """
    if op.name != "stablehlo.gather":
        return None
    operand, indices = op.operands
    sizes = [size or 0 for size in shape_of(operand)]
    numbers = numbers_of(op.attributes["dimension_numbers"])
    starts = numbers.get("start_index_map", [])
    single = all(n == 1 for n in integers(op, "slice_sizes")) and not numbers.get("offset_dims")
    if not single or 0 in sizes or sorted(starts) != list(range(len(sizes))):
        return None
    if not 0 < math.prod(_sizes(op)) <= math.prod(sizes):
        return None
    (vector,) = numbers.get("index_vector_dim", [0])
    components = _components(indices, vector, len(starts), known)
    if components is None:
        return None
    places = np.zeros((), np.int64)
    for axis, size in enumerate(sizes):
        table = components[starts.index(axis)].astype(np.int64)
        places = places * size + np.clip(table, 0, size - 1)
    flat = np.broadcast_to(places, _sizes(op)).reshape(-1)
    straight = bool((flat == flat[0] + np.arange(len(flat))).all())
    return (operand, int(flat[0])) if straight else None


class _Reading:
    """The maps found so far, by value."""

    def __init__(self, known: Constants) -> None:
        self.known = known
        self.found: dict[Any, Resample] = {}
        self.rules: dict[str, Callable[[Any], Resample | None]] = {
            "stablehlo.gather": self._gather,
            "stablehlo.reshape": self._reshape,
            "stablehlo.broadcast_in_dim": self._broadcast,
            "stablehlo.transpose": self._transpose,
            "stablehlo.slice": self._slice,
            "stablehlo.reverse": self._reverse,
            "stablehlo.pad": self._pad,
            "stablehlo.concatenate": self._concatenate,
            "stablehlo.multiply": self._multiply,
            "stablehlo.divide": self._divide,
            "stablehlo.negate": self._negate,
            "stablehlo.add": self._add,
            "stablehlo.subtract": self._subtract,
            "stablehlo.select": self._select,
            "stablehlo.reduce": self._reduce,
        }

    def visit(self, op: Any) -> None:
        """Take an operation into the map of what it reads, or begin one."""
        rule = self.rules.get(op.name)
        if rule is None or len(op.results) != 1:
            return
        if op.name != "stablehlo.gather" and not any(v in self.found for v in op.operands):
            return
        values = [*op.operands, *op.results]
        if any(None in shape_of(v) or 0 in shape_of(v) for v in values):
            return
        resample = rule(op)
        if resample is not None:
            self.found[op.results[0]] = resample

    def passes_on(self, value: Any) -> bool:
        """Whether a value is only read by what was taken into a map of the same source."""
        source = self.found[value].source
        users = [use.owner for use in value.uses]
        for user in users:
            results = list(user.operation.results)
            taken = self.found.get(results[0]) if len(results) == 1 else None
            if taken is None or taken.source != source:
                return False
        return True

    def _like(self, op: Any, before: Resample, map_: Separable | None) -> Resample | None:
        (value,) = op.results
        if map_ is None:
            return None
        return Resample(value=value, source=before.source, map=map_)

    def _gather(self, op: Any) -> Resample | None:
        operand = op.operands[0]
        if self.known.of(operand) is not None:
            return None  # all of it is known
        tables = tables_of(op, self.known)
        if tables is None:
            return None
        before = self.found.get(operand) or Resample(
            value=operand, source=operand, map=identity([size or 0 for size in shape_of(operand)])
        )
        map_: Separable | None = before.map
        sizes = shape_of(op.results[0])
        # Axis by axis, then apart: each axis of the operand becomes its own axes of the result.
        places: list[tuple[int, ...]] = []
        for axis, (axes, table) in enumerate(tables):
            map_ = map_ and map_.taken(axis, table.reshape(-1))
            places.append(axes)
        if map_ is None:
            return None
        apart = [sizes[axis] or 0 for axes in places for axis in axes]
        map_ = map_.reshaped(apart)
        if map_ is None:
            return None
        order = [axis for axes in places for axis in axes]
        return self._like(op, before, map_.spread([size or 0 for size in sizes], order))

    def _reshape(self, op: Any) -> Resample | None:
        before = self.found[op.operands[0]]
        return self._like(op, before, before.map.reshaped(_sizes(op)))

    def _broadcast(self, op: Any) -> Resample | None:
        before = self.found[op.operands[0]]
        places = integers(op, "broadcast_dimensions")
        return self._like(op, before, before.map.spread(_sizes(op), places))

    def _transpose(self, op: Any) -> Resample | None:
        before = self.found[op.operands[0]]
        return self._like(op, before, before.map.transposed(integers(op, "permutation")))

    def _slice(self, op: Any) -> Resample | None:
        before = self.found[op.operands[0]]
        starts, limits = integers(op, "start_indices"), integers(op, "limit_indices")
        strides = integers(op, "strides", [1] * len(starts))
        map_: Separable | None = before.map
        for axis, bounds in enumerate(zip(starts, limits, strides, strict=True)):
            map_ = map_ and map_.taken(axis, np.arange(*bounds))
        return self._like(op, before, map_)

    def _reverse(self, op: Any) -> Resample | None:
        before = self.found[op.operands[0]]
        map_: Separable | None = before.map
        for axis in integers(op, "dimensions"):
            map_ = map_ and map_.taken(axis, np.arange(before.map.sizes[axis])[::-1])
        return self._like(op, before, map_)

    def _pad(self, op: Any) -> Resample | None:
        before = self.found.get(op.operands[0])
        if before is None or self.known.number(op.operands[1]) != 0:
            return None
        low, high = integers(op, "edge_padding_low"), integers(op, "edge_padding_high")
        between = integers(op, "interior_padding")
        map_: Separable | None = before.map
        for axis, widths in enumerate(zip(low, high, between, strict=True)):
            map_ = map_ and map_.padded(axis, *widths)
        return self._like(op, before, map_)

    def _concatenate(self, op: Any) -> Resample | None:
        parts = [self.found.get(v) for v in op.operands]
        known = [part for part in parts if part is not None]
        if len(known) != len(parts) or len({part.source for part in known}) != 1:
            return None
        first, *others = known
        (axis,) = integers(op, "dimension")
        return self._like(op, first, first.map.joined([part.map for part in others], axis))

    def _scaled(self, op: Any, value: Any, factors: _Array | None) -> Resample | None:
        before = self.found.get(value)
        if before is None or factors is None:
            return None
        return self._like(op, before, before.map.scaled(factors))

    def _multiply(self, op: Any) -> Resample | None:
        left, right = op.operands
        if right in self.found:
            left, right = right, left
        return self._scaled(op, left, self.known.of(right))

    def _divide(self, op: Any) -> Resample | None:
        factors = self.known.of(op.operands[1])
        if factors is None:
            return None
        few = least(factors)
        if not few.all():
            return None
        inverse = np.broadcast_to(1.0 / few.astype(np.float64), factors.shape)
        return self._scaled(op, op.operands[0], inverse)

    def _negate(self, op: Any) -> Resample | None:
        sizes = _sizes(op)
        return self._scaled(op, op.operands[0], np.broadcast_to(np.array(-1.0), sizes))

    def _add(self, op: Any) -> Resample | None:
        return self._sum(op, 1.0)

    def _subtract(self, op: Any) -> Resample | None:
        return self._sum(op, -1.0)

    def _sum(self, op: Any, sign: float) -> Resample | None:
        left, right = (self.found.get(v) for v in op.operands)
        if left is None or right is None or left.source != right.source:
            return None
        return self._like(op, left, left.map.plus(right.map, sign))

    def _select(self, op: Any) -> Resample | None:
        """Zeros in some places: a product by zeros and ones."""
        test, then, otherwise = op.operands
        mask = self.known.of(test)
        if mask is None:
            return None
        mask = np.broadcast_to(mask, _sizes(op)) if not mask.ndim else mask
        if self.known.number(then) == 0:
            few = least(mask)
            return self._scaled(op, otherwise, np.broadcast_to(~few, mask.shape))
        return self._scaled(op, then, mask) if self.known.number(otherwise) == 0 else None

    def _reduce(self, op: Any) -> Resample | None:
        if len(op.operands) != 2 or op.operands[0] not in self.found:
            return None
        inner = [each.operation.name for each in op.regions[0].blocks[0].operations]
        if inner != ["stablehlo.add", "stablehlo.return"] or self.known.number(op.operands[1]) != 0:
            return None
        before = self.found[op.operands[0]]
        return self._like(op, before, before.map.summed(integers(op, "dimensions")))


def _sizes(op: Any) -> list[int]:
    return [size or 0 for size in shape_of(op.results[0])]


def tables_of(op: Any, known: Constants) -> list[tuple[tuple[int, ...], _Array]] | None:
    """For each axis of what is gathered from: the axes of the result along which its index changes,
    in order, and the index over these; None where one axis of the result moves two indices."""
    operand, indices = op.operands
    numbers = numbers_of(op.attributes["dimension_numbers"])
    if numbers.get("operand_batching_dims"):
        return None
    (vector,) = numbers.get("index_vector_dim", [0])
    starts = numbers.get("start_index_map", [])
    offsets, collapsed = numbers.get("offset_dims", []), numbers.get("collapsed_slice_dims", [])
    rank = len(_sizes(op))
    batch = [axis for axis in range(rank) if axis not in offsets]
    components = _components(indices, vector, len(starts), known)
    if components is None:
        return None
    slices = integers(op, "slice_sizes")
    sizes = [size or 0 for size in shape_of(operand)]
    kept = [axis for axis in range(len(sizes)) if axis not in collapsed]
    tables: list[tuple[tuple[int, ...], _Array]] = []
    used: set[int] = set()
    for axis, (size, part) in enumerate(zip(sizes, slices, strict=True)):
        table = np.zeros([1] * len(batch), np.int64)
        if axis in starts:
            table = np.clip(components[starts.index(axis)].astype(np.int64), 0, size - part)
        table, axes = _varying(table, batch)
        if axis in kept:
            axes = [*axes, offsets[kept.index(axis)]]
            table = table[..., None] + np.arange(part)
        if used & set(axes):
            return None
        used |= set(axes)
        tables.append((tuple(axes), table))
    return tables


def _components(indices: Any, vector: int, count: int, known: Constants) -> list[_Array] | None:
    """The indices apart: one table for each axis that they are for."""
    rank = len(shape_of(indices))
    made = None if isinstance(indices.owner, ir.Block) else indices.owner.operation
    if vector == rank:
        whole = known.of(indices)
        return None if whole is None else [whole]
    parts: Sequence[Any] = [indices]
    if made is not None and made.name == "stablehlo.concatenate":
        joined = integers(made, "dimension") == [vector]
        parts = list(made.operands) if joined else parts
    tables = []
    for part in parts:
        array = known.of(part)
        if array is None:
            return None
        # Not `take`, which would write out what repeats.
        tables += list(np.moveaxis(array, vector, 0))
    return tables if len(tables) == count else None


def _varying(table: _Array, axes: Sequence[int]) -> tuple[_Array, list[int]]:
    """A table without the axes along which it repeats itself, and the names of those it keeps."""
    few = least(table)
    for axis in range(few.ndim):
        first = few[(slice(None),) * axis + (slice(0, 1),)]
        if few.shape[axis] > 1 and bool((few == first).all()):
            few = first
    kept = [axis for axis, size in enumerate(few.shape) if size > 1]
    return few.reshape([few.shape[axis] for axis in kept]), [axes[axis] for axis in kept]
