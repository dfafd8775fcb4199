"""Images with an edge around them, from one or from several that lie side by side: one kernel.

What is written is written once, in the order of memory, by rows of the result.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from edgec.toolchain.kernels.cpu.source.body import Body
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit
from edgec.toolchain.kernels.cpu.source.workgroups import even, workgroups
from edgec.toolchain.kernels.cpu.source.writer import Writer

__all__ = ["Padding", "pad_kernel"]

_FLOAT = 4  # bytes
_WRITTEN_OUT = 8  # vectors; more are a loop


@dataclass(frozen=True, kw_only=True)
class Padding:
    """Images of height x width pixels that get an edge.

    Attributes:
        batch: how many images there are.
        height, width: of each, before.
        parts: numbers of a pixel, by where they come from.
        pad: rows above and below, columns left and right.
        edge: what these are filled with.
    """

    batch: int
    height: int
    width: int
    parts: tuple[int, ...]
    pad: tuple[tuple[int, int], tuple[int, int]]
    edge: float

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """What is written: batch, height, width, numbers of a pixel."""
        (top, bottom), (left, right) = self.pad
        wide = left + self.width + right
        return (self.batch, top + self.height + bottom, wide, sum(self.parts))


def pad_kernel(name: str, padding: Padding, unit: VectorUnit) -> str:
    """The text of the kernel; its bindings are the parts and the result."""
    batch, high, _, _ = padding.sizes
    pixels, size = batch * padding.height * padding.width, math.prod(padding.sizes)
    read = [pixels * part for part in padding.parts]
    split = even(batch * high, workgroups(0, _FLOAT * (sum(read) + size)))
    writer = Writer(name=name, workgroups=(split, 1, 1), sizes=[*read, size])
    body = Body(writer, fused=unit.fused)
    body.lines += writer.share("row", "%wx", batch * high, split)
    kernel = _Kernel(padding=padding, unit=unit, b=body)
    body.loop("%row_from", "%row_to", 1, kernel.row)
    return writer.text(body.lines)


@dataclass(frozen=True, kw_only=True)
class _Kernel:
    padding: Padding
    unit: VectorUnit
    b: Body

    def row(self, number: str) -> None:
        """A row of the result, which is one of an image between two edges, or an edge."""
        b, padding = self.b, self.padding
        (top, bottom), _ = padding.pad
        _, high, wide, deep = padding.sizes
        place = b.times(number, wide * deep)
        image = b.value(f"arith.divui {number}, {b.index(high)}", "index")
        y = b.value(f"arith.remui {number}, {b.index(high)}", "index")
        y = b.less(y, top) if top else y  # of a row above, a number beyond all
        source = b.place(y, (image, padding.height))
        if not (top or bottom):
            self.inside(source, place)
            return
        inside = b.value(f"arith.cmpi ult, {y}, {b.index(padding.height)}", "index")
        b.lines.append(f"scf.if {inside} {{")
        self.inside(source, place)
        b.lines.append("} else {")
        self.fill(place, wide * deep)
        b.lines.append("}")

    def inside(self, row: str, place: str) -> None:
        """The edge's columns and, between them, a row of each part."""
        b, padding = self.b, self.padding
        _, (left, right) = padding.pad
        width, deep = padding.width, sum(padding.parts)
        self.fill(place, left * deep)
        near = b.plus(place, left * deep)
        if len(padding.parts) == 1:
            self.copy(0, b.times(row, width * deep), near, width * deep)
        else:
            first = b.times(row, width)
            b.loop(0, width, 1, lambda x: self.pixel(b.plus(first, x), b.place(near, (x, deep))))
        self.fill(b.plus(near, width * deep), right * deep)

    def pixel(self, number: str, place: str) -> None:
        """What each part has of a pixel, side by side."""
        done = 0
        for part, count in enumerate(self.padding.parts):
            self.copy(part, self.b.times(number, count), self.b.plus(place, done), count)
            done += count

    def fill(self, place: str, count: int) -> None:
        """So many numbers of the edge."""
        if count:
            kind = self.kind(count)
            edge = self.b.number(self.padding.edge, kind)
            self.span(count, lambda at: self.store(edge, self.b.plus(place, at), kind))

    def copy(self, part: int, source: str, place: str, count: int) -> None:
        """So many numbers of a part."""
        b, kind, of = self.b, self.kind(count), self.b.writer.memory(part)

        def one(at: str) -> None:
            self.store(b.load(f"%m{part}", b.plus(source, at), of, kind), b.plus(place, at), kind)

        self.span(count, one)

    def span(self, count: int, one: Callable[[str], None]) -> None:
        """Neighbours in vectors of one length; the last one reaches back over the one before."""
        lanes = self.lanes(count)
        if count // lanes <= _WRITTEN_OUT:
            for vector in range(count // lanes):
                one(self.b.index(vector * lanes))
        else:
            self.b.loop(0, count - count % lanes, lanes, one)
        if count % lanes:
            one(self.b.index(count - lanes))

    def lanes(self, count: int) -> int:
        lanes = self.unit.lanes
        while lanes > count:
            lanes //= 2
        return lanes

    def kind(self, count: int) -> str:
        return f"vector<{self.lanes(count)}xf32>"

    def store(self, value: str, place: str, kind: str) -> None:
        result = len(self.padding.parts)
        self.b.store(value, f"%m{result}", place, self.b.writer.memory(result), kind)
