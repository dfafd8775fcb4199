"""A few rows, rounded to bytes, times weights in blocks: codes are multiplied as they are.

What `block_rows` does in f32 is done here by the processor's instruction for bytes: four products
in every lane, of one group, whose sums are exact; a group's two scales are applied to its sum.
Least values are multiplied with the sums of the rows' groups, many groups at a time.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from edgec.toolchain.kernels.cpu.source.ahead import ask_for_stream
from edgec.toolchain.kernels.cpu.source.block_codes import BlockWeights
from edgec.toolchain.kernels.cpu.source.block_numbers import BlockNumbers
from edgec.toolchain.kernels.cpu.source.body import Body
from edgec.toolchain.kernels.cpu.source.lanes import side_by_side
from edgec.toolchain.kernels.cpu.source.result import Result, Tile
from edgec.toolchain.kernels.cpu.source.rounded_rows import ByteCodes, RoundedRows
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit
from edgec.toolchain.kernels.cpu.source.workgroups import workgroups
from edgec.toolchain.kernels.cpu.source.writer import KEPT, Writer

__all__ = ["block_bytes_kernel", "byte_stack_needed"]

_OUTPUTS = 4
"""Outputs of a tile, whose sums become one vector."""


def byte_stack_needed(weights: BlockWeights, rows: int) -> int:
    """Bytes of stack that a kernel for so many rows uses, about."""
    return 4 * rows * weights.inner


@lru_cache(maxsize=KEPT)
def block_bytes_kernel(name: str, codes: ByteCodes, result: Result, unit: VectorUnit) -> str:
    """The text of a `stream.executable` called `name` with an entry point of that name.

    Its bindings are those of `block_rows_kernel`.
    """
    weights, rows = codes.weights, result.width
    tiles = -(-weights.outputs // _OUTPUTS)
    size = weights.outputs * weights.row
    split = workgroups(rows * weights.outputs * weights.inner, size)
    split = min(tiles, split + split % 2 if split > 1 else 1)
    writer = Writer(
        name=name,
        workgroups=(split, 1, 1),
        sizes=[rows * weights.inner, *weights.sizes, *result.extra_sizes, result.size],
        kinds=("f32", *weights.kinds, *["f32"] * (len(result.extra_sizes) + 1)),
    )
    kernel = _Kernel(codes=codes, result=result, unit=unit, w=writer, tiles=tiles, split=split)
    return writer.text(kernel.lines())


@dataclass(frozen=True, kw_only=True)
class _Kernel:
    codes: ByteCodes
    result: Result
    unit: VectorUnit
    w: Writer
    tiles: int
    split: int

    @property
    def weights(self) -> BlockWeights:
        return self.codes.weights

    @property
    def rows(self) -> int:
        return self.result.width

    @property
    def floats(self) -> str:
        return f"vector<{self.codes.lanes}xf32>"

    @property
    def words(self) -> str:
        return f"vector<{self.codes.lanes}xi32>"

    @property
    def first(self) -> int:
        """The epilogue's first binding."""
        return 1 + len(self.weights.kinds)

    def lines(self) -> Iterator[str]:
        w, tile = self.w, Tile(columns=self.rows, lanes=_OUTPUTS)
        body = Body(w, fused=self.unit.fused)
        rounded = RoundedRows(codes=self.codes, rows=self.rows, body=body)
        yield from rounded.lay_out()
        yield f"%y0 = arith.addi {w.index(0)}, {w.index(0)} : index"
        yield f"%x0 = arith.addi {w.index(0)}, {w.index(0)} : index"
        yield from w.share("tile", "%wx", self.tiles, self.split)
        yield f"scf.for %tile = %tile_from to %tile_to step {w.index(1)} {{"
        yield from w.start("%n0", "%tile", _OUTPUTS, self.weights.outputs - _OUTPUTS)
        yield from self.result.channel_values(w, tile, self.first)
        totals = self._sums(body, rounded)
        yield from body.lines
        yield from self.result.finish(w, totals, tile, self.first)
        yield "}"

    def _sums(self, body: Body, rounded: RoundedRows) -> list[str]:
        """A vector of the tile's outputs for each row."""
        outputs = [
            self._output(body, body.plus("%n0", output), rounded) for output in range(_OUTPUTS)
        ]
        lanes = self.codes.lanes
        found = [
            side_by_side(body, [each[row] for each in outputs], lanes) for row in range(self.rows)
        ]
        if not self.codes.by_output:
            return found
        kind = f"vector<{_OUTPUTS}xf32>"
        factor = self.weights.scales(body).some("%n0", _OUTPUTS)
        done = []
        for row, total in enumerate(found):
            scale = body.spread(rounded.scale(row), kind)
            both = body.value(f"arith.mulf {factor}, {scale}", kind)
            done.append(body.value(f"arith.mulf {total}, {both}", kind))
        return done

    def _output(self, body: Body, number: str, rounded: RoundedRows) -> list[str]:
        """The sums of an output for each row, by lane, as f32."""
        codes, weights = self.codes, self.weights
        start = body.times(number, weights.row)
        groups = body.times(number, weights.groups)
        kind = self.words if codes.by_output else self.floats
        zero = body.value(f"arith.constant dense<{'0' if codes.by_output else '0.0'}>", kind)

        def turn(piece: str, totals: list[str]) -> list[str]:
            base = body.least(body.times(piece, codes.size), weights.inner - codes.size)
            at = base
            if weights.bits == 4:
                at = body.value(f"arith.divui {base}, {body.index(2)}", "index")
            at = body.plus(start, at)
            ask_for_stream(body, at, self.weights.outputs * self.weights.row)
            vectors = codes.vectors(body, at)
            factor = "" if codes.by_output else self._factor(body, groups, base)
            return [
                self._row(body, rounded, row, piece, vectors, factor, totals[row])
                for row in range(self.rows)
            ]

        totals = body.fold(codes.pieces, [zero] * self.rows, kind, turn)
        if codes.by_output:
            return [
                body.value(f"arith.sitofp {total}", f"{self.words} to {self.floats}")
                for total in totals
            ]
        numbers = weights.leasts(body)
        if numbers is not None:
            totals = self._with_least(body, numbers, rounded, groups, totals)
        return totals

    def _row(
        self,
        body: Body,
        rounded: RoundedRows,
        row: int,
        piece: str,
        vectors: list[str],
        factor: str,
        total: str,
    ) -> str:
        """A row's total with a piece added."""
        codes = self.codes
        begin = rounded.begin(row, piece)
        if codes.by_output:
            begin = body.value(f"arith.addi {begin}, {total}", self.words)
        for vector, values in zip(vectors, rounded.values(row, piece), strict=True):
            result = self.w.fresh()
            body.lines.append(codes.unit.multiply(result, begin, vector, values, codes.lanes))
            begin = result
        if codes.by_output:
            return begin
        made = body.value(f"arith.sitofp {begin}", f"{self.words} to {self.floats}")
        both = body.value(f"arith.mulf {factor}, {rounded.scales(row, piece)}", self.floats)
        return body.multiply_add(made, both, total, self.floats)

    def _with_least(
        self,
        body: Body,
        numbers: BlockNumbers,
        rounded: RoundedRows,
        groups: str,
        totals: list[str],
    ) -> list[str]:
        """Totals and least values times the sums of groups."""
        done = list(totals)
        for chunk in range(rounded.chunks):
            least = ""
            for row in range(self.rows):
                first, count, sums = rounded.sums(row, chunk)
                kind = f"vector<{count}xf32>"
                if not least:
                    at = body.plus(groups, first)
                    least = numbers.some(at, count)
                made = body.value(f"arith.mulf {least}, {sums}", kind)
                if count < self.codes.lanes:
                    order = [*range(count), *[count] * (self.codes.lanes - count)]
                    zero = body.number(0.0, kind)
                    made = body.value(
                        f"vector.shuffle {made}, {zero} [{', '.join(map(str, order))}]",
                        f"{kind}, {kind}",
                    )
                done[row] = body.value(f"arith.addf {done[row]}, {made}", self.floats)
        return done

    def _factor(self, body: Body, groups: str, base: str) -> str:
        """The weights' scales by lane."""
        codes = self.codes
        group = body.value(f"arith.divui {base}, {body.index(self.weights.group)}", "index")
        at = body.plus(groups, group)
        count = codes.numbers
        some = self.weights.scales(body).some(at, count)
        few = f"vector<{count}xf32>"
        order = ", ".join(str(lane * count // codes.lanes) for lane in range(codes.lanes))
        return body.value(f"vector.shuffle {some}, {some} [{order}]", f"{few}, {few}")
