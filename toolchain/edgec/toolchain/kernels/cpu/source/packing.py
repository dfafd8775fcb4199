"""Weights as they lie in memory to the panels that a kernel reads: a kernel of copies.

A piece of work is one vector of outputs, and elements that it sums in the order in which they lie:
the memory is read in as many streams as a vector has lanes, and written whole lines at a time. A
module imported only by a pass that runs; it needs the compiler.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from iree.compiler import ir
from iree.compiler.dialects import arith, memref, vector

from edgec.toolchain.kernels.cpu.source.built import build, index, indices_of, loop, share
from edgec.toolchain.kernels.cpu.source.workgroups import workgroups

__all__ = ["Inner", "Packing"]


@dataclass(frozen=True, kw_only=True)
class Inner:
    """A part of what an output sums.

    Attributes:
        size: how many elements.
        step: from one to the next in memory.
        row: from one to the next in a panel, in rows.
        is_turned: whether the panel has them back to front.
    """

    size: int
    step: int
    row: int
    is_turned: bool = False


@dataclass(frozen=True, kw_only=True)
class Packing:
    """Panels x what an output sums x outputs of a panel.

    Attributes:
        size: of the memory that the weights lie in.
        start: where the first lies.
        inner: what an output sums.
        own: step from output to output in memory.
        starts: the first output of each panel.
        panel: outputs of a panel.
        lanes: elements of a vector, of which a panel is a multiple.
    """

    size: int
    start: int
    inner: tuple[Inner, ...]
    own: int
    starts: tuple[int, ...]
    panel: int
    lanes: int

    @property
    def rows(self) -> int:
        """How much an output sums."""
        return math.prod(part.size for part in self.inner)

    @cached_property
    def runs(self) -> list[tuple[int, int, int]]:
        """Panels that follow each other evenly: the first, how many, and the step in outputs."""
        found: list[tuple[int, int, int]] = []
        for number, start in enumerate(self.starts):
            if found:
                first, count, step = found[-1]
                gap = start - self.starts[number - 1]
                if count == 1 or gap == step:
                    found[-1] = (first, count + 1, gap)
                    continue
            found.append((number, 1, 0))
        return found

    def text(self, name: str) -> str:
        """The kernel; its bindings are the memory and the panels."""
        result = len(self.starts) * self.rows * self.panel
        groups = workgroups(0.0, 8 * result)
        return build(
            name,
            (groups, 1, 1),
            [[self.size], [result]],
            lambda memories, workgroup: self._body(memories, groups, workgroup[0]),
        )

    def _body(self, memories: list[Any], groups: int, workgroup: Any) -> None:
        strips = self.panel // self.lanes
        # The order of the memory: what has the smallest step is innermost.
        inner = sorted(self.inner, key=lambda part: -part.step)
        for first, count, step in self.runs:
            low, high = share(count * strips * self.rows, groups, workgroup)
            begin = self.start + self.starts[first] * self.own

            def copy(
                at: Any, _: list[Any], first: int = first, step: int = step, begin: int = begin
            ) -> list[Any]:
                where, rest = indices_of(at, [0, self.rows])
                panel, strip = indices_of(where, [0, strips])
                source = _sum(begin, (panel, step * self.own), (strip, self.lanes * self.own))
                row = arith.muli(arith.addi(panel, index(first)), index(self.rows))
                for part, each in zip(
                    inner, indices_of(rest, [part.size for part in inner]), strict=True
                ):
                    source = arith.addi(source, arith.muli(each, index(part.step)))
                    place = each
                    if part.is_turned:
                        place = arith.subi(index(part.size - 1), each)
                    row = arith.addi(row, arith.muli(place, index(part.row)))
                near = _sum(0, (row, self.panel), (strip, self.lanes))
                vector.store(self._vector(memories[0], source), memories[1], [near])
                return []

            loop(low, high, index(1), [], copy)

    def _vector(self, memory: Any, source: Any) -> Any:
        kind = ir.VectorType.get([self.lanes], ir.F32Type.get())
        if self.own == 1:
            return vector.load(kind, memory, [source])
        places = [arith.addi(source, index(lane * self.own)) for lane in range(self.lanes)]
        return vector.from_elements(kind, [memref.load(memory, [place]) for place in places])


def _sum(start: int, *steps: tuple[Any, int]) -> Any:
    place = index(start)
    for number, step in steps:
        place = arith.addi(place, arith.muli(number, index(step)))
    return place
