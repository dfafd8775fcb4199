"""The body of a kernel, written value by value: each operation gives the name of its result."""

from collections.abc import Callable, Sequence

from edgec.toolchain.kernels.cpu.source.literals import literal
from edgec.toolchain.kernels.cpu.source.writer import Writer

__all__ = ["Body"]


class Body:
    """Lines so far. What a method gives is an SSA name; indices may be given as numbers, too."""

    def __init__(self, writer: Writer, *, fused: bool) -> None:
        self.writer = writer
        self.fused = fused
        self.lines: list[str] = []

    def value(self, text: str, kind: str) -> str:
        """What an operation makes; `text` is all of it before its type."""
        name = self.writer.fresh()
        self.lines.append(f"{name} = {text} : {kind}")
        return name

    def index(self, value: int | str) -> str:
        """The name of an index that may be a number."""
        return self.writer.index(value) if isinstance(value, int) else value

    def plus(self, one: int | str, other: int | str) -> str:
        """The sum of two indices."""
        if one == 0 or other == 0:
            return self.index(other if one == 0 else one)
        return self.value(f"arith.addi {self.index(one)}, {self.index(other)}", "index")

    def times(self, one: str, factor: int) -> str:
        """An index times a number."""
        if factor in (0, 1):
            return one if factor else self.index(0)
        return self.value(f"arith.muli {one}, {self.index(factor)}", "index")

    def less(self, one: int | str, other: int | str) -> str:
        """The difference of two indices."""
        return self.value(f"arith.subi {self.index(one)}, {self.index(other)}", "index")

    def least(self, one: int | str, other: int | str) -> str:
        """The smaller of two indices."""
        return self.value(f"arith.minui {self.index(one)}, {self.index(other)}", "index")

    def parts(self, total: str, size: int) -> str:
        """How many parts of a size hold a total."""
        return self.value(f"arith.ceildivui {total}, {self.index(size)}", "index")

    def place(self, base: int | str, *steps: tuple[str, int]) -> str:
        """A base and indices times their steps."""
        for index, step in steps:
            base = self.plus(base, self.times(index, step)) if step else base
        return self.index(base)

    def number(self, value: float, kind: str) -> str:
        """A constant of f32 or of a vector of them."""
        wide = f"dense<{literal(value)}>" if kind.startswith("vector") else literal(value)
        return self.value(f"arith.constant {wide}", kind)

    def multiply_add(self, a: str, b: str, total: str, kind: str) -> str:
        """`a * b + total`."""
        result = self.writer.fresh()
        self.lines += self.writer.multiply_add(result, a, b, total, kind, self.fused)
        return result

    def larger(self, one: str, other: str, kind: str) -> str:
        """The larger of two vectors, element by element; the other where one of them is NaN."""
        truth = kind.replace("f32", "i1")
        above = self.value(f"arith.cmpf ogt, {one}, {other}", kind)
        return self.value(f"arith.select {above}, {one}, {other}", f"{truth}, {kind}")

    def load(self, memory: str, place: str, of: str, kind: str) -> str:
        """A vector of neighbours, or an element, out of memory of the type `of`."""
        if kind.startswith("vector"):
            return self.value(f"vector.load {memory}[{place}]", f"{of}, {kind}")
        return self.value(f"memref.load {memory}[{place}]", of)

    def store(self, what: str, memory: str, place: str, of: str, kind: str) -> None:
        """A vector to neighbours, or an element, into memory of the type `of`."""
        if kind.startswith("vector"):
            self.lines.append(f"vector.store {what}, {memory}[{place}] : {of}, {kind}")
        else:
            self.lines.append(f"memref.store {what}, {memory}[{place}] : {of}")

    def spread(self, one: str, kind: str) -> str:
        """A vector whose elements are all the same; its type says of which type."""
        element = kind.rsplit("x", 1)[1].rstrip(">")
        return self.value(f"vector.broadcast {one}", f"{element} to {kind}")

    def of_lane(self, vector: str, lane: int, lanes: int, kind: str) -> str:
        """One lane of a vector of f32 of so many, in all lanes of another type."""
        width = int(kind.removeprefix("vector<").split("x")[0])
        picked, read = ", ".join([str(lane)] * width), f"vector<{lanes}xf32>"
        return self.value(f"vector.shuffle {vector}, {vector} [{picked}]", f"{read}, {read}")

    def loop(
        self,
        start: int | str,
        stop: int | str,
        step: int,
        turn: Callable[[str], None],
    ) -> None:
        """A loop; `turn` writes what is done with its counter."""
        counter = self.writer.fresh()
        self.lines.append(
            f"scf.for {counter} = {self.index(start)} to {self.index(stop)} "
            f"step {self.index(step)} {{"
        )
        turn(counter)
        self.lines.append("}")

    def fold(
        self,
        stop: int | str,
        first: Sequence[str],
        kind: str,
        turn: Callable[[str, list[str]], list[str]],
        *,
        start: int | str = 0,
    ) -> list[str]:
        """What becomes of some values of a type over a loop; `turn` writes one step."""
        counter, result = self.writer.fresh(), self.writer.fresh()
        names = [self.writer.fresh() for _ in first]
        pairs = ", ".join(f"{name} = {value}" for name, value in zip(names, first, strict=True))
        kinds = ", ".join([kind] * len(first))
        span = f"{self.index(start)} to {self.index(stop)} step {self.index(1)}"
        self.lines.append(
            f"{result}:{len(first)} = scf.for {counter} = {span} iter_args({pairs}) -> ({kinds}) {{"
        )
        self.lines.append(f"scf.yield {', '.join(turn(counter, names))} : {kinds}")
        self.lines.append("}")
        return [f"{result}#{i}" for i in range(len(first))]
