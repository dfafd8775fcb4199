"""Many rows times weights in blocks: what a language model does with a prompt.

A workgroup takes some panels of outputs. A block of what is summed after the other it unpacks each
panel into memory of its own, once for all rows, and sums tiles of rows by the panel in registers;
between blocks the sums lie in the result. Rows of f32 meet weights of f32; rows of bytes meet codes
as they are, by the processor's instruction for bytes: sums of a group are exact, and become f32
with both scales.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from edgec.toolchain.kernels.cpu.source.body import Body
from edgec.toolchain.kernels.cpu.source.result import Result, Tile
from edgec.toolchain.kernels.cpu.source.tall_panel import TallPanel
from edgec.toolchain.kernels.cpu.source.tall_tiles import TallTiles
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit
from edgec.toolchain.kernels.cpu.source.writer import KEPT, Writer

__all__ = ["tall_product_kernel"]

_QUAD = 4
_UNROLLED = 16
"""Quads of a step that are written out; of longer ones some at a time."""


@lru_cache(maxsize=KEPT)
def tall_product_kernel(name: str, cut: TallTiles, result: Result, unit: VectorUnit) -> str:
    """The text of a `stream.executable` called `name` with an entry point of that name.

    Its bindings are the rows as `tall_rows_kernel` lays them out, the codes, the scales, the least
    values if there are some, the epilogue's channel tensors, its other tensors, and the result.
    """
    weights = cut.weights
    writer = Writer(
        name=name,
        workgroups=(cut.split, 1, 1),
        sizes=[cut.laid, *weights.sizes, *result.extra_sizes, result.size],
        kinds=(cut.kind, *weights.kinds, *["f32"] * (len(result.extra_sizes) + 1)),
    )
    return writer.text(_Kernel(cut=cut, result=result, unit=unit, w=writer).lines())


@dataclass(frozen=True, kw_only=True)
class _Kernel:
    cut: TallTiles
    result: Result
    unit: VectorUnit
    w: Writer

    @property
    def floats(self) -> str:
        return f"vector<{self.cut.lanes}xf32>"

    @property
    def words(self) -> str:
        return f"vector<{self.cut.lanes}xi32>"

    @property
    def first(self) -> int:
        """The epilogue's first binding."""
        return 1 + len(self.cut.weights.kinds)

    def body(self) -> Body:
        return Body(self.w, fused=self.unit.fused)

    def lines(self) -> Iterator[str]:
        w, cut = self.w, self.cut
        body = self.body()
        TallPanel(cut=cut, body=body).make()
        yield from body.lines
        yield f"%y0 = arith.addi {w.index(0)}, {w.index(0)} : index"
        yield from w.share("panel", "%wx", cut.panels, cut.split)
        yield f"scf.for %block = {w.index(0)} to {w.index(cut.blocks)} step {w.index(1)} {{"
        yield f"%block_a = arith.muli %block, {w.index(cut.steps)} : index"
        yield f"%block_b = arith.addi %block_a, {w.index(cut.steps)} : index"
        yield f"%step_from = arith.divui %block_a, {w.index(cut.blocks)} : index"
        yield f"%step_to = arith.divui %block_b, {w.index(cut.blocks)} : index"
        yield "%step_count = arith.subi %step_to, %step_from : index"
        yield f"scf.for %panel = %panel_from to %panel_to step {w.index(1)} {{"
        yield f"%n0 = arith.muli %panel, {w.index(cut.width)} : index"
        yield from self.result.channel_values(w, self._tile(cut.tall), self.first)
        body = self.body()
        TallPanel(cut=cut, body=body).fill("%step_from", "%step_to")
        yield from body.lines
        whole = cut.rows // cut.tall
        yield f"scf.for %tile = {w.index(0)} to {w.index(whole)} step {w.index(1)} {{"
        yield from self._rows("%tile", cut.tall)
        yield "}"
        if cut.rows % cut.tall:
            yield from self._rows(w.index(whole), cut.rows % cut.tall)
        yield "}"
        yield "}"

    def _tile(self, rows: int) -> Tile:
        return Tile(columns=rows, vectors=self.cut.vectors, lanes=self.cut.lanes)

    def _rows(self, tile: str, rows: int) -> Iterator[str]:
        """The sums of a tile over a block, to where they go."""
        cut, w, body = self.cut, self.w, self.body()
        row = body.times(tile, cut.tall)
        body.lines.append(f"%x0 = arith.addi {row}, {w.index(0)} : index")
        places = self._places(body, row, rows)
        base = body.place(body.times(tile, cut.steps * cut.record), ("%step_from", cut.record))
        if cut.whole:
            sums = self._whole(body, base, places, rows)
        elif cut.dot:
            sums = self._bytes(body, base, self._begun(body, places), rows)
        else:
            sums = self._floats(body, base, self._begun(body, places))
        yield from body.lines
        if cut.blocks == 1:
            yield from self.result.finish(w, sums, self._tile(rows), self.first)
            return
        yield f"%is_last = arith.cmpi eq, %block, {w.index(cut.blocks - 1)} : index"
        yield "scf.if %is_last {"
        yield from self.result.finish(w, sums, self._tile(rows), self.first)
        yield "} else {"
        body = self.body()
        for place, total in zip(places, sums, strict=True):
            body.store(total, f"%m{self._out}", place, self.w.memory(self._out), self.floats)
        yield from body.lines
        yield "}"

    @property
    def _out(self) -> int:
        return self.first + len(self.result.extra_sizes)

    def _places(self, body: Body, row: str, rows: int) -> list[str]:
        """Where each vector of the result lies."""
        cut = self.cut
        start = body.plus(body.times(row, cut.weights.outputs), "%n0")
        return [
            body.plus(start, number * cut.weights.outputs + v * cut.lanes)
            for number in range(rows)
            for v in range(cut.vectors)
        ]

    def _begun(self, body: Body, places: list[str]) -> list[str]:
        """What the blocks before have summed."""
        zero = body.number(0.0, self.floats)
        if self.cut.blocks == 1:
            return [zero] * len(places)
        is_first = body.value(f"arith.cmpi eq, %block, {body.index(0)}", "index")
        found = []
        for place in places:
            before = body.load(f"%m{self._out}", place, self.w.memory(self._out), self.floats)
            found.append(body.value(f"arith.select {is_first}, {zero}, {before}", self.floats))
        return found

    # Rows of f32

    def _floats(self, body: Body, base: str, sums: list[str]) -> list[str]:
        cut, panel = self.cut, TallPanel(cut=self.cut, body=body)
        rows, four = len(sums) // cut.vectors, f"vector<{_QUAD}xf32>"

        def quad(number: str, sums: list[str]) -> list[str]:
            at = body.plus(base, body.times(number, _QUAD * cut.tall))
            if self.unit.by_lane:
                fours = [
                    body.load("%m0", body.plus(at, _QUAD * row), self.w.memory(0), four)
                    for row in range(rows)
                ]
            for neighbour in range(_QUAD):
                weights = [panel.quad(number, neighbour, v) for v in range(cut.vectors)]
                added = []
                for row in range(rows):
                    if self.unit.by_lane:
                        wide = body.of_lane(fours[row], neighbour, _QUAD, self.floats)
                    else:
                        place = body.plus(at, _QUAD * row + neighbour)
                        one = body.load("%m0", place, self.w.memory(0), "f32")
                        wide = body.spread(one, self.floats)
                    for v, weight in enumerate(weights):
                        total = sums[row * cut.vectors + v]
                        added.append(body.multiply_add(wide, weight, total, self.floats))
                sums = added
            return sums

        return body.fold(body.times("%step_count", cut.quads), sums, self.floats, quad)

    # Rows of bytes

    def _whole(self, body: Body, base: str, places: list[str], rows: int) -> list[str]:
        """Rows and outputs of one scale each: whole numbers until all of a block is summed."""
        cut, panel = self.cut, TallPanel(cut=self.cut, body=body)

        def step(number: str, totals: list[str]) -> list[str]:
            at = body.plus(base, body.times(number, cut.record))
            return self._products(body, panel, number, at, rows, totals)

        zero = body.value("arith.constant dense<0>", self.words)
        if cut.longest == 1:
            totals = self._products(body, panel, body.index(0), base, rows)
        else:
            totals = body.fold("%step_count", [zero] * len(places), self.words, step)
        before = self._begun(body, places)
        scales = [panel.numbers("scale", body.index(0), v) for v in range(cut.vectors)]
        found = []
        for row in range(rows):
            scale = self._part(body, base, "scale", row)
            for v in range(cut.vectors):
                place = row * cut.vectors + v
                made = body.value(f"arith.sitofp {totals[place]}", f"{self.words} to {self.floats}")
                both = body.value(f"arith.mulf {scales[v]}, {scale}", self.floats)
                found.append(body.multiply_add(made, both, before[place], self.floats))
        return found

    def _bytes(self, body: Body, base: str, sums: list[str], rows: int) -> list[str]:
        cut, panel = self.cut, TallPanel(cut=self.cut, body=body)

        def step(number: str, sums: list[str]) -> list[str]:
            at = body.plus(base, body.times(number, cut.record))
            totals = self._products(body, panel, number, at, rows)
            scales = [panel.numbers("scale", number, v) for v in range(cut.vectors)]
            added = []
            for row in range(rows):
                scale = self._part(body, at, "scale", row)
                for v in range(cut.vectors):
                    place = row * cut.vectors + v
                    made = body.value(
                        f"arith.sitofp {totals[place]}", f"{self.words} to {self.floats}"
                    )
                    both = body.value(f"arith.mulf {scales[v]}, {scale}", self.floats)
                    added.append(body.multiply_add(made, both, sums[place], self.floats))
            return self._with_least(body, panel, number, at, added, rows)

        return body.fold("%step_count", sums, self.floats, step)

    def _products(
        self,
        body: Body,
        panel: TallPanel,
        step: str,
        at: str,
        rows: int,
        before: list[str] | None = None,
    ) -> list[str]:
        """The exact sums of a step, added to those before it."""
        cut = self.cut
        begin = body.value("arith.constant dense<0>", self.words)
        totals = [begin] * (rows * cut.vectors) if before is None else before
        if cut.shift:
            begun = [self._part(body, at, "begin", row) for row in range(rows)]
            spread = [each for each in begun for _ in range(cut.vectors)]
            totals = spread if before is None else self._added(body, before, spread)
        first = body.times(step, cut.quads)

        def some(start: int | str, count: int, totals: list[str]) -> list[str]:
            for quad in range(count):
                number = body.plus(first, body.plus(start, quad))
                near = body.plus(at, body.times(body.plus(start, quad), cut.tall))
                totals = self._quad(body, panel, number, near, totals)
            return totals

        if cut.quads <= _UNROLLED:
            return some(0, cut.quads, totals)
        each = next(n for n in range(_UNROLLED, 0, -1) if cut.quads % n == 0)

        def turn(number: str, totals: list[str]) -> list[str]:
            return some(body.times(number, each), each, totals)

        return body.fold(cut.quads // each, totals, self.words, turn)

    def _added(self, body: Body, ones: list[str], others: list[str]) -> list[str]:
        return [
            body.value(f"arith.addi {one}, {other}", self.words)
            for one, other in zip(ones, others, strict=True)
        ]

    def _quad(
        self, body: Body, panel: TallPanel, number: str, near: str, totals: list[str]
    ) -> list[str]:
        """Four neighbours of each row by those of each output, added to totals."""
        cut = self.cut
        if cut.dot is None:
            raise ValueError("rows of f32 are not multiplied as bytes")
        codes = [panel.quad(number, 0, v) for v in range(cut.vectors)]
        added = []
        for row in range(len(totals) // cut.vectors):
            one = body.load("%m0", body.plus(near, row), self.w.memory(0), "i32")
            wide = body.value(f"vector.broadcast {one}", f"i32 to {self.words}")
            four = body.value(
                f"vector.bitcast {wide}", f"{self.words} to vector<{_QUAD * cut.lanes}xi8>"
            )
            for v, code in enumerate(codes):
                added.append(self.w.fresh())
                total = totals[row * cut.vectors + v]
                body.lines.append(cut.dot.multiply(added[-1], total, code, four, cut.lanes))
        return added

    def _with_least(
        self, body: Body, panel: TallPanel, step: str, at: str, sums: list[str], rows: int
    ) -> list[str]:
        """Sums and the least values times those of the rows."""
        cut = self.cut
        if not cut.weights.least:
            return sums
        least = [panel.numbers("least", step, v) for v in range(cut.vectors)]
        found = []
        for row in range(rows):
            total = self._part(body, at, "sum", row)
            for v in range(cut.vectors):
                place = row * cut.vectors + v
                found.append(body.multiply_add(least[v], total, sums[place], self.floats))
        return found

    def _part(self, body: Body, at: str, name: str, row: int) -> str:
        """What follows a step's bytes, for a row, in all lanes."""
        cut = self.cut
        place = body.plus(at, (cut.quads + cut.parts.index(name)) * cut.tall + row)
        one = body.load("%m0", place, self.w.memory(0), "i32")
        if name == "begin":
            return body.value(f"vector.broadcast {one}", f"i32 to {self.words}")
        return body.spread(body.value(f"arith.bitcast {one}", "i32 to f32"), self.floats)
