"""Products of two matrices that are both computed: the right one is packed while it is multiplied.

A piece of work is some rows by a panel of columns, a few vectors wide. The panel is copied to the
thread's own memory a block of what is summed at a time, turned where its columns are pieces of
memory; then tiles of rows are summed in registers. What is summed may lie in several runs, as the
windows of an image do: where the left side's elements of a block lie is then worked out once for
all its tiles. A module imported only by a pass that runs; it needs the compiler.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from iree.compiler import ir
from iree.compiler.dialects import arith, memref, scf, vector

from edgec.toolchain.ir.views import Digit, joined
from edgec.toolchain.kernels.cpu.source.built import build, index, indices_of, loop, number, share
from edgec.toolchain.kernels.cpu.source.by_lane import QUAD
from edgec.toolchain.kernels.cpu.source.turned import turned_by
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit
from edgec.toolchain.kernels.cpu.source.workgroups import MANY, workgroups
from edgec.toolchain.match.indices import Index

__all__ = ["Matrices", "ProductKernel"]

_PANEL_BYTES = 49152
"""A packed block: with the rows that meet it, it stays in the caches of a core."""
_SHARE_OF_STACK = 4
_WIDE_PANEL_BYTES = 147456
"""The same where an instruction multiplies by what it reads: then the second cache gives a packed
row in time, and a longer block means that sums go to memory and back less often."""
_WIDE_SHARE_OF_STACK = 1.6
_STEPS_AHEAD = 16
_MOST_ROWS = 12
_PACE_ACROSS = 0.25  # a load for each multiplication
_LEAST_TILES = 12
"""Tiles of rows that a packed panel serves, at least, where rows are divided among workgroups: each
packs it anew, which for columns that are pieces of memory takes as long as 8 rows."""


@dataclass(frozen=True, kw_only=True)
class Matrices:
    """Where a batch of matrices lies, in elements.

    Attributes:
        size: of the memory that they lie in.
        start: of the first.
        batch: steps of the indices of the batch.
        own: step from row to row of the left side and of the result, from column to column of the
            right side.
    """

    size: int
    start: int
    batch: tuple[int, ...]
    own: int


@dataclass(frozen=True, kw_only=True)
class ProductKernel:
    """`[m, k]` by `[k, n]` for each index of a batch.

    Attributes:
        batch: sizes of its indices.
        m, n: rows and columns.
        inner: what is summed, as indices with a step in the left and one in the right side.
        left, right, out: the matrices; columns of `out` are neighbours.
        lanes: elements of a vector, at most as many as there are columns.
        unit: the vector registers of the target.
        across: whether each column has a left side of its own, a neighbour of the next column's.
        looked_up: whether the right matrix of each index of the batch, which has one, is read as a
            number, one of matrices that lie a step of the batch apart.
    """

    batch: tuple[int, ...]
    m: int
    n: int
    inner: tuple[Index, ...]
    left: Matrices
    right: Matrices
    out: Matrices
    lanes: int
    unit: VectorUnit
    across: bool = False
    looked_up: bool = False

    def text(self, name: str) -> str:
        """The kernel; its bindings are both sides, what says which matrices, and the result."""
        shapes = [[self.left.size], [self.right.size], [self.out.size]]
        kinds = ["f32"] * 3
        if self.looked_up:
            shapes.insert(2, [math.prod(self.batch)])
            kinds.insert(2, "i32")
        return build(name, (self.groups, 1, 1), shapes, self._body, tuple(kinds))

    @property
    def k(self) -> int:
        """How much is summed."""
        return math.prod(index.size for index in self.inner)

    def runs(self, side: int) -> tuple[Digit, ...]:
        """How what is summed lies in the left (0) or the right side (1)."""
        return joined([Digit(size=each.size, step=each.steps[side]) for each in self.inner])

    @property
    def groups(self) -> int:
        """Workgroups."""
        return workgroups(2.0 * math.prod(self.batch) * self.m * self.n * self.k, pace=self._pace)

    @property
    def _pace(self) -> float:
        """The part of a core's rate of products at which it computes."""
        return _PACE_ACROSS if self.across else 1.0

    @cached_property
    def panels(self) -> list[tuple[int, int, int]]:
        """Runs of panels alike: where the first begins, how many there are, vectors of each.

        The last panel is one of the wider ones, so that what its last vector has of the one
        before is its own, too.
        """
        vectors = -(-self.n // self.lanes)
        count = -(-vectors // (3 if self.unit.registers >= 32 else 2))
        narrow = vectors // count
        wider = vectors - count * narrow
        runs = [
            (0, count - wider, narrow),
            ((count - wider) * narrow * self.lanes, wider, narrow + 1),
        ]
        return [run for run in runs if run[1]]

    @cached_property
    def cuts(self) -> int:
        """Pieces that the rows are cut into, for as many workgroups as can be shared evenly."""
        pieces = math.prod(self.batch) * sum(count for _, count, _ in self.panels)
        most = max(1, self.m // (_LEAST_TILES * self._rows(max(v for *_, v in self.panels))))
        return min(most, -(-min(self.groups, MANY) // pieces))

    def _rows(self, vectors: int) -> int:
        """Rows of a tile: as many sums as registers hold beside a vector of each operand."""
        room = (self.unit.registers - vectors - 1) // vectors
        if self.by_lane:  # a register beside the sums for the neighbours of each row
            room = (self.unit.registers - vectors) // (vectors + 1)
        return max(1, min(_MOST_ROWS, self.m, room))

    @property
    def by_lane(self) -> bool:
        """Whether what is summed is read four neighbours at a time."""
        return self.unit.by_lane and not self.across and _step(self.runs(0)) == 1

    @property
    def is_packed(self) -> bool:
        """Whether the right side is; it is not where a row of it is read once, as it lies."""
        return not (self.across and self.right.own == 1 and _step(self.runs(1)) is not None)

    def _block(self, vectors: int) -> int:
        """How much of what is summed is packed at a time."""
        size = min(_PANEL_BYTES, self.unit.stack // _SHARE_OF_STACK)
        if self.unit.broadcasts:
            size = min(_WIDE_PANEL_BYTES, int(self.unit.stack / _WIDE_SHARE_OF_STACK))
        room = size // (4 * vectors * self.lanes)
        blocks = -(-self.k // room)
        return -(-self.k // blocks)

    @property
    def asks_ahead(self) -> bool:
        """Whether the left side is asked for some steps before it is read.

        Where neighbours are rows, each step reads another line, or two: of steps of a power of two
        the first cache holds few, and a processor guesses within a page only.
        """
        step = _step(self.runs(0))
        return (
            self.unit.broadcasts
            and not self.across
            and self.left.own == 1
            and step not in (None, 1)
        )

    @property
    def _kind(self) -> Any:
        return ir.VectorType.get([self.lanes], ir.F32Type.get())

    def _body(self, memories: list[Any], workgroup: list[Any]) -> None:
        which = memories.pop(2) if self.looked_up else None
        most = max(vectors * self._block(vectors) for *_, vectors in self.panels) * self.lanes
        kind = ir.MemRefType.get([most], ir.F32Type.get())
        scratch = memref.alloca(kind, [], [], alignment=64)
        table = None
        if len(self.runs(0)) > 1:
            longest = max(self._block(vectors) for *_, vectors in self.panels)
            kind = ir.MemRefType.get([longest], ir.IntegerType.get_signless(32))
            table = memref.alloca(kind, [], [], alignment=64)
        for start, count, vectors in self.panels:
            sizes = (*self.batch, self.cuts, count)
            low, high = share(math.prod(sizes), self.groups, workgroup[0])
            is_last = start + count * vectors * self.lanes >= self.n

            def job(
                place: Any,
                _: list[Any],
                start: int = start,
                vectors: int = vectors,
                sizes: tuple[int, ...] = sizes,
                is_last: bool = is_last,
            ) -> list[Any]:
                *of_batch, cut, panel = indices_of(place, sizes)
                first = arith.addi(arith.muli(panel, index(vectors * self.lanes)), index(start))
                columns = [arith.addi(first, index(i * self.lanes)) for i in range(vectors)]
                if is_last and self.n % self.lanes:
                    columns[-1] = arith.minui(columns[-1], index(self.n - self.lanes))
                numbers = of_batch
                if which is not None:
                    found = memref.load(which, of_batch)
                    numbers = [arith.index_cast(ir.IndexType.get(), found)]
                bases = [
                    _base(self.left, of_batch),
                    _base(self.right, numbers),
                    _base(self.out, of_batch),
                ]
                _Panel(
                    kernel=self,
                    memories=memories,
                    scratch=scratch,
                    table=table,
                    bases=bases,
                    columns=columns,
                ).write(cut)
                return []

            loop(low, high, index(1), [], job)


@dataclass(frozen=True, kw_only=True)
class _Panel:
    """Some rows by the vectors that begin at `columns`, of the matrices at `bases`.

    Attributes:
        scratch: a block of the right side, packed.
        table: where the left side's elements of a block lie from their row's place on; None where
            they have one step.
    """

    kernel: ProductKernel
    memories: list[Any]
    scratch: Any
    table: Any | None
    bases: list[Any]
    columns: list[Any]

    @property
    def width(self) -> int:
        """Elements of a packed row."""
        return len(self.columns) * self.kernel.lanes

    def write(self, cut: Any) -> None:
        """Sum one block after the other."""
        kernel = self.kernel
        size = kernel._block(len(self.columns))
        rows = kernel._rows(len(self.columns))
        low, high = share(kernel.m // rows, kernel.cuts, cut)

        def block(start: Any, _: list[Any]) -> list[Any]:
            stop = arith.minui(arith.addi(start, index(size)), index(kernel.k))
            self.pack(start, stop)

            def tile(at: Any, _: list[Any]) -> list[Any]:
                self.tile(arith.muli(at, index(rows)), rows, start, stop)
                return []

            loop(low, high, index(1), [], tile)
            rest = kernel.m % rows
            if rest:
                is_last = arith.cmpi(arith.CmpIPredicate.eq, cut, index(kernel.cuts - 1))
                found = scf.IfOp(is_last)
                with ir.InsertionPoint(found.then_block):
                    self.tile(index(kernel.m - rest), rest, start, stop)
                    scf.yield_([])
            return []

        loop(index(0), index(kernel.k), index(size), [], block)

    def pack(self, start: Any, stop: Any) -> None:
        """Copy rows `start` to `stop` of the panel, one behind the other."""
        kernel, step = self.kernel, self.kernel.right.own
        whole = start
        if not kernel.is_packed and self.table is None:
            return
        if step != 1 and _step(kernel.runs(1)) == 1:
            lanes = index(kernel.lanes)
            count = arith.divui(arith.subi(stop, start), lanes)
            whole = arith.addi(start, arith.muli(count, lanes))
            loop(start, whole, lanes, [], lambda at, _: self.square(at, arith.subi(at, start)))

        def row(at: Any, _: list[Any]) -> list[Any]:
            behind = arith.subi(at, start)
            near = arith.muli(behind, index(self.width))
            far = arith.addi(self.bases[1], _offset(at, kernel.runs(1)))
            if self.table is not None:
                self.note(at, behind)
            if not kernel.is_packed:
                return []
            for i, column in enumerate(self.columns):
                place = arith.addi(near, index(i * kernel.lanes))
                source = arith.addi(far, arith.muli(column, index(step)))
                if step == 1:
                    value = vector.load(kernel._kind, self.memories[1], [source])
                    vector.store(value, self.scratch, [place])
                    continue
                for lane in range(kernel.lanes):
                    one = memref.load(self.memories[1], [arith.addi(source, index(lane * step))])
                    memref.store(one, self.scratch, [arith.addi(place, index(lane))])
            return []

        loop(whole, stop, index(1), [], row)

    def note(self, at: Any, near: Any) -> None:
        """Keep where the left side's elements of this index lie."""
        place = _offset(at, self.kernel.runs(0))
        memref.store(arith.index_cast(ir.IntegerType.get_signless(32), place), self.table, [near])

    def square(self, at: Any, near: Any) -> list[Any]:
        """Pack as many rows as a vector has lanes, turned in registers."""
        kernel, step = self.kernel, self.kernel.right.own
        far = arith.addi(self.bases[1], at)
        if self.table is not None:
            for lane in range(kernel.lanes):
                self.note(arith.addi(at, index(lane)), arith.addi(near, index(lane)))
        for i, column in enumerate(self.columns):
            source = arith.addi(far, arith.muli(column, index(step)))
            rows = [
                vector.load(
                    kernel._kind,
                    self.memories[1],
                    [arith.addi(source, index(lane * step))],
                )
                for lane in range(kernel.lanes)
            ]
            for lane, value in enumerate(turned_by(vector.shuffle, rows)):
                row = arith.muli(arith.addi(near, index(lane)), index(self.width))
                vector.store(value, self.scratch, [arith.addi(row, index(i * kernel.lanes))])
        return []

    def tile(self, row: Any, rows: int, start: Any, stop: Any) -> None:
        """Add a block's share to a tile of sums."""
        kernel, left = self.kernel, self.kernel.left
        near = arith.addi(self.bases[0], arith.muli(row, index(left.own)))
        far = arith.addi(self.bases[2], arith.muli(row, index(kernel.out.own)))
        places = [
            [
                arith.addi(arith.addi(far, index(i * kernel.out.own)), column)
                for column in self.columns
            ]
            for i in range(rows)
        ]
        nothing = number(0.0, kernel._kind)
        sums = [nothing] * (rows * len(self.columns))

        def step(at: Any, sums: list[Any]) -> list[Any]:
            packed = arith.muli(arith.subi(at, start), index(self.width))
            weights = self.weights(packed) if kernel.is_packed else self.unpacked(at)
            if self.table is None:
                behind = _offset(at, kernel.runs(0))
            else:
                noted = memref.load(self.table, [arith.subi(at, start)])
                behind = arith.index_cast(ir.IndexType.get(), noted)
            place = arith.addi(near, behind)
            if kernel.asks_ahead:
                self.ask(place, rows)
            at_rows = [arith.addi(place, index(i * left.own)) for i in range(rows)]
            if kernel.across:
                each = [self.read(0, at_row) for at_row in at_rows]
                return self.added(each, weights, sums)
            wide = (
                [vector.broadcast(kernel._kind, memref.load(self.memories[0], [at_row]))]
                for at_row in at_rows
            )
            return self.added(wide, weights, sums)

        def quad(at: Any, sums: list[Any]) -> list[Any]:
            packed = arith.muli(arith.subi(at, start), index(self.width))
            place = arith.addi(near, at)
            kind = ir.VectorType.get([QUAD], ir.F32Type.get())
            fours = [
                vector.load(kind, self.memories[0], [arith.addi(place, index(i * left.own))])
                for i in range(rows)
            ]
            for lane in range(QUAD):
                weights = self.weights(arith.addi(packed, index(lane * self.width)))
                wide = ([vector.shuffle(four, four, [lane] * kernel.lanes)] for four in fours)
                sums = self.added(wide, weights, sums)
            return sums

        rest = start
        if kernel.by_lane:
            quads = arith.divui(arith.subi(stop, start), index(QUAD))
            rest = arith.addi(start, arith.muli(quads, index(QUAD)))
            sums = loop(start, rest, index(QUAD), sums, quad)
        sums = loop(rest, stop, index(1), sums, step)
        ends = [place for line in places for place in line]
        if kernel._block(len(self.columns)) < kernel.k:
            # A block is summed by itself: added one by one to what there is, all would be rounded
            # to the last place of a larger number.
            is_first = arith.cmpi(arith.CmpIPredicate.eq, start, index(0))
            before = [vector.load(kernel._kind, self.memories[2], [place]) for place in ends]
            sums = [
                arith.addf(arith.select(is_first, nothing, old), new)
                for old, new in zip(before, sums, strict=True)
            ]
        for value, place in zip(sums, ends, strict=True):
            vector.store(value, self.memories[2], [place])

    def ask(self, place: Any, rows: int) -> None:
        """Ask for the lines of so many rows, neighbours, that are read some steps later."""
        kernel = self.kernel
        ahead = _STEPS_AHEAD * (_step(kernel.runs(0)) or 0)
        for row in sorted({0, rows - 1}):
            later = arith.addi(place, index(ahead + row))
            later = arith.minui(later, index(kernel.left.size - 1))
            memref.prefetch(self.memories[0], [later], False, 3, True)

    def weights(self, packed: Any) -> list[Any]:
        """A packed row of the panel."""
        kernel = self.kernel
        return [
            vector.load(kernel._kind, self.scratch, [arith.addi(packed, index(i * kernel.lanes))])
            for i in range(len(self.columns))
        ]

    def unpacked(self, at: Any) -> list[Any]:
        """A row of the panel where it lies."""
        return self.read(1, arith.addi(self.bases[1], _offset(at, self.kernel.runs(1))))

    def read(self, side: int, place: Any) -> list[Any]:
        """A vector for each of the panel's, of the left (0) or the right side (1)."""
        return [
            vector.load(self.kernel._kind, self.memories[side], [arith.addi(place, column)])
            for column in self.columns
        ]

    def added(
        self, wide: Iterable[Sequence[Any]], weights: list[Any], sums: list[Any]
    ) -> list[Any]:
        """Sums and, for each row, a number in all lanes, or a vector of each, times the weights."""
        return [
            self.multiply_add(each[j % len(each)], weight, sums[i * len(weights) + j])
            for i, each in enumerate(wide)
            for j, weight in enumerate(weights)
        ]

    def multiply_add(self, a: Any, b: Any, total: Any) -> Any:
        """In two roundings where the processor has no fused form."""
        if self.kernel.unit.fused:
            return vector.fma(a, b, total)
        return arith.addf(total, arith.mulf(a, b))


def _base(matrices: Matrices, of_batch: Sequence[Any]) -> Any:
    """Where the matrix of some indices of the batch begins."""
    place = index(matrices.start)
    for at, step in zip(of_batch, matrices.batch, strict=True):
        place = arith.addi(place, arith.muli(at, index(step)))
    return place


def _step(digits: Sequence[Digit]) -> int | None:
    """The step of a single run; None of several."""
    if len(digits) > 1:
        return None
    return digits[0].step if digits else 1


def _offset(at: Any, digits: Sequence[Digit]) -> Any:
    """Where an index lies, in elements."""
    step = _step(digits)
    if step is not None:
        return arith.muli(at, index(step))
    place = index(0)
    for part, digit in zip(indices_of(at, [d.size for d in digits]), digits, strict=True):
        place = arith.addi(place, arith.muli(part, index(digit.step)))
    return place
