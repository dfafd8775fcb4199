"""Norms as kernels that read each row from memory once, however its elements lie.

`RowNorm`: a row is one piece of memory. The first walk sums it, the second sums squares of what
differs from the mean, the third writes the result; after the first the row is in a cache.
`ColumnNorm`: rows lie side by side, and some of them are done at a time, one lane each; or a few
lanes each, for groups of channels where the channels are last.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir
from iree.compiler.dialects import arith, memref, vector
from iree.compiler.dialects import math as functions

from edgec.toolchain.kernels.cpu.source.built import (
    build,
    index,
    indices_of,
    loop,
    number,
    share,
)

__all__ = ["Axes", "ColumnNorm", "NormKernel", "RowNorm"]

_ELEMENTS_OF_A_WORKGROUP = 16384
_MOST_WORKGROUPS = 64
_MOST_SUMS = 4
"""Vectors that are summed side by side, to hide the latency of an addition."""

Axes = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class NormKernel(ABC):
    """What all norms' kernels know.

    Attributes:
        sizes: the tensor's axes.
        outer: how many axes come before those that a row has elements along.
        count: how many elements a row has.
        epsilon: what is added to the variance.
        mean: whether the mean is subtracted; otherwise it is a norm by the mean of squares.
        scale, shift: the axes along which there are factors and summands; None for none.
        lanes: elements of a vector.
        fused: whether multiply and add are one instruction.
    """

    sizes: Axes
    outer: int
    count: int
    epsilon: float
    mean: bool
    scale: Axes | None
    shift: Axes | None
    lanes: int
    fused: bool

    def text(self, name: str) -> str:
        """The kernel; its bindings are the tensor, scale and shift where given, and the result."""
        columns = [axes for axes in (self.scale, self.shift) if axes is not None]
        shapes = [[self.sizes[axis] for axis in axes] for axes in columns]
        groups = max(
            1,
            min(self.jobs, _MOST_WORKGROUPS, math.prod(self.sizes) // _ELEMENTS_OF_A_WORKGROUP),
        )

        def body(memories: list[Any], workgroup: list[Any]) -> None:
            low, high = share(self.jobs, groups, workgroup[0])
            scratch = self.scratch()

            def job(place: Any, _: list[Any]) -> list[Any]:
                self.normalise(place, memories, scratch)
                return []

            loop(low, high, index(1), [], job)

        return build(name, (groups, 1, 1), [self.sizes, *shapes, self.sizes], body)

    @property
    @abstractmethod
    def jobs(self) -> int:
        """How many pieces of work can be given to different workgroups."""

    @abstractmethod
    def normalise(self, job: Any, memories: list[Any], scratch: Any) -> None:
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

    def multiply_add(self, a: Any, b: Any, c: Any) -> Any:
        """`a * b + c`."""
        return vector.fma(a, b, c) if self.fused else arith.addf(arith.mulf(a, b), c)

    def deviation(self, squares: Any) -> Any:
        """What a row is multiplied with, of its sum of squares."""
        variance = self.averaged(squares)
        root = functions.sqrt(arith.addf(variance, number(self.epsilon, squares.type)))
        return arith.divf(number(1.0, squares.type), root)

    def averaged(self, total: Any) -> Any:
        """A row's mean, of its sum."""
        return arith.divf(total, number(self.count, total.type))

    def column(self, memory: Any, axes: Axes, at: Sequence[Any]) -> Any:
        """Factors or summands of a vector that begins at these indices."""
        own = [at[axis] for axis in axes]
        if len(self.sizes) - 1 in axes:
            return vector.load(self.kind, memory, own)
        return self.wide(memref.load(memory, own))

    def finish(self, memories: list[Any], at: list[Any], mean: Any, factor: Any) -> None:
        """Write a vector's result."""
        value = vector.load(self.kind, memories[0], at)
        if mean is not None:
            value = arith.subf(value, mean)
        value = arith.mulf(value, factor)
        left = iter(memories[1:])
        if self.scale is not None:
            value = arith.mulf(value, self.column(next(left), self.scale, at))
        if self.shift is not None:
            value = arith.addf(value, self.column(next(left), self.shift, at))
        vector.store(value, memories[-1], at)


@dataclass(frozen=True, kw_only=True)
class RowNorm(NormKernel):
    """All axes from `outer` on make a row; the last one is as long as a vector, or longer."""

    @property
    def jobs(self) -> int:
        """Rows."""
        return math.prod(self.sizes[: self.outer])

    @property
    def sums(self) -> int:
        """Vectors of a turn."""
        whole = self.sizes[-1] // self.lanes
        return next(n for n in range(_MOST_SUMS, 0, -1) if whole % n == 0)

    def normalise(self, job: Any, memories: list[Any], scratch: Any) -> None:
        """Sum a row, sum its squares, write it."""
        first = indices_of(job, self.sizes[: self.outer])
        mean = None
        if self.mean:
            total = self.total(first, memories[0], lambda value, sum_: arith.addf(sum_, value))
            mean = self.wide(self.averaged(total))

        def squared(value: Any, sum_: Any) -> Any:
            return self.multiply_add(value, value, sum_)

        factor = self.wide(self.deviation(self.total(first, memories[0], squared, mean)))

        def write(at: list[Any], _: bool, carried: list[Any]) -> list[Any]:
            self.finish(memories, at, mean, factor)
            return carried

        self.walk(first, [], write)

    def total(
        self, first: list[Any], memory: Any, step: Callable[[Any, Any], Any], mean: Any = None
    ) -> Any:
        """A row's elements, less their mean, gathered by `step` and summed."""
        kept = self.sizes[-1] % self.lanes
        flags = ", ".join(str(i >= self.lanes - kept).lower() for i in range(self.lanes))
        kind = ir.VectorType.get([self.lanes], ir.IntegerType.get_signless(1))
        mask = arith.constant(kind, ir.Attribute.parse(f"dense<[{flags}]> : {kind}"))
        zero = self.wide(number(0.0))

        def add(at: list[Any], again: bool, carried: list[Any]) -> list[Any]:
            value = vector.load(self.kind, memory, at)
            if mean is not None:
                value = arith.subf(value, mean)
            if again:
                value = arith.select(mask, value, zero)
            return [*carried[1:], step(value, carried[0])]

        sums = self.walk(first, [zero] * self.sums, add)
        total = sums[0]
        for each in sums[1:]:
            total = arith.addf(total, each)
        return vector.reduction(ir.F32Type.get(), vector.CombiningKind.ADD, total)

    def walk(
        self,
        at: list[Any],
        carried: list[Any],
        step: Callable[[list[Any], bool, list[Any]], list[Any]],
    ) -> list[Any]:
        """Take each vector of a row; the last one of an axis may have elements of the one before.

        Args:
            at: the indices so far.
            carried: what goes from step to step.
            step: takes the indices, whether elements come again, and what is carried.
        """
        axis = len(at)
        size = self.sizes[axis]
        if axis < len(self.sizes) - 1:
            return loop(
                index(0),
                index(size),
                index(1),
                carried,
                lambda i, inner: self.walk([*at, i], inner, step),
            )

        def turn(start: Any, inner: list[Any]) -> list[Any]:
            for i in range(self.sums):
                inner = step([*at, arith.addi(start, index(i * self.lanes))], False, inner)
            return inner

        whole = size - size % self.lanes
        carried = loop(index(0), index(whole), index(self.sums * self.lanes), carried, turn)
        return step([*at, index(size - self.lanes)], True, carried) if whole < size else carried


@dataclass(frozen=True, kw_only=True)
class ColumnNorm(NormKernel):
    """Rows go along the axes from `outer` to the one before the last, and a part of the last.

    Attributes:
        part: how many neighbours along the last axis are of one row.
        vectors: how many vectors are done at a time; whole rows, side by side.
    """

    part: int
    vectors: int

    @property
    def width(self) -> int:
        """Elements of a piece along the last axis."""
        return self.vectors * self.lanes

    @property
    def pieces(self) -> int:
        """Along the last axis; the last one may have some of the one before."""
        return -(-self.sizes[-1] // self.width)

    @property
    def jobs(self) -> int:
        """Pieces of all."""
        return math.prod(self.sizes[: self.outer]) * self.pieces

    def normalise(self, job: Any, memories: list[Any], scratch: Any) -> None:
        """Sum rows, sum their squares, write them."""
        *first, piece = indices_of(job, (*self.sizes[: self.outer], self.pieces))
        start = arith.minui(
            arith.muli(piece, index(self.width)), index(self.sizes[-1] - self.width)
        )
        zeros = [self.wide(number(0.0))] * self.vectors
        means = None
        if self.mean:

            def added(at: list[Any], i: int, sum_: Any) -> Any:
                return arith.addf(sum_, vector.load(self.kind, memories[0], at))

            totals = self.walk(first, start, zeros, added)
            means = self.of_rows(totals, self.averaged, scratch)

        def squared(at: list[Any], i: int, sum_: Any) -> Any:
            value = vector.load(self.kind, memories[0], at)
            if means is not None:
                value = arith.subf(value, means[i])
            return self.multiply_add(value, value, sum_)

        factors = self.of_rows(self.walk(first, start, zeros, squared), self.deviation, scratch)

        def write(at: list[Any], i: int, _: Any) -> Any:
            self.finish(memories, at, None if means is None else means[i], factors[i])

        self.walk(first, start, [], write)

    def scratch(self) -> Any:
        """A row's number for each lane."""
        kind = ir.MemRefType.get([self.width], ir.F32Type.get())
        return memref.alloca(kind, [], [], alignment=64) if self.part > 1 else None

    def of_rows(self, totals: list[Any], step: Callable[[Any], Any], lanes: Any) -> list[Any]:
        """For each lane, what `step` makes of the sum over its row's lanes."""
        if self.part == 1:
            return [step(total) for total in totals]
        for i, total in enumerate(totals):
            vector.store(total, lanes, [index(i * self.lanes)])

        def row(at: Any, _: list[Any]) -> list[Any]:
            end = arith.addi(at, index(self.part))

            def add(lane: Any, inner: list[Any]) -> list[Any]:
                return [arith.addf(inner[0], memref.load(lanes, [lane]))]

            (total,) = loop(at, end, index(1), [number(0.0)], add)
            value = step(total)

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
    ) -> list[Any]:
        """Take each vector of the rows; nothing is carried where `carried` is empty."""
        axis = len(at)
        if axis < len(self.sizes) - 1:
            return loop(
                index(0),
                index(self.sizes[axis]),
                index(1),
                carried,
                lambda i, inner: self.walk([*at, i], start, inner, step),
            )
        results = []
        for i in range(self.vectors):
            place = [*at, arith.addi(start, index(i * self.lanes))]
            results.append(step(place, i, carried[i] if carried else None))
        return results if carried else []
