"""Rows of f32 to the order in which tiles of a product read them, as they are or as bytes.

Rows whose length is a power of two meet in the same few places of a cache, and a tile walks along
many of them at once: so they are laid out one behind the other, four neighbours of each row of a
tile at a time (`TallTiles`). Bytes come with their group's scale, with what its sums begin with,
and with its sum, as the product needs them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from edgec.toolchain.kernels.cpu.source.body import Body
from edgec.toolchain.kernels.cpu.source.lanes import of_all_lanes, side_by_side
from edgec.toolchain.kernels.cpu.source.tall_tiles import TallTiles
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit
from edgec.toolchain.kernels.cpu.source.workgroups import workgroups
from edgec.toolchain.kernels.cpu.source.writer import KEPT, Writer, on_stack
from edgec.toolchain.match.rounded_rows import LARGEST, SMALLEST

__all__ = ["tall_rows_kernel"]

_ROUNDING = 1.5 * 2**23
"""What is added to this lies one apart from the next f32: the sum's low bits are the integer."""
_QUAD = 4
_WAYS = (4, 2, 1)
_TOGETHER = 4
"""Rows of a tile that are rounded together."""
_RUN = 16
"""Neighbours that are rounded together, at most."""


@lru_cache(maxsize=KEPT)
def tall_rows_kernel(name: str, cut: TallTiles, unit: VectorUnit) -> str:
    """The text of a `stream.executable` called `name` with an entry point of that name.

    Its bindings are the rows, and what it lays out.
    """
    size = cut.rows * cut.weights.inner
    split = min(cut.tiles, workgroups(0, 4 * size + 4 * cut.laid))
    writer = Writer(
        name=name,
        workgroups=(split, 1, 1),
        sizes=[size, cut.laid],
        kinds=("f32", cut.kind),
    )
    body = Body(writer, fused=unit.fused)
    return writer.text(_Rows(cut=cut, body=body, lanes=min(unit.lanes, _RUN)).lines(split))


@dataclass(frozen=True, kw_only=True)
class _Rows:
    cut: TallTiles
    body: Body
    lanes: int

    @property
    def floats(self) -> str:
        return f"vector<{self.lanes}xf32>"

    @property
    def _scales(self) -> str:
        return f"memref<{self.cut.tall}xf32>"

    def lines(self, split: int) -> Iterator[str]:
        """Tile by tile, and all rows of a tile together, so that memory is written in its order."""
        cut, body, w = self.cut, self.body, self.body.writer
        if cut.by_output:
            yield on_stack("%row_scales", self._scales)
        yield from w.share("tile", "%wx", cut.tiles, split)
        yield f"scf.for %tile = %tile_from to %tile_to step {w.index(1)} {{"
        first = body.times("%tile", cut.tall)
        here: int | str = cut.tall
        if cut.rows % cut.tall:
            here = body.least(cut.tall, body.less(cut.rows, first))
        source = body.times(first, cut.weights.inner)
        start = body.times("%tile", cut.steps * cut.record)
        if cut.dot is None:
            self._copy(source, start, here)
        else:
            self._round(source, start, here)
        yield from body.lines
        yield "}"

    def _copy(self, source: str, start: str, rows: int | str) -> None:
        """Four neighbours at a time, of some that lie together in each row."""
        cut, body = self.cut, self.body
        kind = f"vector<{_QUAD}xf32>"

        def turn(run: str) -> None:
            def some(row: str) -> None:
                at = body.place(source, (row, cut.weights.inner), (run, _RUN))
                there = body.place(start, (row, _QUAD), (run, _RUN * cut.tall))
                for quad in range(_RUN // _QUAD):
                    place = body.plus(at, quad * _QUAD)
                    value = body.load("%m0", place, body.writer.memory(0), kind)
                    place = body.plus(there, quad * _QUAD * cut.tall)
                    body.store(value, "%m1", place, body.writer.memory(1), kind)

            body.loop(0, rows, 1, some)

        body.loop(0, cut.weights.inner // _RUN, 1, turn)

    def _round(self, source: str, start: str, rows: int | str) -> None:
        cut, body = self.cut, self.body
        scales = self._scales
        if cut.by_output:

            def keep(row: str) -> None:
                scale = self._scale(body.place(source, (row, cut.weights.inner)), cut.weights.inner)
                body.store(scale, "%row_scales", row, scales, "f32")

            body.loop(0, rows, 1, keep)

        def turn(step: str) -> None:
            def of_row(row: str) -> None:
                at = body.place(source, (row, cut.weights.inner), (step, cut.step))
                there = body.place(start, (row, 1), (step, cut.record))
                if cut.by_output:
                    scale = body.load("%row_scales", row, scales, "f32")
                else:
                    scale = self._scale(at, cut.step)
                self._step(at, there, scale)

            def of_rows(number: str) -> None:
                first = body.least(body.times(number, _TOGETHER), body.less(rows, _TOGETHER))
                at = body.place(source, (first, cut.weights.inner), (step, cut.step))
                there = body.place(start, (first, 1), (step, cut.record))
                four = None
                if cut.by_output:
                    four = body.load("%row_scales", first, scales, f"vector<{_TOGETHER}xf32>")
                self._steps(at, there, four)

            if min(cut.tall, cut.rows - (cut.tiles - 1) * cut.tall) >= _TOGETHER:
                body.loop(0, body.parts(body.index(rows), _TOGETHER), 1, of_rows)
            else:
                body.loop(0, rows, 1, of_row)

        body.loop(0, cut.steps, 1, turn)

    def _scale(self, at: str, count: int) -> str:
        """The scale of some neighbours."""
        most = self._sizes(at, count)
        return self._scaled(of_all_lanes(self.body, most, self.lanes, self.body.larger), "f32")

    def _sizes(self, at: str, count: int) -> str:
        """The largest sizes of some neighbours, by lane."""
        body, kind = self.body, self.floats

        def larger(chunk: str, largest: str) -> str:
            place = body.plus(at, body.times(chunk, self.lanes))
            value = body.load("%m0", place, body.writer.memory(0), kind)
            return body.larger(largest, body.value(f"math.absf {value}", kind), kind)

        return self._of_chunks(count // self.lanes, larger, body.larger)

    def _scaled(self, most: str, kind: str) -> str:
        """Largest sizes to scales."""
        body = self.body
        least, part = body.number(SMALLEST, kind), body.number(1 / LARGEST, kind)
        found = body.value(f"arith.maximumf {most}, {least}", kind)
        return body.value(f"arith.mulf {found}, {part}", kind)

    def _of_chunks(
        self,
        count: int,
        turn: Callable[[str, str], str],
        both: Callable[[str, str, str], str],
    ) -> str:
        """What becomes of zeros over chunks, some at once so that none waits for the one before."""
        body, kind = self.body, self.floats
        ways = next(number for number in _WAYS if count % number == 0)

        def some(number: str, found: list[str]) -> list[str]:
            first = body.times(number, ways)
            return [turn(body.plus(first, way), each) for way, each in enumerate(found)]

        found = body.fold(count // ways, [body.number(0.0, kind)] * ways, kind, some)
        while len(found) > 1:
            pairs = zip(found[::2], found[1::2], strict=True)
            found = [both(one, other, kind) for one, other in pairs]
        return found[0]

    def _step(self, at: str, there: str, scale: str) -> None:
        """Round a step of a row and keep what belongs to it."""
        cut, body, kind = self.cut, self.body, self.floats
        one = body.number(1.0, "f32")
        spread = body.spread(body.value(f"arith.divf {one}, {scale}", "f32"), kind)

        def rounded(chunk: str, total: str) -> str:
            place = body.plus(at, body.times(chunk, self.lanes))
            quads = body.plus(there, body.times(chunk, self.lanes // _QUAD * cut.tall))
            words, total = self._chunk(place, spread, total)
            for quad in range(self.lanes // _QUAD):
                word = body.value(f"vector.extract {words}[{quad}]", f"i32 from {self.words}")
                self._keep(word, body.plus(quads, quad * cut.tall), "i32")
            return total

        total = self._of_chunks(cut.step // self.lanes, rounded, self._add)
        if len(cut.parts) > 1:
            total = of_all_lanes(body, total, self.lanes, self._add)
        self._parts(there, scale, total, "f32", "i32")

    def _steps(self, at: str, there: str, scale: str | None) -> None:
        """The same for some rows, whose words lie side by side and are kept together.

        Their lanes become numbers together, too: of four vectors that takes few more operations
        than of one.
        """
        cut, body, kind = self.cut, self.body, self.floats
        ats = [body.plus(at, row * cut.weights.inner) for row in range(_TOGETHER)]
        floats, four = (f"vector<{_TOGETHER}x{each}>" for each in ("f32", "i32"))
        if scale is None:
            most = [self._sizes(each, cut.step) for each in ats]
            scale = self._scaled(side_by_side(body, most, self.lanes, body.larger), floats)
        parts = body.value(f"arith.divf {body.number(1.0, floats)}, {scale}", floats)
        spread = [body.of_lane(parts, row, _TOGETHER, kind) for row in range(_TOGETHER)]

        def rounded(chunk: str, totals: list[str]) -> list[str]:
            along = body.times(chunk, self.lanes)
            quads = body.plus(there, body.times(chunk, self.lanes // _QUAD * cut.tall))
            made = [
                self._chunk(body.plus(each, along), by, total)
                for each, by, total in zip(ats, spread, totals, strict=True)
            ]
            for quad, words in enumerate(self._turned([words for words, _ in made])):
                self._keep(words, body.plus(quads, quad * cut.tall), four)
            return [total for _, total in made]

        none = [body.number(0.0, kind)] * _TOGETHER
        totals = body.fold(cut.step // self.lanes, none, kind, rounded)
        total = side_by_side(body, totals, self.lanes) if len(cut.parts) > 1 else ""
        self._parts(there, scale, total, floats, four)

    def _turned(self, rows: list[str]) -> list[str]:
        """Of four rows' words the first ones side by side, the second ones and so on."""
        body, count = self.body, self.lanes // _QUAD
        pairs = f"vector<{2 * count}xi32>"
        order = [of + quad for quad in range(count) for of in (0, count)]
        both = [
            body.value(f"vector.shuffle {one}, {other} {order}", f"{self.words}, {self.words}")
            for one, other in zip(rows[::2], rows[1::2], strict=True)
        ]
        found = []
        for quad in range(count):
            order = [of + 2 * quad + row for of in (0, 2 * count) for row in range(2)]
            found.append(
                body.value(f"vector.shuffle {both[0]}, {both[1]} {order}", f"{pairs}, {pairs}")
            )
        return found

    def _parts(self, there: str, scale: str, total: str, kind: str, words: str) -> None:
        """Keep what follows a step's bytes, of one row or of some."""
        cut, body = self.cut, self.body
        found = {"scale": scale}
        if len(cut.parts) > 1:
            found["sum"] = body.value(f"arith.mulf {total}, {scale}", kind)
            shift = body.number(float(-cut.shift), kind)
            less = body.value(f"arith.mulf {total}, {shift}", kind)
            found["begin"] = body.value(f"arith.fptosi {less}", f"{kind} to {words}")
        for number, part in enumerate(cut.parts):
            value = found[part]
            if part != "begin":
                value = body.value(f"arith.bitcast {value}", f"{kind} to {words}")
            self._keep(value, body.plus(there, (cut.quads + number) * cut.tall), words)

    def _keep(self, value: str, place: str, kind: str) -> None:
        self.body.store(value, "%m1", place, self.body.writer.memory(1), kind)

    def _add(self, one: str, other: str, kind: str) -> str:
        return self.body.value(f"arith.addf {one}, {other}", kind)

    @property
    def words(self) -> str:
        """Of a chunk's bytes."""
        return f"vector<{self.lanes // _QUAD}xi32>"

    def _chunk(self, at: str, part: str, total: str) -> tuple[str, str]:
        """Neighbours times `part` to bytes, as words; the whole numbers added to a total, as f32.

        A division for each would take most of the time, and rounds no better than sums of f32 are.
        """
        body, kind = self.body, self.floats
        wide, few = (f"vector<{self.lanes}x{each}>" for each in ("i32", "i8"))
        large = body.number(_ROUNDING, kind)
        value = body.load("%m0", at, body.writer.memory(0), kind)
        value = body.value(f"arith.mulf {value}, {part}", kind)
        near = body.value(f"arith.addf {value}, {large}", kind)
        bits = body.value(f"arith.bitcast {near}", f"{kind} to {wide}")
        narrow = body.value(f"arith.trunci {bits}", f"{wide} to {few}")
        words = body.value(f"vector.bitcast {narrow}", f"{few} to {self.words}")
        return words, self._add(total, body.value(f"arith.subf {near}, {large}", kind), kind)
