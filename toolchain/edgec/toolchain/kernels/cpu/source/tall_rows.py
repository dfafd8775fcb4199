"""Rows of f32 to the order in which tiles of a product read them, as they are or as bytes.

Rows whose length is a power of two meet in the same few places of a cache, and a tile walks along
many of them at once: so they are laid out one behind the other, four neighbours of each row of a
tile at a time (`TallTiles`). Bytes come with their group's scale, with what its sums begin with,
and with its sum, as the product needs them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from edgec.toolchain.kernels.cpu.source.body import Body
from edgec.toolchain.kernels.cpu.source.lanes import of_all_lanes
from edgec.toolchain.kernels.cpu.source.literals import literal
from edgec.toolchain.kernels.cpu.source.tall_tiles import TallTiles
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit
from edgec.toolchain.kernels.cpu.source.workgroups import workgroups
from edgec.toolchain.kernels.cpu.source.writer import Writer
from edgec.toolchain.match.rounded_rows import LARGEST, SMALLEST

__all__ = ["tall_rows_kernel"]

_ROUNDING = 1.5 * 2**23
"""What is added to this lies one apart from the next f32: the sum's low bits are the integer."""
_QUAD = 4
_WAYS = (4, 2, 1)
_RUN = 16
"""Neighbours that are rounded together, at most."""


def tall_rows_kernel(name: str, cut: TallTiles, unit: VectorUnit) -> str:
    """The text of a `stream.executable` called `name` with an entry point of that name.

    Its bindings are the rows, and what it lays out.
    """
    size = cut.rows * cut.weights.inner
    split = min(cut.rows, workgroups(0, 4 * size + 4 * cut.laid))
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

    def lines(self, split: int) -> Iterator[str]:
        cut, body, w = self.cut, self.body, self.body.writer
        yield from w.share("row", "%wx", cut.rows, split)
        yield f"scf.for %row = %row_from to %row_to step {w.index(1)} {{"
        source = body.times("%row", cut.weights.inner)
        tile = body.value(f"arith.divui %row, {w.index(cut.tall)}", "index")
        within = body.less("%row", body.times(tile, cut.tall))
        start = body.times(tile, cut.steps * cut.record)
        if cut.dot is None:
            self._copy(source, body.plus(start, body.times(within, _QUAD)))
        else:
            self._round(source, body.plus(start, within))
        yield from body.lines
        yield "}"

    def _copy(self, source: str, start: str) -> None:
        """Four neighbours at a time."""
        cut, body = self.cut, self.body
        kind = f"vector<{_QUAD}xf32>"

        def turn(quad: str) -> None:
            at = body.plus(source, body.times(quad, _QUAD))
            value = body.load("%m0", at, body.writer.memory(0), kind)
            there = body.plus(start, body.times(quad, _QUAD * cut.tall))
            body.store(value, "%m1", there, body.writer.memory(1), kind)

        body.loop(0, cut.weights.inner // _QUAD, 1, turn)

    def _round(self, source: str, start: str) -> None:
        cut = self.cut
        whole = self._scale(source, cut.weights.inner) if cut.by_output else None

        def turn(step: str) -> None:
            at = self.body.plus(source, self.body.times(step, cut.step))
            scale = whole or self._scale(at, cut.step)
            there = self.body.plus(start, self.body.times(step, cut.record))
            self._step(at, there, scale)

        self.body.loop(0, cut.steps, 1, turn)

    def _scale(self, at: str, count: int) -> str:
        """The scale of some neighbours."""
        body, kind = self.body, self.floats

        def larger(chunk: str, largest: str) -> str:
            place = body.plus(at, body.times(chunk, self.lanes))
            value = body.load("%m0", place, body.writer.memory(0), kind)
            return body.larger(largest, body.value(f"math.absf {value}", kind), kind)

        most = self._of_chunks(count // self.lanes, larger, body.larger)
        found = of_all_lanes(body, most, self.lanes, body.larger)
        least = body.value(f"arith.constant {literal(SMALLEST)}", "f32")
        found = body.value(f"arith.maximumf {found}, {least}", "f32")
        part = body.value(f"arith.constant {literal(1 / LARGEST)}", "f32")
        return body.value(f"arith.mulf {found}, {part}", "f32")

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
        """Round a step and keep what belongs to it."""
        cut, body, kind = self.cut, self.body, self.floats
        one = body.value("arith.constant 1.0", "f32")
        spread = body.spread(body.value(f"arith.divf {one}, {scale}", "f32"), kind)

        def rounded(chunk: str, total: str) -> str:
            place = body.plus(at, body.times(chunk, self.lanes))
            quads = body.times(chunk, self.lanes // _QUAD * cut.tall)
            return self._chunk(place, body.plus(there, quads), spread, total)

        total = self._of_chunks(cut.step // self.lanes, rounded, self._add)
        found = {"scale": scale}
        if len(cut.parts) > 1:
            total = of_all_lanes(body, total, self.lanes, self._add)
            found["sum"] = body.value(f"arith.mulf {total}, {scale}", "f32")
            shift = body.number(float(-cut.shift), "f32")
            less = body.value(f"arith.mulf {total}, {shift}", "f32")
            found["begin"] = body.value(f"arith.fptosi {less}", "f32 to i32")
        for number, part in enumerate(cut.parts):
            value = found[part]
            if part != "begin":
                value = body.value(f"arith.bitcast {value}", "f32 to i32")
            place = body.plus(there, (cut.quads + number) * cut.tall)
            body.store(value, "%m1", place, body.writer.memory(1), "i32")

    def _add(self, one: str, other: str, kind: str) -> str:
        return self.body.value(f"arith.addf {one}, {other}", kind)

    def _chunk(self, at: str, there: str, part: str, total: str) -> str:
        """Round neighbours times `part` and keep them; the whole numbers added to a total, as f32.

        A division for each would take most of the time, and rounds no better than sums of f32 are.
        """
        cut, body, kind = self.cut, self.body, self.floats
        words, few = (f"vector<{self.lanes}x{each}>" for each in ("i32", "i8"))
        quads = f"vector<{self.lanes // _QUAD}xi32>"
        large = body.number(_ROUNDING, kind)
        value = body.load("%m0", at, body.writer.memory(0), kind)
        value = body.value(f"arith.mulf {value}, {part}", kind)
        near = body.value(f"arith.addf {value}, {large}", kind)
        bits = body.value(f"arith.bitcast {near}", f"{kind} to {words}")
        narrow = body.value(f"arith.trunci {bits}", f"{words} to {few}")
        four = body.value(f"vector.bitcast {narrow}", f"{few} to {quads}")
        for quad in range(self.lanes // _QUAD):
            one = body.value(f"vector.extract {four}[{quad}]", f"i32 from {quads}")
            place = body.plus(there, quad * cut.tall)
            body.store(one, "%m1", place, body.writer.memory(1), "i32")
        return self._add(total, body.value(f"arith.subf {near}, {large}", kind), kind)
