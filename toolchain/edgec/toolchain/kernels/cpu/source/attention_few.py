"""Attention of a few queries over a cache: keys and values read once, where they lie, if at all.

A language model that writes has one query and room for many keys, most of which a mask hides: the
cache is as long as the context, and the text is not. Keys that a mask hides from all queries are
not read, some neighbours at a time; nor are the values of keys whose share is 0. A vector holds
neighbouring elements of a key; the sums of some keys become one vector of scores. Heads that share
keys are queries of one head here, and what is read serves all of them.

Memory gives half as much where rows are not read one behind the other (9 of 17 GB/s of an AMD EPYC
with AVX-512, a cache of 200 keys after other layers' weights). A compiler changes the order of what
is written out row by row; so rows are read by loops, whose bound is no constant.

Keys are taken in runs, whose scores lie on the stack; each query's largest score so far, its total
and its sums of values are carried on, and shrink where a run has a larger score.
"""

from collections.abc import Callable, Generator, Iterator
from functools import lru_cache

from edgec.toolchain.kernels.cpu.source.attention import (
    Attention,
    Term,
    heads_of_workgroup,
    start_of_head,
)
from edgec.toolchain.kernels.cpu.source.attention_key_terms import KeyTerms
from edgec.toolchain.kernels.cpu.source.body import Body
from edgec.toolchain.kernels.cpu.source.exponential import powers_of_e
from edgec.toolchain.kernels.cpu.source.turned import lane_sums
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit
from edgec.toolchain.kernels.cpu.source.workgroups import workgroups
from edgec.toolchain.kernels.cpu.source.writer import KEPT, Writer, on_stack

__all__ = ["few_kernel", "lanes_for"]

_MOST_QUERIES = 4
_MOST_HIDDEN = 15
"""Queries, where a mask may hide keys: another kernel is faster with each key, and reads all."""
_LEAST_LANES = 4
_MOST_VECTORS = 16
"""Of a key, and of a value's sums."""
_CHAINS = 8
"""Sums that do not wait for each other keep multiplications busy."""
_MOST_SHARES = 8
"""Workgroups for which a head's queries are parted: a phone's cores. Each part reads all keys."""
_RUN = 512
"""Keys of a run: their scores stay in the nearest cache, and sums shrink rarely."""
_LOWEST = float("-inf")
_LEAST = -3.4028234e38
"""Below all scores but minus infinity, from which nothing can be subtracted."""


def lanes_for(attention: Attention, unit: VectorUnit) -> int | None:
    """Elements of a vector; None where the kernel does not take it."""
    a = attention
    most = _MOST_HIDDEN if any(map(_hides, a.terms)) else _MOST_QUERIES
    if a.queries > most or (a.q.column, a.k.column) != (1, 1):
        return None
    lanes = unit.lanes
    while lanes >= _LEAST_LANES:
        whole = a.width % lanes == 0 and a.depth % lanes == 0
        if whole and lanes <= a.keys and max(a.width, a.depth) <= _MOST_VECTORS * lanes:
            return lanes
        lanes //= 2
    return None


@lru_cache(maxsize=KEPT)
def few_kernel(name: str, attention: Attention, lanes: int, unit: VectorUnit) -> str:
    """The text of the kernel; its bindings are queries, keys, values, terms, result."""
    a = attention
    kinds = ("f32" if term.keep is None else "i8" for term in a.terms)
    wanted = min(workgroups(a.flops), _MOST_SHARES)
    # Who shares a head takes it at the same time, so that memory gives its keys once.
    queries = -(-a.queries // -(-wanted // a.count))
    writer = Writer(
        name=name,
        workgroups=(-(-a.queries // queries), 1, a.count),
        sizes=[a.q.size, a.k.size, a.v.size, *(t.view.size for t in a.terms), a.out.size],
        kinds=("f32", a.kept, a.kept, *kinds, "f32"),
    )
    body = Body(writer, fused=unit.fused)
    kernel = _Kernel(
        attention=a,
        lanes=lanes,
        body=body,
        queries=queries,
        held=unit.registers // 2,
    )
    kernel.write()
    return writer.text(body.lines)


class _Kernel:
    """The kernel's body: a workgroup has a head, and so many of its queries."""

    def __init__(
        self, *, attention: Attention, lanes: int, body: Body, queries: int, held: int
    ) -> None:
        self.a, self.lanes, self.b, self.queries = attention, lanes, body, queries
        self.held = held
        self.kind = f"vector<{lanes}xf32>"
        self.blocks = -(-attention.keys // lanes)
        self.run = min(self.blocks, max(1, _RUN // lanes))
        # What each query has on the stack; a block's sums by key and lane are `%dots`.
        self.own = {
            "%asked": attention.width,
            "%dots": lanes * lanes,
            "%scores": self.run * lanes,
            "%tops": lanes,
            "%most": 1,
            "%total": lanes,
            "%sums": attention.depth,
        }
        self.memory = {name: f"memref<{queries * size}xf32>" for name, size in self.own.items()}
        self.memory["%any"] = "memref<1xf32>"
        self.terms = KeyTerms(
            terms=attention.terms, first=3, lanes=lanes, fused=body.fused, w=body.writer
        )

    def write(self) -> None:
        """The whole body."""
        a, b, w = self.a, self.b, self.b.writer
        b.lines += [on_stack(name, kind) for name, kind in self.memory.items()]
        b.lines += heads_of_workgroup(w, "%h", a.heads, "%wz")
        views = [("%q", a.q), ("%k", a.k), ("%v", a.v), ("%out", a.out)]
        views += [(f"%term{i}", term.view) for i, term in enumerate(a.terms)]
        for name, view in views:
            b.lines += start_of_head(w, name, view.start, view.heads, "%h")
        # Where queries cannot be shared evenly, the last workgroup's overlap those before.
        b.lines += w.start("%first", "%wx", self.queries, a.queries - self.queries)
        self.each(self.begin)
        b.loop(0, self.blocks, self.run, self.keys)
        self.each(self.put)

    def begin(self, at: str) -> None:
        """A query times the scale onto the stack; of it nothing is known yet."""
        a, b, none = self.a, self.b, self.b.number(0.0, self.kind)
        scale = b.number(a.scale, self.kind)
        near = b.place("%q", (b.plus("%first", at), a.q.row))
        for start in range(0, a.width, self.lanes):
            loaded = b.load("%m0", b.plus(near, start), b.writer.memory(0), self.kind)
            self.keep("%asked", b.value(f"arith.mulf {loaded}, {scale}", self.kind), at, start)
        self.keep("%most", b.number(_LEAST, "f32"), at)
        self.keep("%total", none, at)
        for start in range(0, a.depth, self.lanes):
            self.keep("%sums", none, at, start)

    def keys(self, first: str) -> None:
        """All of a run of keys, whose first block is numbered `first`."""
        b = self.b
        stop = b.least(b.plus(first, self.run), self.blocks)
        none = b.number(0.0, "f32")
        self.keep("%any", none)
        self.each(lambda at: self.keep("%tops", b.number(_LOWEST, self.kind), at))
        b.loop(first, stop, 1, lambda block: self.scored(block, first))
        some = b.value(f"arith.cmpf une, {self.kept('%any', 'f32')}, {none}", "f32")
        b.lines.append(f"scf.if {some} {{")
        self.each(lambda at: self.powers(at, b.less(stop, first)))
        b.loop(first, stop, 1, lambda block: self.mixed(block, first))
        b.lines.append("}")

    def rows(self, start: str) -> str:
        """How many keys a block has: all lanes, and no constant to whoever unrolls."""
        return self.b.least(self.b.less(self.a.keys, start), self.lanes)

    # Scores

    def scored(self, block: str, first: str) -> None:
        """The scores of a block of keys onto the stack, and the largest by lane, for each query."""
        a, b, lanes = self.a, self.b, self.lanes
        start, near = b.times(block, lanes), b.times(b.less(block, first), lanes)
        b.lines.append(f"%n0 = arith.minui {start}, {b.index(a.keys - lanes)} : index")
        some = self.seen_by_any()
        if some is not None:
            b.lines.append(f"scf.if {some} {{")
        self.keep("%any", b.number(1.0, "f32"))
        self.multiplied()
        self.each(lambda at: self.score(at, start, near))
        if some is not None:
            b.lines.append("} else {")
            self.each(lambda at: self.keep("%scores", b.number(_LOWEST, self.kind), at, near))
            b.lines.append("}")

    def multiplied(self) -> None:
        """Sums by lane of each key from `%n0` on with each query."""
        a, b, lanes = self.a, self.b, self.lanes
        near = b.place("%k", ("%n0", a.k.row))
        for group in self.groups(a.width):

            def key(number: str, group: range = group) -> None:
                place = b.place(near, (number, a.k.row))
                totals = dict.fromkeys(group, "")
                for start in range(0, a.width, lanes):
                    row = self.kept_row(1, b.plus(place, start))
                    for at, total in totals.items():
                        part = self.kept("%asked", self.kind, b.index(at), start)
                        totals[at] = (
                            b.multiply_add(row, part, total, self.kind)
                            if total
                            else b.value(f"arith.mulf {row}, {part}", self.kind)
                        )
                for at, total in totals.items():
                    self.keep("%dots", total, b.index(at), b.times(number, lanes))

            b.loop(0, self.rows("%n0"), 1, key)

    def score(self, at: str, start: str, near: str) -> None:
        """A query's scores of a block from its sums by lane, to `near` on the stack."""
        a, b, lanes = self.a, self.b, self.lanes
        b.lines.append(f"%r0 = arith.addi %first, {at} : index")
        sums = [self.kept("%dots", self.kind, at, key * lanes) for key in range(lanes)]
        score = lane_sums(b, sums, self.kind)
        if a.cap:
            bent = b.value(f"math.tanh {score}", self.kind)
            score = b.value(f"arith.mulf {bent}, {b.number(a.cap, self.kind)}", self.kind)
        score = self.written(self.terms.applied(score, 0, 0))
        if a.keys % lanes:
            score = self.once(score, start)
        self.keep("%scores", score, at, near)
        top = self.kept("%tops", self.kind, at)
        self.keep("%tops", b.larger(score, top, self.kind), at)

    def seen_by_any(self) -> str | None:
        """Whether terms leave any of the keys from `%n0` on to any query; None where none says."""
        b, none = self.b, self.b.value("arith.constant 0", "i1")

        def query(at: str, so_far: list[str]) -> list[str]:
            b.lines.append(f"%r0 = arith.addi %first, {at} : index")
            found = self.seen()
            return [b.value(f"arith.ori {so_far[0]}, {found}", "i1")]

        if not self.hiding():
            return None
        return b.fold(self.queries, [none], "i1", query)[0]

    def hiding(self) -> list[tuple[int, Term]]:
        """The terms that can hide neighbouring keys, with their numbers."""
        return [(number, term) for number, term in enumerate(self.a.terms) if _hides(term)]

    def seen(self) -> str:
        """Whether terms leave any of the keys from `%n0` on to the query `%r0`."""
        b = self.b
        found = b.value("arith.constant 1", "i1")
        for number, term in self.hiding():
            found = b.value(f"arith.andi {found}, {self.some(number, term)}", "i1")
        return found

    def some(self, number: int, term: Term) -> str:
        """Whether one term leaves any of these keys."""
        b, name = self.b, self.b.writer.fresh()
        self.b.lines += self.terms.read(number, 0, 0, name)
        truth = f"vector<{self.lanes}xi1>"
        if term.keep is None:
            lowest = b.number(_LOWEST if term.factor > 0 else -_LOWEST, self.kind)
            kept = b.value(f"arith.cmpf une, {name}, {lowest}", self.kind)
        else:
            bytes_ = f"vector<{self.lanes}xi8>"
            none = b.value("arith.constant dense<0>", bytes_)
            kept = b.value(f"arith.cmpi {'ne' if term.keep else 'eq'}, {name}, {none}", bytes_)
        return b.value(f"vector.reduction <or>, {kept}", f"{truth} into i1")

    def once(self, score: str, start: str) -> str:
        """Scores without those of keys that the block before had: the last block overlaps it."""
        b, lanes = self.b, self.lanes
        numbers = ", ".join(map(str, range(lanes)))
        wide, truth = f"vector<{lanes}xindex>", f"vector<{lanes}xi1>"
        places = b.value(f"arith.constant dense<[{numbers}]>", wide)
        again = b.value(f"vector.broadcast {b.less(start, '%n0')}", f"index to {wide}")
        new = b.value(f"arith.cmpi uge, {places}, {again}", wide)
        lowest = b.number(_LOWEST, self.kind)
        return b.value(f"arith.select {new}, {score}, {lowest}", f"{truth}, {self.kind}")

    def powers(self, at: str, count: str) -> None:
        """A run's scores to powers of e on the stack; what a query carries on shrinks to them."""
        b, kind = self.b, self.kind
        top = b.value(
            f"vector.reduction <maximumf>, {self.kept('%tops', kind, at)}", f"{kind} into f32"
        )
        before = self.kept("%most", "f32", at)
        most = b.value(f"arith.maximumf {top}, {before}", "f32")
        self.keep("%most", most, at)
        less = b.spread(b.value(f"arith.subf {before}, {most}", "f32"), kind)
        factor = powers_of_e(b, less, kind)
        for start in range(0, self.a.depth, self.lanes):
            so_far = self.kept("%sums", kind, at, start)
            self.keep("%sums", b.value(f"arith.mulf {so_far}, {factor}", kind), at, start)
        wide = b.spread(most, kind)

        def block(number: str, total: list[str]) -> list[str]:
            near = b.times(number, self.lanes)
            below = b.value(f"arith.subf {self.kept('%scores', kind, at, near)}, {wide}", kind)
            power = powers_of_e(b, below, kind)
            self.keep("%scores", power, at, near)
            return [b.value(f"arith.addf {total[0]}, {power}", kind)]

        shrunk = b.value(f"arith.mulf {self.kept('%total', kind, at)}, {factor}", kind)
        (total,) = b.fold(count, [shrunk], kind, block)
        self.keep("%total", total, at)

    # Values

    def mixed(self, block: str, first: str) -> None:
        """Values of a block of keys times their powers, added to each query's sums."""
        b = self.b
        near = b.times(b.less(block, first), self.lanes)

        def query(at: str, so_far: list[str]) -> list[str]:
            powers = self.kept("%scores", self.kind, at, near)
            top = b.value(f"vector.reduction <maximumf>, {powers}", f"{self.kind} into f32")
            # Not a number counts as something.
            some = b.value(f"arith.cmpf une, {top}, {b.number(0.0, 'f32')}", "f32")
            return [b.value(f"arith.ori {so_far[0]}, {some}", "i1")]

        none = b.value("arith.constant 0", "i1")
        (some,) = b.fold(self.queries, [none], "i1", query)
        b.lines.append(f"scf.if {some} {{")
        start = b.least(b.times(block, self.lanes), self.a.keys - self.lanes)
        for group in self.groups(self.a.depth):
            self.added(group, start, near)
        b.lines.append("}")

    def added(self, group: range, start: str, near: str) -> None:
        """Some queries' sums with the values of as many keys as a vector has lanes.

        Args:
            group: the queries.
            start: the first key.
            near: where the block's powers lie on the stack, among a query's.
        """
        a, b, kind = self.a, self.b, self.kind
        places = [(at, c) for at in group for c in range(0, a.depth, self.lanes)]
        # One more chain for every other key, where there would be few.
        chains = max(1, min(self.lanes, _CHAINS // len(places)))
        values = b.place("%v", (start, a.v.row))
        first = [self.kept("%sums", kind, b.index(at), c) for at, c in places]
        none = b.number(0.0, kind)

        def keys(number: str, sums: list[str]) -> list[str]:
            done = []
            for chain in range(chains):
                key = b.plus(b.times(number, chains), chain)
                row = b.place(values, (key, a.v.row))
                powers = {
                    at: b.spread(self.kept("%scores", "f32", b.index(at), b.plus(near, key)), kind)
                    for at in group
                }
                loaded = {
                    c: self.kept_row(2, b.plus(row, c)) for c in range(0, a.depth, self.lanes)
                }
                so_far = sums[chain * len(places) :]
                done += [
                    b.multiply_add(powers[at], loaded[c], total, kind)
                    for (at, c), total in zip(places, so_far, strict=False)
                ]
            return done

        rounds = self.b.value(f"arith.divui {self.rows(start)}, {b.index(chains)}", "index")
        sums = b.fold(rounds, first + [none] * (len(places) * (chains - 1)), kind, keys)
        for number, (at, c) in enumerate(places):
            total = sums[number]
            for more in sums[number + len(places) :: len(places)]:
                total = b.value(f"arith.addf {total}, {more}", kind)
            self.keep("%sums", total, b.index(at), c)

    def put(self, at: str) -> None:
        """A query's sums over the whole to where the result lies."""
        a, b = self.a, self.b
        by_lane = self.kept("%total", self.kind, at)
        total = b.value(f"vector.reduction <add>, {by_lane}", f"{self.kind} into f32")
        one, none = b.number(1.0, "f32"), b.number(0.0, "f32")
        share = b.value(f"arith.divf {one}, {total}", "f32")
        if a.safe:
            empty = b.value(f"arith.cmpf oeq, {total}, {none}", "f32")
            share = b.value(f"arith.select {empty}, {none}, {share}", "f32")
        wide, binding = b.spread(share, self.kind), 3 + len(a.terms)
        near = b.place("%out", (b.plus("%first", at), a.out.row))
        for c in range(0, a.depth, self.lanes):
            result = b.value(
                f"arith.mulf {self.kept('%sums', self.kind, at, c)}, {wide}", self.kind
            )
            memory = b.writer.memory(binding)
            b.store(result, f"%m{binding}", b.plus(near, c), memory, self.kind)

    def kept_row(self, binding: int, place: str) -> str:
        """Neighbours out of a key or value, in f32."""
        b, kept = self.b, self.a.kept
        stored = self.kind.replace("f32", kept)
        found = b.load(f"%m{binding}", place, b.writer.memory(binding), stored)
        if kept == "f32":
            return found
        return b.value(f"arith.extf {found}", f"{stored} to {self.kind}")

    # Registers and the stack

    def groups(self, size: int) -> Iterator[range]:
        """The queries that a row of so many elements meets at once, as many as registers hold."""
        most = max(1, self.held // (size // self.lanes))
        for first in range(0, self.queries, most):
            yield range(first, min(first + most, self.queries))

    def keep(self, name: str, value: str, at: str | None = None, near: int | str = 0) -> None:
        """An element (`%any`, `%most`) or a vector to its place on the stack, as `kept` has it."""
        kind = "f32" if name in ("%any", "%most") else self.kind
        self.b.store(value, name, self.place(name, at, near), self.memory[name], kind)

    def kept(self, name: str, kind: str, at: str | None = None, near: int | str = 0) -> str:
        """What lies on the stack, of the workgroup's query `at`, at `near` of what it has."""
        return self.b.load(name, self.place(name, at, near), self.memory[name], kind)

    def place(self, name: str, at: str | None, near: int | str) -> str:
        """Where it lies."""
        if at is None:
            return self.b.index(near)
        return self.b.plus(self.b.times(at, self.own[name]), near)

    # Control

    def each(self, turn: Callable[[str], None]) -> None:
        """Once for each of the workgroup's queries."""
        self.b.loop(0, self.queries, 1, turn)

    def written(self, lines: Generator[str, None, str]) -> str:
        """What a generator of lines gives in the end, its lines written."""
        while True:
            try:
                self.b.lines.append(next(lines))
            except StopIteration as end:
                return str(end.value)


def _hides(term: Term) -> bool:
    """Whether a term may hide some keys and not others."""
    return bool(term.view.column) and (term.keep is None or term.otherwise == _LOWEST)
