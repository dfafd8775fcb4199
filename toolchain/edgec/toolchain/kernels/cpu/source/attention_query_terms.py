"""What becomes of scores of neighbouring queries: a cap, what is added, and which are kept."""

import math
from collections.abc import Mapping

from edgec.toolchain.kernels.cpu.source.attention import Attention, Term
from edgec.toolchain.kernels.cpu.source.attention_tiling import QueryTiling
from edgec.toolchain.kernels.cpu.source.body import Body
from edgec.toolchain.kernels.cpu.source.turned import turned

__all__ = ["Memory", "QueryTerms"]

Memory = tuple[str, str]
"""The name of memory, and its type."""


class QueryTerms:
    """The terms of an attention whose vectors hold neighbouring queries.

    Those that differ by query and by key are turned onto the stack, as the scores lie.
    """

    def __init__(
        self, *, attention: Attention, cut: QueryTiling, body: Body, bends: Mapping[int, Memory]
    ) -> None:
        self.a, self.cut, self.b, self.bends = attention, cut, body, bends
        self.kind = f"vector<{cut.lanes}xf32>"

    def bend(self, first: str, key: str) -> dict[int, str]:
        """Terms that differ by query and key onto the stack; how far into each the key lies."""
        return {number: self._bend(number, first, key) for number in self.bends}

    def applied(self, score: str, i: int, at: int, key: str, bent: Mapping[int, str]) -> str:
        """What becomes of the products of the tile's queries with a key, `i` after `key`."""
        b = self.b
        if self.a.cap:
            cap = b.number(self.a.cap, self.kind)
            score = b.value(f"math.tanh {score}", self.kind)
            score = b.value(f"arith.mulf {score}, {cap}", self.kind)
        for number, term in enumerate(self.a.terms):
            if number in bent:
                place = b.plus(bent[number], i * self.cut.tile + at)
                seen = self._load(self.bends[number], place, self.kind)
            else:
                place = b.place(f"%term{number}", (b.plus(key, i), term.view.column))
                seen = self._said_of_all(number, place)
            score = (
                self._add(term, seen, score)
                if term.keep is None
                else self._choose(term, seen, score)
            )
        return score

    def seen(self, first: str, start: str) -> str | None:
        """Whether masks leave any of a block's keys to any of the tile's queries.

        None where no mask says so of many keys. It may hold though they leave none.
        """
        b, found = self.b, None
        for number, term in enumerate(self.a.terms):
            if term.keep is None or term.otherwise != -math.inf or not term.view.column:
                continue
            some = self._some(number, term.keep, first, start)
            found = b.value(f"arith.andi {found}, {some}", "i1") if found else some
        return found

    def _some(self, number: int, keep: bool, first: str, start: str) -> str:
        """Whether one mask leaves any key to any query."""
        b, view = self.b, self.a.terms[number].view
        wide = min(4 * self.cut.lanes, self.a.keys)
        kind, truth = f"vector<{wide}xi8>", f"vector<{wide}xi1>"
        none = b.value("arith.constant dense<0>", kind)
        memory = self._binding(number)

        def query(row: str, so_far: list[str]) -> list[str]:
            rows = b.place(f"%term{number}", (b.plus(first, row), view.row))

            def keys(part: str, so_far: list[str]) -> list[str]:
                key = b.least(b.plus(start, b.times(part, wide)), self.a.keys - wide)
                value = self._load(memory, b.plus(rows, key), kind)
                if not keep:
                    hidden = b.value(f"arith.cmpi eq, {value}, {none}", kind)
                    value = b.value(f"arith.extui {hidden}", f"{truth} to {kind}")
                return [b.value(f"arith.ori {so_far[0]}, {value}", kind)]

            return b.fold(-(-self.cut.block // wide), so_far, kind, keys)

        (found,) = b.fold(self.cut.tile if view.row else 1, [none], kind, query)
        some = b.value(f"arith.cmpi ne, {found}, {none}", kind)
        return b.value(f"vector.reduction <or>, {some}", f"{truth} into i1")

    def _bend(self, number: int, first: str, key: str) -> str:
        """One term, for keys from `key` on; how far into what lies there it is."""
        cut, b, view = self.cut, self.b, self.a.terms[number].view
        start = b.least(key, self.a.keys - cut.bends)
        rows = b.place(f"%term{number}", (first, view.row), (start, view.column))
        for far in range(0, cut.bends, cut.lanes):
            for at in range(0, cut.tile, cut.lanes):
                loaded = [
                    self._said(
                        number, b.plus(rows, (at + i) * view.row + far * view.column), cut.lanes
                    )
                    for i in range(cut.lanes)
                ]
                for i, value in enumerate(turned(b, loaded, self.kind)):
                    name, memory = self.bends[number]
                    b.store(value, name, b.index((far + i) * cut.tile + at), memory, self.kind)
        return b.times(b.less(key, start), cut.tile)

    def _said(self, number: int, place: str, lanes: int) -> str:
        """What a term says of neighbouring keys as f32, where bytes are numbers."""
        term, b = self.a.terms[number], self.b
        memory = self._binding(number)
        element = "f32" if term.keep is None else "i8"
        kind = f"vector<{lanes}x{element}>"
        if term.view.column:
            value = self._load(memory, place, kind)
        else:
            value = b.spread(self._load(memory, place, element), kind)
        return (
            value
            if element == "f32"
            else b.value(f"arith.uitofp {value}", f"{kind} to {self.kind}")
        )

    def _said_of_all(self, number: int, place: str) -> str:
        """What a term says of a key, whatever the query."""
        element = "f32" if self.a.terms[number].keep is None else "i8"
        one = self._load(self._binding(number), place, element)
        if element == "i8":
            one = self.b.value(f"arith.uitofp {one}", "i8 to f32")
        return self.b.spread(one, self.kind)

    def _add(self, term: Term, seen: str, score: str) -> str:
        """A score and what is added to it."""
        if term.factor == 1:
            return self.b.value(f"arith.addf {score}, {seen}", self.kind)
        factor = self.b.number(term.factor, self.kind)
        return self.b.multiply_add(seen, factor, score, self.kind)

    def _choose(self, term: Term, seen: str, score: str) -> str:
        """A score where it is kept."""
        b = self.b
        none, other = b.number(0.0, self.kind), b.number(term.otherwise, self.kind)
        kept = b.value(f"arith.cmpf {'une' if term.keep else 'oeq'}, {seen}, {none}", self.kind)
        truth = self.kind.replace("f32", "i1")
        return b.value(f"arith.select {kept}, {score}, {other}", f"{truth}, {self.kind}")

    def _binding(self, number: int) -> Memory:
        """The memory that a term is in."""
        return f"%m{3 + number}", self.b.writer.memory(3 + number)

    def _load(self, memory: Memory, place: str, kind: str) -> str:
        return self.b.load(memory[0], place, memory[1], kind)
