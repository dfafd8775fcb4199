"""Matrices to their transposes, perhaps as images with zeros around them: a kernel of vectors.

Squares are turned in registers. Where a column is shorter than a vector, as three planes of colour
are, vectors of all rows are merged into neighbouring columns instead.
"""

import math
from dataclasses import dataclass

from edgec.toolchain.kernels.cpu.source.body import Body
from edgec.toolchain.kernels.cpu.source.turned import turned
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit
from edgec.toolchain.kernels.cpu.source.workgroups import even, workgroups
from edgec.toolchain.kernels.cpu.source.writer import Writer

__all__ = ["Turn", "turn_kernel", "turns"]

_MOST_MERGED = 4
_NONE = ((0, 0), (0, 0))


@dataclass(frozen=True, kw_only=True)
class Turn:
    """Matrices of rows x (height x width) that become (height x width) x rows.

    Attributes:
        batch: how many there are.
        rows: of each before; after it, neighbours.
        height, width: its columns, as an image's where there is `pad`.
        pad: rows of zeros above and below, and columns left and right, that are written too.
    """

    batch: int
    rows: int
    height: int = 1
    width: int
    pad: tuple[tuple[int, int], tuple[int, int]] = _NONE

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """What is written: batch, height, width, rows."""
        (top, bottom), (left, right) = self.pad
        return (self.batch, top + self.height + bottom, left + self.width + right, self.rows)


def turns(turn: Turn, unit: VectorUnit) -> bool:
    """Whether the kernel does it with vectors of some length."""
    return turn.rows > 1 and _lanes(turn, unit) >= 4


def _lanes(turn: Turn, unit: VectorUnit) -> int:
    most = turn.width if turn.rows <= _MOST_MERGED else min(turn.width, turn.rows)
    lanes = unit.lanes
    while lanes > most:
        lanes //= 2
    return lanes


def turn_kernel(name: str, turn: Turn, unit: VectorUnit) -> str:
    """The text of the kernel; its bindings are the matrices and what they become."""
    lanes = _lanes(turn, unit)
    tiles = turn.height * -(-turn.width // lanes)
    size = turn.batch * turn.rows * turn.height * turn.width
    split = even(tiles, -(-workgroups(0, 8 * size) // turn.batch))
    writer = Writer(
        name=name, workgroups=(split, 1, turn.batch), sizes=[size, math.prod(turn.sizes)]
    )
    body = Body(writer, fused=unit.fused)
    _Kernel(turn=turn, lanes=lanes, b=body).write(tiles, split)
    return writer.text(body.lines)


@dataclass(frozen=True, kw_only=True)
class _Kernel:
    turn: Turn
    lanes: int
    b: Body

    @property
    def kind(self) -> str:
        return f"vector<{self.lanes}xf32>"

    def write(self, tiles: int, split: int) -> None:
        """The whole body: a tile is a vector of columns, through all rows."""
        self.b.lines += self.b.writer.share("tile", "%wx", tiles, split)
        self.b.loop("%tile_from", "%tile_to", 1, self.tile)

    def tile(self, number: str) -> None:
        turn, b = self.turn, self.b
        across = b.index(-(-turn.width // self.lanes))
        y = b.value(f"arith.divui {number}, {across}", "index")
        x = b.value(f"arith.remui {number}, {across}", "index")
        x = b.least(b.times(x, self.lanes), turn.width - self.lanes)
        source = b.place(x, (y, turn.width), ("%wz", turn.rows * turn.height * turn.width))
        (top, _), (left, _) = turn.pad
        _, high, wide, rows = turn.sizes
        place = b.place(
            (top * wide + left) * rows, (x, rows), (y, wide * rows), ("%wz", high * wide * rows)
        )
        if turn.rows <= _MOST_MERGED:
            self.merge(source, place)
        else:
            squares = -(-turn.rows // self.lanes)
            b.loop(0, squares, 1, lambda square: self.square(source, place, square))
        self.border(y, x, place)

    def square(self, source: str, place: str, number: str) -> None:
        """As many rows as columns."""
        turn, b = self.turn, self.b
        row = b.least(b.times(number, self.lanes), turn.rows - self.lanes)
        far = b.place(source, (row, turn.height * turn.width))
        values = [self.load(b.plus(far, i * turn.height * turn.width)) for i in range(self.lanes)]
        near = b.plus(place, row)
        for i, value in enumerate(turned(b, values, self.kind)):
            self.store(value, b.plus(near, i * turn.rows))

    def merge(self, source: str, place: str) -> None:
        """All rows, which are few: each result takes what it needs of one row after the other."""
        turn, b, lanes = self.turn, self.b, self.lanes
        values = [self.load(b.plus(source, i * turn.height * turn.width)) for i in range(turn.rows)]
        for part in range(turn.rows):
            whole = values[0]
            for row in range(1, turn.rows):
                picks = []
                for lane in range(lanes):
                    column, of = divmod(part * lanes + lane, turn.rows)
                    # What an earlier row gave stays in its place; the first gives all it has.
                    kept = column if row == 1 else lane
                    picks.append(lanes + column if of == row else kept)
                whole = b.value(
                    f"vector.shuffle {whole}, {values[row]} [{', '.join(map(str, picks))}]",
                    f"{self.kind}, {self.kind}",
                )
            self.store(whole, b.plus(place, part * lanes))

    def border(self, y: str, x: str, place: str) -> None:
        """Zeros around the image, by the tiles that touch its edges."""
        turn, b, lanes = self.turn, self.b, self.lanes
        (top, bottom), (left, right) = turn.pad
        _, _, wide, _ = turn.sizes
        first, last = b.index(0), b.index(turn.height - 1)
        start, end = b.index(0), b.index(turn.width - lanes)
        above, below = range(-top, 0), range(1, 1 + bottom)
        sides = [((x, start), -left, left), ((x, end), lanes, right)]
        for edge, strips in (((y, first), above), ((y, last), below)):
            self.zeros([edge], [(strip * wide, lanes) for strip in strips], place)
            for side, far, count in sides:
                self.zeros([edge, side], [(strip * wide + far, count) for strip in strips], place)
        for side, far, count in sides:
            self.zeros([side], [(far, count)], place)

    def zeros(self, edges: list[tuple[str, str]], spans: list[tuple[int, int]], place: str) -> None:
        """Where all edges are touched: zeros in spans of columns, as far from the tile's first."""
        b, rows = self.b, self.turn.rows
        if not any(count for _, count in spans):
            return
        truths = [b.value(f"arith.cmpi eq, {one}, {other}", "index") for one, other in edges]
        truth = truths[0]
        for other in truths[1:]:
            truth = b.value(f"arith.andi {truth}, {other}", "i1")
        b.lines.append(f"scf.if {truth} {{")
        for far, count in spans:
            size = count * rows
            lanes = self.lanes
            while lanes > size:
                lanes //= 2
            none = b.number(0.0, f"vector<{lanes}xf32>")

            def clear(at: str, far: int = far, lanes: int = lanes, none: str = none) -> None:
                to = b.plus(b.plus(place, far * rows), at)
                b.store(none, "%m1", to, b.writer.memory(1), f"vector<{lanes}xf32>")

            b.loop(0, size - size % lanes, lanes, clear)
            if size % lanes:
                clear(b.index(size - lanes))
        b.lines.append("}")

    def load(self, place: str) -> str:
        return self.b.load("%m0", place, self.b.writer.memory(0), self.kind)

    def store(self, value: str, place: str) -> None:
        self.b.store(value, "%m1", place, self.b.writer.memory(1), self.kind)
