"""A few rows times weights in blocks: what a language model does for each token it writes.

Memory is what such a kernel waits for, so that each block is read once, as it lies in the file,
and becomes f32 in registers. An output's codes lie in one piece: a vector holds neighbours along
what is summed, of four outputs at a time. The rows are laid out first, on the stack, in the order
in which codes come out of their words; a group's factor is applied to its sum.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from edgec.toolchain.kernels.cpu.source.ahead import ask_for_stream
from edgec.toolchain.kernels.cpu.source.block_codes import BlockWeights, Codes
from edgec.toolchain.kernels.cpu.source.block_numbers import BlockNumbers
from edgec.toolchain.kernels.cpu.source.body import Body
from edgec.toolchain.kernels.cpu.source.lanes import side_by_side
from edgec.toolchain.kernels.cpu.source.result import Result, Tile
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit
from edgec.toolchain.kernels.cpu.source.workgroups import workgroups
from edgec.toolchain.kernels.cpu.source.writer import KEPT, Writer, on_stack

__all__ = ["MOST_ROWS", "block_rows_kernel", "codes_for", "stack_needed"]

MOST_ROWS = 4
_OUTPUTS = 4
"""Outputs of a tile, whose sums become one vector."""
_LEAST_LANES = 4
_LOOKUP_LANES = 16


def codes_for(weights: BlockWeights, unit: VectorUnit) -> Codes | None:
    """The pieces that a kernel reads; None where an output has no whole piece."""
    lanes = unit.lanes
    while lanes >= _LEAST_LANES:
        # Only processors with registers of sixteen lanes that operate on memory have the look-up.
        lookup = weights.bits == 4 and lanes == _LOOKUP_LANES and unit.broadcasts
        codes = Codes(weights=weights, lanes=lanes, lookup=lookup)
        if _fits(codes):
            return codes
        lanes //= 2
    return None


def _fits(codes: Codes) -> bool:
    weights, size = codes.weights, codes.size
    if size > weights.inner or (weights.bits == 4 and size % weights.span):
        return False
    if weights.group == weights.inner:
        return not weights.least
    if weights.bits == 4 and weights.group % max(weights.span, 8):
        return False
    return not (weights.group % size and size % weights.group)


def stack_needed(weights: BlockWeights, rows: int) -> int:
    """Bytes of stack that a kernel for so many rows uses, about."""
    return 5 * rows * weights.inner


@lru_cache(maxsize=KEPT)
def block_rows_kernel(name: str, codes: Codes, result: Result, unit: VectorUnit) -> str:
    """The text of a `stream.executable` called `name` with an entry point of that name.

    Its bindings are the rows, the codes, the scales, the least values if there are some, the
    epilogue's channel tensors, its other tensors, and the result.
    """
    weights, rows = codes.weights, result.width
    tiles = -(-weights.outputs // _OUTPUTS)
    flops = 2 * rows * weights.outputs * weights.inner
    # Codes of four bits take as long to work out as twice as many bytes of eight take to read.
    split = workgroups(flops, weights.outputs * weights.inner)
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
class _Row:
    """A row's part for a piece of the weights: names of vectors.

    Attributes:
        values: in the order of the codes' vectors.
        totals: their sums by lane, one for each set of vectors, where they are needed.
        begin: what each set's product begins with, because codes come with their zero point.
    """

    values: Sequence[str]
    totals: Sequence[str] = ()
    begin: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class _Kernel:
    codes: Codes
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
    def vector(self) -> str:
        return f"vector<{self.codes.lanes}xf32>"

    @property
    def pieces(self) -> int:
        """Pieces of an output; the last may overlap the one before it."""
        return -(-self.weights.inner // self.codes.size)

    @property
    def summed(self) -> int:
        """Sums of a row's piece: a vector for each set."""
        return len(self.codes.sets) * self.codes.lanes

    @property
    def by_output(self) -> bool:
        """Whether there is one factor for all that is summed."""
        return self.weights.group == self.weights.inner

    @property
    def first(self) -> int:
        """The epilogue's first binding."""
        return 1 + len(self.weights.kinds)

    def body(self) -> Body:
        return Body(self.w, fused=self.unit.fused)

    def lines(self) -> Iterator[str]:
        w, tile = self.w, Tile(columns=self.rows, lanes=_OUTPUTS)
        body = self.body()
        laid = self._scratch(body, self.rows * self.pieces * self.codes.size)
        sums = ""
        if self.codes.shifted or self.weights.least:
            sums = self._scratch(body, self.rows * self.pieces * self.summed)
        self._lay_out(body, laid, sums)
        table = self.codes.table(body)
        yield from body.lines
        yield f"%y0 = arith.addi {w.index(0)}, {w.index(0)} : index"
        yield f"%x0 = arith.addi {w.index(0)}, {w.index(0)} : index"
        yield from w.share("tile", "%wx", self.tiles, self.split)
        yield f"scf.for %tile = %tile_from to %tile_to step {w.index(1)} {{"
        yield from w.start("%n0", "%tile", _OUTPUTS, self.weights.outputs - _OUTPUTS)
        yield from self.result.channel_values(w, tile, self.first)
        body = self.body()
        totals = self._sums(body, laid, sums, table)
        yield from body.lines
        yield from self.result.finish(w, totals, tile, self.first)
        yield "}"

    def _scratch(self, body: Body, count: int) -> str:
        name = body.writer.fresh()
        body.lines.append(on_stack(name, f"memref<{count}xf32>"))
        return name

    # The rows in the order of the codes

    def _lay_out(self, body: Body, laid: str, sums: str) -> None:
        codes, inner = self.codes, self.weights.inner
        whole = inner // codes.size
        for row in range(self.rows):

            def turn(piece: str, row: int = row) -> None:
                start = body.plus(body.times(piece, codes.size), row * inner)
                self._lay_piece(body, laid, sums, start, row, piece, 0)

            body.loop(0, whole, 1, turn)
            if inner % codes.size:
                start = body.index((row + 1) * inner - codes.size)
                again = codes.size - inner % codes.size
                self._lay_piece(body, laid, sums, start, row, whole, again)

    def _lay_piece(
        self, body: Body, laid: str, sums: str, start: str, row: int, piece: int | str, again: int
    ) -> None:
        """Lay a piece out; its first `again` elements were in the one before, and count no more."""
        codes, kind = self.codes, self.vector
        scratch = self._memory(self.codes.size)
        at = self._at(body, row, piece, codes.size)
        loaded: list[str] = []
        for number in range(codes.fields):
            far = number * codes.lanes
            loaded.append(self._loaded(body, body.plus(start, far), again - far))
        for field in range(codes.fields):
            places = [codes.element(field, lane) for lane in range(codes.lanes)]
            place = body.plus(at, field * codes.lanes)
            body.store(self._picked(body, loaded, places), laid, place, scratch, kind)
        if not sums:
            return
        first = self._at(body, row, piece, self.summed)
        for number, fields in enumerate(codes.sets):
            total = ""
            for field in fields:
                place = body.plus(at, field * codes.lanes)
                value = body.load(laid, place, scratch, kind)
                total = body.value(f"arith.addf {total}, {value}", kind) if total else value
            place = body.plus(first, number * codes.lanes)
            body.store(total, sums, place, self._memory(self.summed), kind)

    def _loaded(self, body: Body, place: str, again: int) -> str:
        """A vector of a row's neighbours, 0 for those that were in the piece before."""
        kind, lanes = self.vector, self.codes.lanes
        value = body.load("%m0", place, self.w.memory(0), kind)
        if again <= 0:
            return value
        truth = f"vector<{lanes}xi1>"
        new = ", ".join("true" if lane >= again else "false" for lane in range(lanes))
        kept = body.value(f"arith.constant dense<[{new}]>", truth)
        none = body.number(0.0, kind)
        return body.value(f"arith.select {kept}, {value}, {none}", f"{truth}, {kind}")

    def _picked(self, body: Body, vectors: Sequence[str], places: Sequence[int]) -> str:
        """A vector of elements of several, which are numbered one behind the other."""
        lanes, kind = self.codes.lanes, self.vector
        sources = list(dict.fromkeys(place // lanes for place in places))
        found, have = vectors[sources[0]], [place % lanes for place in places]
        if len(sources) == 1 and have == list(range(lanes)):
            return found
        for source in sources[1:] or sources:
            picks = [
                lanes + place % lanes if place // lanes == source else own
                for place, own in zip(places, have, strict=True)
            ]
            other = vectors[source]
            found = body.value(
                f"vector.shuffle {found}, {other} [{', '.join(map(str, picks))}]", f"{kind}, {kind}"
            )
            have = list(range(lanes))
        return found

    def _memory(self, size: int) -> str:
        return f"memref<{self.rows * self.pieces * size}xf32>"

    def _at(self, body: Body, row: int, piece: int | str, size: int) -> str:
        """Where what belongs to a piece begins, of `size` each."""
        number = body.plus(piece, row * self.pieces)
        return body.times(number, size)

    # Sums

    def _sums(self, body: Body, laid: str, sums: str, table: str) -> list[str]:
        """A vector of the tile's outputs for each row.

        One output comes after the other, so that memory is read from one end to the other.
        """
        outputs = [
            self._output(body, body.plus("%n0", output), laid, sums, table)
            for output in range(_OUTPUTS)
        ]
        found = [
            side_by_side(body, [each[row] for each in outputs], self.codes.lanes)
            for row in range(self.rows)
        ]
        if not self.by_output:
            return found
        factor = self.weights.scales(body).some("%n0", _OUTPUTS)
        kind = f"vector<{_OUTPUTS}xf32>"
        return [body.value(f"arith.mulf {each}, {factor}", kind) for each in found]

    def _output(self, body: Body, number: str, laid: str, sums: str, table: str) -> list[str]:
        """The sums of an output for each row, by lane."""
        codes, weights = self.codes, self.weights
        zero = body.number(0.0, self.vector)
        start = body.times(number, weights.row)
        numbers = body.times(number, weights.groups)
        # Several sums a row, so that none waits for the one before.
        each = codes.fields if self.by_output else len(codes.sets)

        def turn(piece: str, totals: list[str]) -> list[str]:
            base = body.least(body.times(piece, codes.size), weights.inner - codes.size)
            at = body.plus(start, self._bytes(body, base))
            ask_for_stream(body, at, self.weights.outputs * self.weights.row)
            vectors = codes.vectors(body, at, table)
            group = body.value(f"arith.divui {base}, {body.index(weights.group)}", "index")
            group = body.plus(numbers, group)
            done: list[str] = []
            for row in range(self.rows):
                mine = totals[row * each : (row + 1) * each]
                laid_out = self._row(body, laid, sums, row, piece)
                add = self._by_field if self.by_output else self._by_group
                done += add(body, vectors, laid_out, mine, group)
            return done

        totals = body.fold(self.pieces, [zero] * (each * self.rows), self.vector, turn)
        found = []
        for row in range(self.rows):
            total, *others = totals[row * each : (row + 1) * each]
            for other in others:
                total = body.value(f"arith.addf {total}, {other}", self.vector)
            found.append(total)
        return found

    def _row(self, body: Body, laid: str, sums: str, row: int, piece: str) -> "_Row":
        """A row's part for a piece of the weights."""
        codes, kind = self.codes, self.vector
        at = self._at(body, row, piece, codes.size)
        values = [
            body.load(laid, body.plus(at, field * codes.lanes), self._memory(codes.size), kind)
            for field in range(codes.fields)
        ]
        if not sums:
            return _Row(values=values)
        first, memory = self._at(body, row, piece, self.summed), self._memory(self.summed)
        totals = [
            body.load(sums, body.plus(first, number * codes.lanes), memory, kind)
            for number in range(len(codes.sets))
        ]
        if not codes.shifted:
            return _Row(values=values, totals=totals)
        less = body.number(-codes.shifted, kind)
        begin = [body.value(f"arith.mulf {total}, {less}", kind) for total in totals]
        return _Row(values=values, totals=totals, begin=begin)

    def _by_field(
        self, body: Body, vectors: Sequence[str], row: "_Row", totals: list[str], _: str
    ) -> list[str]:
        """A sum for each vector of codes; what they are multiplied with comes at the end."""
        done = [
            body.multiply_add(vector, value, total, self.vector)
            for vector, value, total in zip(vectors, row.values, totals, strict=True)
        ]
        if row.begin:
            done[0] = body.value(f"arith.addf {done[0]}, {row.begin[0]}", self.vector)
        return done

    def _by_group(
        self, body: Body, vectors: Sequence[str], row: "_Row", totals: list[str], group: str
    ) -> list[str]:
        """Sums of groups times their factors, of which `group` is the first."""
        kind, numbers = self.vector, self.weights.leasts(body)
        factors = self._by_lane(body, self.weights.scales(body), group)
        least = [] if numbers is None else self._by_lane(body, numbers, group)
        done = []
        for place, (fields, total) in enumerate(zip(self.codes.sets, totals, strict=True)):
            part = row.begin[place] if row.begin else ""
            for field in fields:
                part = self._added(body, vectors[field], row.values[field], part)
            total = body.multiply_add(part, factors[place], total, kind)
            if least:
                total = body.multiply_add(row.totals[place], least[place], total, kind)
            done.append(total)
        return done

    def _bytes(self, body: Body, base: str) -> str:
        """Where a weight's code is in its output's."""
        if self.weights.bits == 8:
            return base
        return body.value(f"arith.divui {base}, {body.index(2)}", "index")

    def _added(self, body: Body, one: str, other: str, total: str) -> str:
        if not total:
            return body.value(f"arith.mulf {one}, {other}", self.vector)
        return body.multiply_add(one, other, total, self.vector)

    def _by_lane(self, body: Body, numbers: BlockNumbers, at: str) -> list[str]:
        """Of each set of vectors its groups' numbers for each lane, from group `at` on."""
        sets, each, lanes = len(self.codes.sets), self.codes.numbers, self.codes.lanes
        if each == 1 and (sets == 1 or not numbers.kind.factor):
            return [
                body.spread(numbers.one(body.plus(at, place)), self.vector) for place in range(sets)
            ]
        few = f"vector<{sets * each}xf32>"
        some = numbers.some(at, sets * each)
        found = []
        for place in range(sets):
            order = ", ".join(str(place * each + lane * each // lanes) for lane in range(lanes))
            found.append(body.value(f"vector.shuffle {some}, {some} [{order}]", f"{few}, {few}"))
        return found
