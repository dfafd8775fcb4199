"""Kernels of rows that lie side by side.

Some of them are done at a time, one lane each; or a few lanes each, for groups of channels where
the channels are last. A module imported only by a pass that runs; it needs the compiler.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir
from iree.compiler.dialects import arith, memref, vector

from edgec.toolchain.kernels.cpu.source.built import Sums, index, indices_of, loop, number, parts
from edgec.toolchain.kernels.cpu.source.rows import Axes, Gather, RowsKernel, lanes_of
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit

__all__ = ["ByColumn"]

_LEAST_LANES = 4
_WISHED_VECTORS = 4
_WISHED_JOBS = 8
_SHARE_OF_REGISTERS = 4
"""Of the registers, sums of columns take one part of so many; means and squares need the others."""


@dataclass(frozen=True, kw_only=True)
class ByColumn(RowsKernel):
    """Rows go along the axes from `outer` to the one before the last, and a part of the last.

    Attributes:
        part: how many neighbours along the last axis are of one row.
        vectors: how many vectors are done at a time; whole rows, side by side.
    """

    part: int
    vectors: int

    @classmethod
    def cut(cls, sizes: Axes, outer: int, part: int, unit: VectorUnit) -> tuple[int, int] | None:
        """Elements of a vector and how many are done at a time; None where no few hold whole rows.

        Args:
            sizes: the tensor's axes.
            outer: how many come before those that a row has elements along.
            part: how many neighbours along the last axis are of one row.
            unit: the vector registers of the target.
        """
        found = _whole_rows(sizes[-1], part, unit)
        if found is None:
            return None
        lanes, vectors = found
        more = 1
        while (
            (more + 1) * vectors <= _WISHED_VECTORS
            and (more + 1) * vectors * lanes <= sizes[-1]
            and math.prod(sizes[:outer]) * sizes[-1] >= _WISHED_JOBS * (more + 1) * vectors * lanes
        ):
            more += 1
        return lanes, more * vectors

    @property
    def width(self) -> int:
        """Elements of a piece along the last axis."""
        return self.vectors * self.lanes

    @property
    def pieces(self) -> int:
        """Along the last axis; the last one may have some of the one before."""
        return -(-self.sizes[-1] // self.width)

    @property
    def row_sizes(self) -> Axes:
        """The axes before a row's, and the last; a row has but one of its elements."""
        return (*self.sizes[: self.outer], self.sizes[-1])

    @property
    def jobs(self) -> int:
        """Pieces of all."""
        return math.prod(self.sizes[: self.outer]) * self.pieces

    def compute(self, job: Any, memories: list[Any], scratch: Any) -> None:
        """Gather the numbers of some rows, write them."""
        *first, piece = indices_of(job, (*self.sizes[: self.outer], self.pieces))
        start = arith.minui(
            arith.muli(piece, index(self.width)), index(self.sizes[-1] - self.width)
        )
        known: list[list[Any]] = [[] for _ in range(self.vectors)]
        for place, gather in enumerate(self.formula.gathers):
            nothing = [self.wide(number(gather.start))] * self.vectors

            def add(at: list[Any], i: int, total: Any, gather: Gather = gather) -> Any:
                return gather.add(vector.load(self.kind, memories[0], at), total, known[i])

            sums = Sums(nothing=nothing, join=gather.join)
            totals = self.walk(first, start, nothing, add, sums)
            memory = self.memory_of(place, memories)
            for i, total in enumerate(totals if memory is not None else []):
                vector.store(total, memory, [*first, arith.addi(start, index(i * self.lanes))])
            for i, each in enumerate(self.of_rows(totals, gather, scratch)):
                known[i].append(each)

        def write(at: list[Any], i: int, _: Any) -> Any:
            self.finish(memories, at, known[i])

        self.walk(first, start, [], write)

    def scratch(self) -> Any:
        """A row's number for each lane."""
        kind = ir.MemRefType.get([self.width], ir.F32Type.get())
        return memref.alloca(kind, [], [], alignment=64) if self.part > 1 else None

    def of_rows(self, totals: list[Any], gather: Gather, lanes: Any) -> list[Any]:
        """For each lane, what is kept of what was gathered over its row's lanes."""
        if self.part == 1:
            return [gather.of(total) for total in totals]
        for i, total in enumerate(totals):
            vector.store(total, lanes, [index(i * self.lanes)])

        def row(at: Any, _: list[Any]) -> list[Any]:
            end = arith.addi(at, index(self.part))

            def add(lane: Any, inner: list[Any]) -> list[Any]:
                return [gather.join(inner[0], memref.load(lanes, [lane]))]

            (total,) = loop(at, end, index(1), [number(gather.start)], add)
            value = gather.of(total)

            def keep(lane: Any, _: list[Any]) -> list[Any]:
                memref.store(value, lanes, [lane])
                return []

            loop(at, end, index(1), [], keep)
            return []

        loop(index(0), index(self.width), index(self.part), [], row)
        return [vector.load(self.kind, lanes, [index(i * self.lanes)]) for i in range(len(totals))]

    def walk(
        self,
        at: list[Any],
        start: Any,
        carried: list[Any],
        step: Callable[[list[Any], int, Any], Any],
        sums: Sums | None = None,
    ) -> list[Any]:
        """Take each vector of the rows; nothing is carried where `carried` is empty."""
        axis = len(at)
        if axis < len(self.sizes) - 1:
            return parts(
                self.sizes[axis],
                1,
                carried,
                lambda i, inner: self.walk([*at, i], start, inner, step, sums),
                sums,
            )
        results = []
        for i in range(self.vectors):
            place = [*at, arith.addi(start, index(i * self.lanes))]
            results.append(step(place, i, carried[i] if carried else None))
        return results if carried else []


def _whole_rows(columns: int, part: int, unit: VectorUnit) -> tuple[int, int] | None:
    """Elements of a vector, and how many vectors hold whole rows, as few as can be."""
    lanes = lanes_of(columns, unit)
    while lanes is not None and lanes >= _LEAST_LANES:
        width = math.lcm(part, lanes)
        if width > columns and columns % lanes == 0:
            width = columns
        if width <= columns and width // lanes <= max(1, unit.registers // _SHARE_OF_REGISTERS):
            return lanes, width // lanes
        lanes //= 2
    return None
