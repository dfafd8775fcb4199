"""Attention of many queries, neighbouring queries in a vector: one kernel, nothing packed.

A tile of queries is turned onto the stack, so that one vector holds the same element of
neighbouring queries. It meets a block of keys after the other, read where they lie: each of their
elements is multiplied with all queries of the tile. A block that masks hide from all of them is
left out. Scores lie on the stack by key, so that a softmax is the same few operations for all
lanes, with no sums across a vector. Sums of one block fade by what the next one's largest score
exceeds the last.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

from edgec.toolchain.kernels.cpu.source.attention import (
    Attention,
    heads_of_workgroup,
    start_of_head,
)
from edgec.toolchain.kernels.cpu.source.attention_query_terms import Memory, QueryTerms
from edgec.toolchain.kernels.cpu.source.attention_tiling import QueryTiling, by_query
from edgec.toolchain.kernels.cpu.source.body import Body
from edgec.toolchain.kernels.cpu.source.by_lane import QUAD
from edgec.toolchain.kernels.cpu.source.exponential import powers_of_e
from edgec.toolchain.kernels.cpu.source.turned import turned
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit
from edgec.toolchain.kernels.cpu.source.writer import KEPT, Writer, on_stack

__all__ = ["by_query_kernel"]

_LOWEST = -3.4028234e38


@lru_cache(maxsize=KEPT)
def by_query_kernel(name: str, attention: Attention, cut: QueryTiling, unit: VectorUnit) -> str:
    """The text of the kernel; its bindings are queries, keys, values, terms, result."""
    a = attention
    kinds = ("f32" if term.keep is None else "i8" for term in a.terms)
    writer = Writer(
        name=name,
        workgroups=(a.count, 1, cut.split),
        sizes=[a.q.size, a.k.size, a.v.size, *(t.view.size for t in a.terms), a.out.size],
        kinds=("f32", "f32", "f32", *kinds, "f32"),
    )
    body = Body(writer, fused=unit.fused)
    kernel = _Kernel(attention=a, cut=cut, body=body, by_lane=unit.by_lane)
    kernel.write()
    return writer.text(kernel.b.lines)


class _Kernel:
    """The kernel's body, with memory on the stack for a tile of queries."""

    def __init__(
        self, *, attention: Attention, cut: QueryTiling, body: Body, by_lane: bool
    ) -> None:
        self.a, self.cut, self.b, self.by_lane = attention, cut, body, by_lane
        self.kind = f"vector<{cut.lanes}xf32>"
        self.blocks = -(-attention.keys // cut.block)
        self.queries = self.stack(attention.width * cut.tile)
        self.scores = self.stack(cut.block * cut.tile)
        self.most = self.stack(cut.tile)
        self.parts = self.stack(cut.tile)
        """The sum of each query's powers; at last one over it."""
        if self.blocks > 1:
            part = cut.columns * cut.lanes
            self.depth = -(-attention.depth // part) * part
            self.before = self.stack(cut.tile)
            self.fades = self.stack(cut.tile)
            self.sums = self.stack(cut.tile * self.depth)
        bends = {
            number: self.stack(cut.bends * cut.tile)
            for number, term in enumerate(attention.terms)
            if by_query(term)
        }
        self.terms = QueryTerms(attention=attention, cut=cut, body=body, bends=bends)

    def stack(self, size: int) -> Memory:
        """Memory of f32 on the stack."""
        kind = f"memref<{size}xf32>"
        name = self.b.writer.fresh()
        self.b.lines.append(on_stack(name, kind))
        return name, kind

    def memory(self, binding: int) -> Memory:
        """A binding's."""
        return f"%m{binding}", self.b.writer.memory(binding)

    def load(self, memory: Memory, place: int | str, kind: str) -> str:
        return self.b.load(memory[0], self.b.index(place), memory[1], kind)

    def store(self, what: str, memory: Memory, place: int | str) -> None:
        self.b.store(what, memory[0], self.b.index(place), memory[1], self.kind)

    @property
    def vectors(self) -> Iterator[int]:
        """Where each vector of a tile's queries begins."""
        return iter(range(0, self.cut.tile, self.cut.lanes))

    def write(self) -> None:
        """The whole body."""
        a, cut, b, w = self.a, self.cut, self.b, self.b.writer
        b.lines += heads_of_workgroup(w, "%h", a.heads)
        views = [("%q", a.q), ("%k", a.k), ("%v", a.v), ("%out", a.out)]
        views += [(f"%term{i}", term.view) for i, term in enumerate(a.terms)]
        for name, view in views:
            b.lines += start_of_head(w, name, view.start, view.heads, "%h")
        b.lines += w.share("tile", "%wz", cut.tiles, cut.split)
        b.loop("%tile_from", "%tile_to", 1, self.tile)

    def tile(self, number: str) -> None:
        """All that is done for one tile of queries."""
        a, cut, b = self.a, self.cut, self.b
        first = b.least(b.times(number, cut.tile), a.queries - cut.tile)
        self.turn_queries(first)
        guarded = a.safe or self.blocks > 1
        lowest = b.number(_LOWEST if guarded else float("-inf"), self.kind)
        none = b.number(0.0, self.kind)
        for at in self.vectors:
            self.store(lowest, self.most, at)
            self.store(none, self.parts, at)
            if self.blocks > 1:
                self.store(lowest, self.before, at)
        if self.blocks == 1:
            self.meet(first, b.index(0), b.index(a.keys))
            return
        b.loop(0, cut.tile * self.depth, cut.lanes, lambda i: self.store(none, self.sums, i))

        def block(start: str) -> None:
            seen = self.terms.seen(first, start)
            if seen:
                b.lines.append(f"scf.if {seen} {{")
            left = b.less(a.keys, start)
            self.meet(first, start, b.least(left, cut.block))
            if seen:
                b.lines.append("}")

        b.loop(0, a.keys, cut.block, block)
        self.share()
        self.results(lambda part, row: self.finish(first, part, row))

    def turn_queries(self, first: str) -> None:
        """The tile's queries, scaled, by element of their width."""
        a, cut, b = self.a, self.cut, self.b
        scale = b.number(a.scale, self.kind)
        rows = b.place("%q", (first, a.q.row))

        def keep(values: Sequence[str], element: str, at: int) -> None:
            for i, value in enumerate(values):
                place = b.place(at, (b.plus(element, i), cut.tile))
                self.store(b.value(f"arith.mulf {value}, {scale}", self.kind), self.queries, place)

        def neighbours(element: str) -> None:
            for at in self.vectors:
                place = b.plus(b.place(rows, (element, a.q.column)), at)
                keep([self.load(self.memory(0), place, self.kind)], element, at)

        def square(number: str) -> None:
            element = b.least(b.times(number, cut.lanes), a.width - cut.lanes)
            for at in self.vectors:
                loaded = [
                    self.load(
                        self.memory(0),
                        b.plus(b.plus(rows, element), (at + i) * a.q.row),
                        self.kind,
                    )
                    for i in range(cut.lanes)
                ]
                keep(turned(b, loaded, self.kind), element, at)

        if a.q.column == 1:
            b.loop(0, -(-a.width // cut.lanes), 1, square)
        else:
            b.loop(0, a.width, 1, neighbours)

    def meet(self, first: str, start: str, count: str) -> None:
        """What `count` keys from `start` on do to the tile's sums."""
        cut, b = self.cut, self.b

        def group(number: str) -> None:
            within = b.least(b.times(number, cut.keys), b.less(count, cut.keys))
            self.score(first, within, b.plus(start, within))

        b.loop(0, b.parts(count, cut.keys), 1, group)
        self.soften(count)
        self.results(lambda part, row: self.mix(first, start, count, part, row))

    def score(self, first: str, within: str, key: str) -> None:
        """The tile's scores with a few keys from `key` on, and the largest so far."""
        a, cut, b = self.a, self.cut, self.b
        none = b.number(0.0, self.kind)
        keys = b.place("%k", (key, a.k.row))

        def step(element: int | str, sums: list[str], count: int = 1) -> list[str]:
            element = b.index(element)
            place = b.times(element, cut.tile)
            far = b.place(keys, (element, a.k.column))
            factors = self.neighbours(1, [b.plus(far, i * a.k.row) for i in range(cut.keys)], count)
            for neighbour in range(count):
                near = b.plus(place, neighbour * cut.tile)
                queries = [
                    self.load(self.queries, b.plus(near, at), self.kind) for at in self.vectors
                ]
                done = []
                for i, factor in enumerate(factors):
                    wide = factor(neighbour)
                    for v, query in enumerate(queries):
                        total = sums[i * cut.vectors + v]
                        done.append(b.multiply_add(query, wide, total, self.kind))
                sums = done
            return sums

        sums = [none] * (cut.keys * cut.vectors)
        if self.by_lane and a.k.column == 1:
            quads = a.width // QUAD
            sums = b.fold(
                quads, sums, self.kind, lambda i, sums: step(b.times(i, QUAD), sums, QUAD)
            )
            for rest in range(quads * QUAD, a.width):
                sums = step(rest, sums)
        else:
            sums = b.fold(a.width, sums, self.kind, step)
        bent = self.terms.bend(first, key)
        scores: list[list[str]] = [[] for _ in self.vectors]
        for i in range(cut.keys):
            for v, at in enumerate(self.vectors):
                value = self.terms.applied(sums[i * cut.vectors + v], i, at, key, bent)
                scores[v].append(value)
                place = b.plus(b.times(b.plus(within, i), cut.tile), at)
                self.store(value, self.scores, place)
        for at, values in zip(self.vectors, scores, strict=True):
            while len(values) > 1:
                pairs = zip(values[::2], values[1::2], strict=False)
                odd = values[-1:] if len(values) % 2 else []
                values = [b.larger(one, other, self.kind) for one, other in pairs] + odd
            most = self.load(self.most, at, self.kind)
            self.store(b.larger(values[0], most, self.kind), self.most, at)

    def neighbours(
        self, binding: int | Memory, places: Sequence[str], count: int
    ) -> list[Callable[[int], str]]:
        """For each place what lies there, and next to it, in all lanes: by the neighbour's number.

        `count` of them are read, one or a quad.
        """
        b = self.b
        memory = self.memory(binding) if isinstance(binding, int) else binding

        def at(place: str) -> Callable[[int], str]:
            if count == 1:
                return lambda _: b.spread(self.load(memory, place, "f32"), self.kind)
            four = self.load(memory, place, f"vector<{count}xf32>")
            return lambda neighbour: b.of_lane(four, neighbour, count, self.kind)

        return [at(place) for place in places]

    def soften(self, count: str) -> None:
        """Scores of a block to powers of e, and their sums."""
        cut, b = self.cut, self.b
        most = [self.load(self.most, at, self.kind) for at in self.vectors]
        sums = [self.load(self.parts, at, self.kind) for at in self.vectors]
        if self.blocks > 1:
            for v, at in enumerate(self.vectors):
                before = self.load(self.before, at, self.kind)
                fall = b.value(f"arith.subf {before}, {most[v]}", self.kind)
                fade = powers_of_e(b, fall, self.kind)
                sums[v] = b.value(f"arith.mulf {sums[v]}, {fade}", self.kind)
                self.store(fade, self.fades, at)
                self.store(most[v], self.before, at)

        def step(key: str, sums: list[str]) -> list[str]:
            done = []
            for v, at in enumerate(self.vectors):
                place = b.plus(b.times(key, cut.tile), at)
                score = self.load(self.scores, place, self.kind)
                below = b.value(f"arith.subf {score}, {most[v]}", self.kind)
                power = powers_of_e(b, below, self.kind)
                self.store(power, self.scores, place)
                done.append(b.value(f"arith.addf {sums[v]}, {power}", self.kind))
            return done

        for at, total in zip(self.vectors, b.fold(count, sums, self.kind, step), strict=True):
            self.store(total, self.parts, at)
        if self.blocks == 1:
            self.share()

    def share(self) -> None:
        """One over each sum; where it may be, 0 of a sum of nothing."""
        b = self.b
        one, none = b.number(1.0, self.kind), b.number(0.0, self.kind)
        truth = self.kind.replace("f32", "i1")
        for at in self.vectors:
            total = self.load(self.parts, at, self.kind)
            part = b.value(f"arith.divf {one}, {total}", self.kind)
            if self.a.safe:
                empty = b.value(f"arith.cmpf oeq, {total}, {none}", self.kind)
                part = b.value(f"arith.select {empty}, {none}, {part}", f"{truth}, {self.kind}")
            self.store(part, self.parts, at)

    def results(self, turn: Callable[[str, str], None]) -> None:
        """Go over all results: the first element of a few, and the first query of a few."""
        cut, b = self.cut, self.b
        wide = cut.columns * cut.lanes

        def part(number: str) -> None:
            b.loop(0, cut.tile, cut.rows, lambda row: turn(number, row))

        b.loop(0, -(-self.a.depth // wide), 1, part)

    def element(self, part: str) -> str:
        """The first element of a part of the results; the last overlaps the one before it."""
        wide = self.cut.columns * self.cut.lanes
        return self.b.least(self.b.times(part, wide), self.a.depth - wide)

    def sum_places(self, part: str, row: str) -> list[str]:
        """Where sums of a part of the results lie on the stack."""
        cut, b = self.cut, self.b
        base = b.place(0, (row, self.depth), (part, cut.columns * cut.lanes))
        return [
            b.plus(base, i * self.depth + c * cut.lanes)
            for i in range(cut.rows)
            for c in range(cut.columns)
        ]

    def mix(self, first: str, start: str, count: str, part: str, row: str) -> None:
        """Powers times values, to the sums; to the results where no other block comes."""
        a, cut, b = self.a, self.cut, self.b
        values = b.plus(b.place("%v", (start, a.v.row)), self.element(part))
        sums = [b.number(0.0, self.kind)] * (cut.rows * cut.columns)
        if self.blocks > 1:
            places = self.sum_places(part, row)
            fades = [self.of_query(self.fades, b.plus(row, i)) for i in range(cut.rows)]
            for i, place in enumerate(places):
                before = self.load(self.sums, place, self.kind)
                fade = fades[i // cut.columns]
                sums[i] = b.value(f"arith.mulf {before}, {fade}", self.kind)

        def step(key: str, sums: list[str]) -> list[str]:
            far = b.place(values, (key, a.v.row))
            loaded = [
                self.load(self.memory(2), b.plus(far, c * cut.lanes), self.kind)
                for c in range(cut.columns)
            ]
            near = b.place(row, (key, cut.tile))
            done = []
            count = QUAD if self.by_lane and cut.rows % QUAD == 0 else 1
            places = [b.plus(near, i) for i in range(0, cut.rows, count)]
            factors = self.neighbours(self.scores, places, count)
            for i in range(cut.rows):
                power = factors[i // count](i % count)
                for c, value in enumerate(loaded):
                    total = sums[i * cut.columns + c]
                    done.append(b.multiply_add(power, value, total, self.kind))
            return done

        totals = b.fold(count, sums, self.kind, step)
        if self.blocks == 1:
            self.put(first, part, row, totals)
            return
        for total, place in zip(totals, places, strict=True):
            self.store(total, self.sums, place)

    def finish(self, first: str, part: str, row: str) -> None:
        """Sums of all blocks to the results."""
        places = self.sum_places(part, row)
        self.put(first, part, row, [self.load(self.sums, place, self.kind) for place in places])

    def put(self, first: str, part: str, row: str, totals: Sequence[str]) -> None:
        """Sums, each by its query's share, to where the results lie."""
        a, cut, b = self.a, self.cut, self.b
        out = b.plus(b.place("%out", (b.plus(first, row), a.out.row)), self.element(part))
        for i in range(cut.rows):
            share = self.of_query(self.parts, b.plus(row, i))
            for c in range(cut.columns):
                value = b.value(f"arith.mulf {totals[i * cut.columns + c]}, {share}", self.kind)
                place = b.plus(out, i * a.out.row + c * cut.lanes)
                self.store(value, self.memory(3 + len(a.terms)), place)

    def of_query(self, memory: Memory, query: str) -> str:
        """A vector of what is kept for a query."""
        return self.b.spread(self.load(memory, query, "f32"), self.kind)
