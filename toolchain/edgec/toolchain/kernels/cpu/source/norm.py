"""Rows less their mean, divided by their deviation: a kernel that reads each row from memory once.

A row is a few vectors: the first walk sums them, the second sums squares of what they differ from
the mean, the third writes the result, times a scale and plus a shift, one number a column.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from edgec.toolchain.kernels.cpu.source.literals import literal
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit
from edgec.toolchain.kernels.cpu.source.writer import Writer

__all__ = ["Norm", "lanes_of", "norm_kernel"]

_ELEMENTS_OF_A_WORKGROUP = 16384
_MOST_WORKGROUPS = 64
_LEAST_LANES = 4


@dataclass(frozen=True, kw_only=True)
class Norm:
    """Rows to normalise.

    Attributes:
        rows, width: the sizes.
        epsilon: what is added to the variance.
        mean: whether the mean is subtracted; otherwise it is a norm by the mean of squares.
        scale, shift: whether the result is multiplied, and then added to, by columns.
    """

    rows: int
    width: int
    epsilon: float
    mean: bool
    scale: bool
    shift: bool


def lanes_of(width: int, unit: VectorUnit) -> int | None:
    """Values of a vector, so that a row is whole vectors; None where it is not."""
    lanes = unit.lanes
    while lanes >= _LEAST_LANES:
        if width % lanes == 0:
            return lanes
        lanes //= 2
    return None


def norm_kernel(name: str, norm: Norm, unit: VectorUnit) -> str:
    """The text of a `stream.executable` called `name` with an entry point of that name.

    Its bindings are the rows, the scale and the shift where there are such, and the result.
    """
    size = norm.rows * norm.width
    groups = max(1, min(norm.rows, _MOST_WORKGROUPS, size // _ELEMENTS_OF_A_WORKGROUP))
    writer = Writer(
        name=name,
        workgroups=(groups, 1, 1),
        sizes=[size, *[norm.width] * (norm.scale + norm.shift), size],
    )
    lanes = lanes_of(norm.width, unit) or 1
    return writer.text(_Body(norm=norm, lanes=lanes, groups=groups, unit=unit, w=writer).lines())


@dataclass(frozen=True, kw_only=True)
class _Body:
    norm: Norm
    lanes: int
    groups: int
    unit: VectorUnit
    w: Writer

    @property
    def kind(self) -> str:
        return f"vector<{self.lanes}xf32>"

    @property
    def sums(self) -> int:
        """How many vectors are summed side by side, to hide the latency of an addition."""
        return next(n for n in (4, 3, 2, 1) if self.norm.width // self.lanes % n == 0)

    def lines(self) -> Iterator[str]:
        norm, w = self.norm, self.w
        one = w.index(1)
        yield f"%zero = arith.constant dense<0.0> : {self.kind}"
        yield f"%width = arith.constant {literal(norm.width)} : f32"
        yield f"%epsilon = arith.constant {literal(norm.epsilon)} : f32"
        yield from w.share("row", "%wx", norm.rows, self.groups)
        yield f"scf.for %row = %row_from to %row_to step {one} {{"
        yield f"%start = arith.muli %row, {w.index(norm.width)} : index"
        if norm.mean:
            yield from self.walk("sum", self.added)
            yield "%mean_1 = arith.divf %sum, %width : f32"
            yield f"%mean = vector.broadcast %mean_1 : f32 to {self.kind}"
        yield from self.walk("squares", self.squared)
        yield "%variance = arith.divf %squares, %width : f32"
        yield "%above = arith.addf %variance, %epsilon : f32"
        yield "%root = math.sqrt %above : f32"
        yield "%one = arith.constant 1.0 : f32"
        yield "%factor_1 = arith.divf %one, %root : f32"
        yield f"%factor = vector.broadcast %factor_1 : f32 to {self.kind}"
        yield from self.write()
        yield "}"

    def load(self, binding: int, at: str) -> tuple[str, str]:
        name = self.w.fresh()
        return (
            name,
            f"{name} = vector.load %m{binding}[{at}] : {self.w.memory(binding)}, {self.kind}",
        )

    def walk(self, name: str, step: Callable[[str, str], tuple[list[str], str]]) -> Iterator[str]:
        """`%name`: the sum of what `step` adds for each vector of the row."""
        w, sums = self.w, self.sums
        before = [w.fresh() for _ in range(sums)]
        pairs = ", ".join(f"{b} = %zero" for b in before)
        kinds = ", ".join([self.kind] * sums)
        yield (
            f"%{name}_v:{sums} = scf.for %{name}_j = {w.index(0)} to {w.index(self.norm.width)} "
            f"step {w.index(sums * self.lanes)} iter_args({pairs}) -> ({kinds}) {{"
        )
        after = []
        for i, total in enumerate(before):
            column, at = w.fresh(), w.fresh()
            yield f"{column} = arith.addi %{name}_j, {w.index(i * self.lanes)} : index"
            yield f"{at} = arith.addi {column}, %start : index"
            value, line = self.load(0, at)
            yield line
            lines, result = step(value, total)
            yield from lines
            after.append(result)
        yield f"scf.yield {', '.join(after)} : {kinds}"
        yield "}"
        total = f"%{name}_v#0"
        for i in range(1, sums):
            both = w.fresh()
            yield f"{both} = arith.addf {total}, %{name}_v#{i} : {self.kind}"
            total = both
        yield f"%{name} = vector.reduction <add>, {total} : {self.kind} into f32"

    def added(self, value: str, total: str) -> tuple[list[str], str]:
        result = self.w.fresh()
        return [f"{result} = arith.addf {total}, {value} : {self.kind}"], result

    def squared(self, value: str, total: str) -> tuple[list[str], str]:
        lines, centred = self.centred(value)
        result = self.w.fresh()
        lines += self.w.multiply_add(result, centred, centred, total, self.kind, self.unit.fused)
        return lines, result

    def centred(self, value: str) -> tuple[list[str], str]:
        if not self.norm.mean:
            return [], value
        result = self.w.fresh()
        return [f"{result} = arith.subf {value}, %mean : {self.kind}"], result

    def write(self) -> Iterator[str]:
        """The row's result."""
        norm, w = self.norm, self.w
        yield f"scf.for %j = {w.index(0)} to {w.index(norm.width)} step {w.index(self.lanes)} {{"
        yield "%at = arith.addi %j, %start : index"
        value, line = self.load(0, "%at")
        yield line
        lines, value = self.centred(value)
        yield from lines
        result = w.fresh()
        yield f"{result} = arith.mulf {value}, %factor : {self.kind}"
        for binding, name in enumerate(
            ["arith.mulf"] * norm.scale + ["arith.addf"] * norm.shift, start=1
        ):
            column, line = self.load(binding, "%j")
            yield line
            done = w.fresh()
            yield f"{done} = {name} {result}, {column} : {self.kind}"
            result = done
        last = 1 + norm.scale + norm.shift
        yield f"vector.store {result}, %m{last}[%at] : {w.memory(last)}, {self.kind}"
        yield "}"
