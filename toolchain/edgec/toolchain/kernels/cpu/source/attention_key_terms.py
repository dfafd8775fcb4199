"""What becomes of scores of neighbouring keys: what is added to them, and which are kept."""

from collections.abc import Generator, Iterator
from dataclasses import dataclass

from edgec.toolchain.kernels.cpu.source.attention import Term
from edgec.toolchain.kernels.cpu.source.literals import literal
from edgec.toolchain.kernels.cpu.source.writer import Writer

__all__ = ["KeyTerms"]


@dataclass(frozen=True, kw_only=True)
class KeyTerms:
    """The terms of an attention whose vectors hold neighbouring keys.

    They are read for the tile's first query `%r0` and the panel's first key `%n0`, at `%term0`…

    Attributes:
        terms: in order.
        first: the binding of the first.
        lanes: keys of a vector.
        fused: whether the processor multiplies and adds at once.
    """

    terms: tuple[Term, ...]
    first: int
    lanes: int
    fused: bool
    w: Writer

    @property
    def kind(self) -> str:
        """A vector of scores."""
        return f"vector<{self.lanes}xf32>"

    def applied(self, value: str, row: int, column: int) -> Generator[str, None, str]:
        """The name of a vector of scores, `row` and `column` after the first, with all terms."""
        for number, term in enumerate(self.terms):
            after, seen = self.w.fresh(), self.w.fresh()
            yield from self.read(number, row, column, seen)
            if term.keep is None:
                yield from self._add(term, seen, value, after)
            else:
                yield from self._choose(term, seen, value, after)
            value = after
        return value

    def read(self, number: int, row: int, column: int, name: str) -> Iterator[str]:
        """`name`: what a term says of neighbouring keys of a query."""
        w, view = self.w, self.terms[number].view
        binding = self.first + number
        memory = w.memory(binding)
        element = memory.rsplit("x", 1)[1].rstrip(">")
        kind = f"vector<{self.lanes}x{element}>"
        names = [w.fresh() for _ in range(5)]
        yield f"{names[0]} = arith.muli %r0, {w.index(view.row)} : index"
        yield f"{names[1]} = arith.addi %term{number}, {names[0]} : index"
        offset = w.index(row * view.row + column * view.column)
        yield f"{names[2]} = arith.addi {names[1]}, {offset} : index"
        if not view.column:
            yield f"{names[3]} = memref.load %m{binding}[{names[2]}] : {memory}"
            yield f"{name} = vector.broadcast {names[3]} : {element} to {kind}"
            return
        yield f"{names[4]} = arith.addi {names[2]}, %n0 : index"
        yield f"{name} = vector.load %m{binding}[{names[4]}] : {memory}, {kind}"

    def _add(self, term: Term, seen: str, value: str, after: str) -> Iterator[str]:
        """`after`: a score and what is added to it."""
        kind = self.kind
        if term.factor == 1:
            yield f"{after} = arith.addf {value}, {seen} : {kind}"
            return
        factor = self.w.fresh()
        yield f"{factor} = arith.constant dense<{literal(term.factor)}> : {kind}"
        yield from self.w.multiply_add(after, seen, factor, value, kind, self.fused)

    def _choose(self, term: Term, seen: str, value: str, after: str) -> Iterator[str]:
        """`after`: a score where it is kept."""
        none, truth, low = (self.w.fresh() for _ in range(3))
        bytes_, kind = f"vector<{self.lanes}xi8>", self.kind
        yield f"{none} = arith.constant dense<0> : {bytes_}"
        yield f"{truth} = arith.cmpi {'ne' if term.keep else 'eq'}, {seen}, {none} : {bytes_}"
        yield f"{low} = arith.constant dense<{literal(term.otherwise)}> : {kind}"
        yield f"{after} = arith.select {truth}, {value}, {low} : vector<{self.lanes}xi1>, {kind}"
