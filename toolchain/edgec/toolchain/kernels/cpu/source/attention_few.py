"""Attention of a few queries over a cache: keys and values read once, where they lie, if at all.

A language model that writes has one query and room for many keys, most of which a mask hides: the
cache is as long as the context, and the text is not. Keys that a mask hides from a query are not
read, some neighbours at a time; nor are the values of keys whose share is 0. A vector holds
neighbouring elements of a key; the sums of some keys become one vector of scores. All scores of a
query lie on the stack, so that its softmax is the plain one.
"""

from collections.abc import Callable, Generator
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
from edgec.toolchain.kernels.cpu.source.workgroups import even, workgroups
from edgec.toolchain.kernels.cpu.source.writer import KEPT, Writer

__all__ = ["few_kernel", "lanes_for"]

_MOST_QUERIES = 4
_LEAST_LANES = 4
_STACK_SHARE = 2
_MOST_VECTORS = 16
"""Of a key, and of a value's sums."""
_CHAINS = 8
"""Sums that do not wait for each other keep multiplications busy."""
_LOWEST = float("-inf")


def lanes_for(attention: Attention, unit: VectorUnit) -> int | None:
    """Elements of a vector; None where the kernel does not take it."""
    a = attention
    if a.queries > _MOST_QUERIES or (a.q.column, a.k.column) != (1, 1):
        return None
    if (a.keys + unit.lanes) * 4 > unit.stack // _STACK_SHARE:
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
    wanted = workgroups(a.flops)
    split = even(a.queries, -(-wanted // a.count))
    writer = Writer(
        name=name,
        workgroups=(a.count, 1, split),
        sizes=[a.q.size, a.k.size, a.v.size, *(t.view.size for t in a.terms), a.out.size],
        kinds=("f32", "f32", "f32", *kinds, "f32"),
    )
    kernel = _Kernel(attention=a, lanes=lanes, body=Body(writer, fused=unit.fused))
    kernel.write(split)
    return writer.text(kernel.b.lines)


class _Kernel:
    """The kernel's body: a workgroup has a head, and some of its queries."""

    def __init__(self, *, attention: Attention, lanes: int, body: Body) -> None:
        self.a, self.lanes, self.b = attention, lanes, body
        self.kind = f"vector<{lanes}xf32>"
        self.blocks = -(-attention.keys // lanes)
        self.memory = f"memref<{self.blocks * lanes}xf32>"
        self.terms = KeyTerms(
            terms=attention.terms, first=3, lanes=lanes, fused=body.fused, w=body.writer
        )

    def write(self, split: int) -> None:
        """The whole body."""
        a, b, w = self.a, self.b, self.b.writer
        b.lines.append(f"%scores = memref.alloca() : {self.memory}")
        b.lines += heads_of_workgroup(w, "%h", a.heads)
        views = [("%q", a.q), ("%k", a.k), ("%v", a.v), ("%out", a.out)]
        views += [(f"%term{i}", term.view) for i, term in enumerate(a.terms)]
        for name, view in views:
            b.lines += start_of_head(w, name, view.start, view.heads, "%h")
        b.lines += w.share("query", "%wz", a.queries, split)
        b.loop("%query_from", "%query_to", 1, self.query)

    def query(self, number: str) -> None:
        """All of one query."""
        b = self.b
        b.lines.append(f"%r0 = arith.addi {number}, {b.index(0)} : index")
        most = self.largest(self.scored(number))
        parts = self.powers(most)
        total = b.value(f"vector.reduction <add>, {parts}", f"{self.kind} into f32")
        self.put(number, self.mixed(), total)

    # Scores

    def scored(self, number: str) -> str:
        """The scores of all keys onto the stack, and the largest by lane."""
        a, b, lanes = self.a, self.b, self.lanes
        place = b.place("%q", (number, a.q.row))
        scale = b.number(a.scale, self.kind)
        query = []
        for at in range(0, a.width, lanes):
            loaded = b.load("%m0", b.plus(place, at), b.writer.memory(0), self.kind)
            query.append(b.value(f"arith.mulf {loaded}, {scale}", self.kind))
        lowest = b.number(_LOWEST, self.kind)

        def block(number: str, so_far: list[str]) -> list[str]:
            start = b.times(number, lanes)
            b.lines.append(f"%n0 = arith.minui {start}, {b.index(a.keys - lanes)} : index")
            score = self.where(self.seen(), lambda: self.score(query), lowest)
            if a.keys % lanes:
                score = self.once(score, start)
            b.store(score, "%scores", start, self.memory, self.kind)
            return [b.larger(score, so_far[0], self.kind)]

        (largest,) = b.fold(self.blocks, [lowest], self.kind, block)
        return largest

    def score(self, query: list[str]) -> str:
        """The scores of as many keys as a vector has lanes, from `%n0` on."""
        a, b = self.a, self.b
        near = b.place("%k", ("%n0", a.k.row))
        sums = []
        for key in range(self.lanes):
            total = ""
            for number, part in enumerate(query):
                place = b.plus(near, key * a.k.row + number * self.lanes)
                loaded = b.load("%m1", place, b.writer.memory(1), self.kind)
                if total:
                    total = b.multiply_add(loaded, part, total, self.kind)
                else:
                    total = b.value(f"arith.mulf {loaded}, {part}", self.kind)
            sums.append(total)
        score = lane_sums(b, sums, self.kind)
        if a.cap:
            bent = b.value(f"math.tanh {score}", self.kind)
            score = b.value(f"arith.mulf {bent}, {b.number(a.cap, self.kind)}", self.kind)
        return self.written(self.terms.applied(score, 0, 0))

    def seen(self) -> str | None:
        """Whether terms leave any of the keys from `%n0` on; None where none says so of many."""
        found = None
        for number, term in enumerate(self.a.terms):
            if not term.view.column or (term.keep is not None and term.otherwise != _LOWEST):
                continue
            some = self.some(number, term)
            found = self.b.value(f"arith.andi {found}, {some}", "i1") if found else some
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

    def largest(self, by_lane: str) -> str:
        """The largest score, in all lanes; where it may be, a number if all are hidden."""
        b = self.b
        most = b.value(f"vector.reduction <maximumf>, {by_lane}", f"{self.kind} into f32")
        if self.a.safe:
            least = b.number(-3.4028234e38, "f32")
            most = b.value(f"arith.maximumf {most}, {least}", "f32")
        return b.spread(most, self.kind)

    def powers(self, most: str) -> str:
        """Scores to powers of e on the stack, and their sum by lane."""
        b = self.b

        def block(number: str, total: list[str]) -> list[str]:
            place = b.times(number, self.lanes)
            score = b.load("%scores", place, self.memory, self.kind)
            below = b.value(f"arith.subf {score}, {most}", self.kind)
            power = powers_of_e(b, below, self.kind)
            b.store(power, "%scores", place, self.memory, self.kind)
            return [b.value(f"arith.addf {total[0]}, {power}", self.kind)]

        (total,) = b.fold(self.blocks, [b.number(0.0, self.kind)], self.kind, block)
        return total

    # Values

    def mixed(self) -> list[str]:
        """Values times their powers, summed."""
        a, b, lanes = self.a, self.b, self.lanes
        count = a.depth // lanes
        chains = max(1, min(lanes, _CHAINS // count))
        none = b.number(0.0, self.kind)

        def block(number: str, sums: list[str]) -> list[str]:
            start = b.times(number, lanes)
            first = b.least(start, a.keys - lanes)
            powers = b.load("%scores", start, self.memory, self.kind)
            top = b.value(f"vector.reduction <maximumf>, {powers}", f"{self.kind} into f32")
            # Not a number counts as something.
            some = b.value(f"arith.cmpf une, {top}, {b.number(0.0, 'f32')}", "f32")
            return self.branch(some, lambda: self.added(first, start, sums, chains), sums)

        sums = b.fold(self.blocks, [none] * (count * chains), self.kind, block)
        whole = sums[:count]
        for at in range(count, len(sums), count):
            more = sums[at : at + count]
            whole = [
                b.value(f"arith.addf {one}, {other}", self.kind)
                for one, other in zip(whole, more, strict=True)
            ]
        return whole

    def added(self, first: str, start: str, sums: list[str], chains: int) -> list[str]:
        """Sums with the values of as many keys as a vector has lanes."""
        a, b, lanes = self.a, self.b, self.lanes
        count = a.depth // lanes
        done = list(sums)
        near = b.place("%v", (first, a.v.row))
        for key in range(lanes):
            one = b.load("%scores", b.plus(start, key), self.memory, "f32")
            power = b.spread(one, self.kind)
            for c in range(count):
                place = b.plus(near, key * a.v.row + c * lanes)
                value = b.load("%m2", place, b.writer.memory(2), self.kind)
                at = key % chains * count + c
                done[at] = b.multiply_add(power, value, done[at], self.kind)
        return done

    def put(self, number: str, sums: list[str], total: str) -> None:
        """Sums over the whole to where the result lies."""
        a, b = self.a, self.b
        one, none = b.number(1.0, "f32"), b.number(0.0, "f32")
        share = b.value(f"arith.divf {one}, {total}", "f32")
        if a.safe:
            empty = b.value(f"arith.cmpf oeq, {total}, {none}", "f32")
            share = b.value(f"arith.select {empty}, {none}, {share}", "f32")
        wide, binding = b.spread(share, self.kind), 3 + len(a.terms)
        near = b.place("%out", (number, a.out.row))
        for c, value in enumerate(sums):
            result = b.value(f"arith.mulf {value}, {wide}", self.kind)
            place = b.plus(near, c * self.lanes)
            b.store(result, f"%m{binding}", place, b.writer.memory(binding), self.kind)

    # Control

    def where(self, test: str | None, then: Callable[[], str], otherwise: str) -> str:
        """A vector if a test holds, and another if not; without a test it holds."""
        if test is None:
            return then()
        return self.branch(test, lambda: [then()], [otherwise])[0]

    def branch(self, test: str, then: Callable[[], list[str]], otherwise: list[str]) -> list[str]:
        """Vectors if a test holds, and others if not."""
        b, name = self.b, self.b.writer.fresh()
        count = len(otherwise)
        kinds = ", ".join([self.kind] * count)
        b.lines.append(f"{name}:{count} = scf.if {test} -> ({kinds}) {{")
        b.lines.append(f"scf.yield {', '.join(then())} : {kinds}")
        b.lines += ["} else {", f"scf.yield {', '.join(otherwise)} : {kinds}", "}"]
        return [f"{name}#{i}" for i in range(count)]

    def written(self, lines: Generator[str, None, str]) -> str:
        """What a generator of lines gives in the end, its lines written."""
        while True:
            try:
                self.b.lines.append(next(lines))
            except StopIteration as end:
                return str(end.value)
