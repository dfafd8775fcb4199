"""Kernels that read each row from memory once: what is computed, and what all of them know.

What is computed of a row is a `Formula`: numbers gathered over all of it, one after the other
(its mean, then its sum of squares), and then each element's result. After the first walk the row
is in a cache. How a row's elements lie is the kernel's: `ByRow`, `ByColumn`.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir
from iree.compiler.dialects import memref, vector

from edgec.toolchain.kernels.cpu.source.built import build, index, loop, share
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit

__all__ = ["Axes", "Formula", "Gather", "RowsKernel", "lanes_of"]

_ELEMENTS_OF_A_WORKGROUP = 16384
_MOST_WORKGROUPS = 64
_LEAST_LANES = 4

Axes = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Gather:
    """A number of a row, gathered over its elements.

    Attributes:
        start: of nothing.
        add: what an element, what there is, and the row's numbers so far make.
        join: what two parts make; `kind` is the same for the lanes of a vector.
        of: what is kept of the whole.
    """

    start: float
    add: Callable[[Any, Any, Sequence[Any]], Any]
    join: Callable[[Any, Any], Any]
    kind: Any
    of: Callable[[Any], Any]


class Formula(ABC):
    """What is computed of each row."""

    @property
    def columns(self) -> Sequence[Axes]:
        """For each further tensor that is read, the axes that it runs along."""
        return ()

    @property
    @abstractmethod
    def gathers(self) -> Sequence[Gather]:
        """The numbers of a row, in order; each may rest on those before it."""

    @abstractmethod
    def result(self, value: Any, known: Sequence[Any], columns: Sequence[Any]) -> Any:
        """An element's result, of the row's numbers and what is read from further tensors."""


@dataclass(frozen=True, kw_only=True)
class RowsKernel(ABC):
    """What both kinds of kernels know.

    Attributes:
        formula: what is computed.
        sizes: the tensor's axes.
        outer: how many axes come before those that a row has elements along.
        lanes: elements of a vector.
        kept: which of the formula's numbers are further results: as they were gathered, one a row.
    """

    formula: Formula
    sizes: Axes
    outer: int
    lanes: int
    kept: tuple[int, ...] = ()

    def text(self, name: str) -> str:
        """The kernel; its bindings are the tensor, what else is read, and the results."""
        shapes = [[self.sizes[axis] for axis in axes] for axes in self.formula.columns]
        groups = max(
            1,
            min(self.jobs, _MOST_WORKGROUPS, math.prod(self.sizes) // _ELEMENTS_OF_A_WORKGROUP),
        )

        def body(memories: list[Any], workgroup: list[Any]) -> None:
            low, high = share(self.jobs, groups, workgroup[0])
            scratch = self.scratch()

            def job(place: Any, _: list[Any]) -> list[Any]:
                self.compute(place, memories, scratch)
                return []

            loop(low, high, index(1), [], job)

        results = [self.sizes, *([self.row_sizes] * len(self.kept))]
        return build(name, (groups, 1, 1), [self.sizes, *shapes, *results], body)

    @property
    @abstractmethod
    def row_sizes(self) -> Axes:
        """Sizes of the memory that has a number for each row."""

    @property
    @abstractmethod
    def jobs(self) -> int:
        """How many pieces of work can be given to different workgroups."""

    @abstractmethod
    def compute(self, job: Any, memories: list[Any], scratch: Any) -> None:
        """Write the result of one piece."""

    def scratch(self) -> Any:
        """Memory of a workgroup's own; None if it needs none."""
        return None

    @property
    def kind(self) -> Any:
        """The type of a vector."""
        return ir.VectorType.get([self.lanes], ir.F32Type.get())

    def wide(self, value: Any) -> Any:
        """A number in all lanes."""
        return vector.broadcast(self.kind, value)

    def column(self, memory: Any, axes: Axes, at: Sequence[Any]) -> Any:
        """What a vector that begins at these indices reads of a further tensor."""
        own = [at[axis] for axis in axes]
        if len(self.sizes) - 1 in axes:
            return vector.load(self.kind, memory, own)
        return self.wide(memref.load(memory, own))

    def finish(self, memories: list[Any], at: list[Any], known: Sequence[Any]) -> None:
        """Write a vector's result."""
        value = vector.load(self.kind, memories[0], at)
        count = len(self.formula.columns)
        further = zip(memories[1 : 1 + count], self.formula.columns, strict=True)
        columns = [self.column(memory, axes, at) for memory, axes in further]
        vector.store(self.formula.result(value, known, columns), memories[1 + count], at)

    def memory_of(self, gather: int, memories: list[Any]) -> Any | None:
        """Where one of the formula's numbers goes as a result; None if it is none."""
        if gather not in self.kept:
            return None
        return memories[2 + len(self.formula.columns) + self.kept.index(gather)]


def lanes_of(most: int, unit: VectorUnit) -> int | None:
    """Elements of a vector that has at most so many; None where that is hardly a vector."""
    lanes = unit.lanes
    while lanes > most:
        lanes //= 2
    return lanes if lanes >= _LEAST_LANES else None
