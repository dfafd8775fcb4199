"""Kernels of rows that are one piece of memory each.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir
from iree.compiler.dialects import arith, memref, vector

from edgec.toolchain.kernels.cpu.source.built import Sums, index, indices_of, number, parts
from edgec.toolchain.kernels.cpu.source.rows import Axes, Gather, RowsKernel

__all__ = ["ByRow"]

_MOST_SUMS = 4
"""Vectors that are gathered side by side, to hide the latency of an addition."""


@dataclass(frozen=True, kw_only=True)
class ByRow(RowsKernel):
    """All axes from `outer` on make a row; the last one is as long as a vector, or longer."""

    @property
    def jobs(self) -> int:
        """Rows."""
        return math.prod(self.sizes[: self.outer])

    @property
    def row_sizes(self) -> Axes:
        """One axis for all rows."""
        return (self.jobs,)

    @property
    def sums(self) -> int:
        """Vectors of a turn."""
        whole = self.sizes[-1] // self.lanes
        return next(n for n in range(_MOST_SUMS, 0, -1) if whole % n == 0)

    def compute(self, job: Any, memories: list[Any], scratch: Any) -> None:
        """Gather a row's numbers, write it."""
        first = indices_of(job, self.sizes[: self.outer])
        known: list[Any] = []
        for place, gather in enumerate(self.formula.gathers):
            total = self.total(first, memories[0], gather, known)
            memory = self.memory_of(place, memories)
            if memory is not None:
                memref.store(total, memory, [job])
            known.append(self.wide(gather.of(total)))

        def write(at: list[Any], _: bool, carried: list[Any]) -> list[Any]:
            self.finish(memories, at, known)
            return carried

        self.walk(first, [], write)

    def total(self, first: list[Any], memory: Any, gather: Gather, known: Sequence[Any]) -> Any:
        """What is gathered over a row."""
        kept = self.sizes[-1] % self.lanes
        flags = ", ".join(str(i >= self.lanes - kept).lower() for i in range(self.lanes))
        kind = ir.VectorType.get([self.lanes], ir.IntegerType.get_signless(1))
        mask = arith.constant(kind, ir.Attribute.parse(f"dense<[{flags}]> : {kind}"))

        def add(at: list[Any], again: bool, carried: list[Any]) -> list[Any]:
            value = vector.load(self.kind, memory, at)
            total = gather.add(value, carried[0], known)
            if again:
                total = arith.select(mask, total, carried[0])
            return [*carried[1:], total]

        nothing = [self.wide(number(gather.start))] * self.sums
        total, *others = self.walk(first, nothing, add, Sums(nothing=nothing, join=gather.join))
        for other in others:
            total = gather.join(total, other)
        return vector.reduction(ir.F32Type.get(), gather.kind, total)

    def walk(
        self,
        at: list[Any],
        carried: list[Any],
        step: Callable[[list[Any], bool, list[Any]], list[Any]],
        sums: Sums | None = None,
    ) -> list[Any]:
        """Take each vector of a row; the last one of an axis may have elements of the one before.

        Args:
            at: the indices so far.
            carried: what goes from step to step.
            step: takes the indices, whether elements come again, and what is carried.
            sums: what is carried, if it is summed.
        """
        axis = len(at)
        size = self.sizes[axis]
        if axis < len(self.sizes) - 1:
            return parts(
                size, 1, carried, lambda i, inner: self.walk([*at, i], inner, step, sums), sums
            )

        def turn(start: Any, inner: list[Any]) -> list[Any]:
            for i in range(self.sums):
                inner = step([*at, arith.addi(start, index(i * self.lanes))], False, inner)
            return inner

        whole = size - size % self.lanes
        carried = parts(whole, self.sums * self.lanes, carried, turn, sums)
        return step([*at, index(size - self.lanes)], True, carried) if whole < size else carried
