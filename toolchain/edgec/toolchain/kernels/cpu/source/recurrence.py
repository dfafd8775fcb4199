"""A loop of small steps to one kernel: what it carries stays in the core's own memory.

A step is a list of stages: fills, which compute values element by element and store them, and
products of a few rows by packed weights. Weights are walked forwards in one turn and backwards in
the next, so that what the cache still holds of them is read first.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from edgec.toolchain.kernels.cpu.source.literals import literal
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit
from edgec.toolchain.kernels.cpu.source.writer import Writer, on_stack

__all__ = [
    "Apply",
    "Fill",
    "Load",
    "Node",
    "Number",
    "Panels",
    "Place",
    "Product",
    "Recurrence",
    "Stage",
    "panels",
    "recurrence_kernel",
]

_MOST_ROWS = 4


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where elements lie in a memory: at `start`, plus a step for each turn and each index.

    Attributes:
        memory: a binding, or past the last of these a piece of scratch.
        start: where the first element lies.
        turn: step from one turn to the next.
        steps: step of each axis of the fill or product.
    """

    memory: int
    start: int = 0
    turn: int = 0
    steps: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Load:
    """An element of memory."""

    place: Place


@dataclass(frozen=True, kw_only=True)
class Number:
    """The same number everywhere."""

    value: float


@dataclass(frozen=True, kw_only=True)
class Apply:
    """An operation on earlier nodes of the same fill.

    Attributes:
        name: its name in MLIR; for a comparison with its predicate, as `arith.cmpf olt`.
        operands: which nodes.
    """

    name: str
    operands: tuple[int, ...]


Node = Load | Number | Apply


@dataclass(frozen=True, kw_only=True)
class Fill:
    """Values computed and stored for every index of a domain.

    Attributes:
        sizes: the domain's axes; the last one is computed in vectors where that is possible.
        nodes: the operations, in order.
        stores: where a node's value goes, and which node.
    """

    sizes: tuple[int, ...]
    nodes: tuple[Node, ...]
    stores: tuple[tuple[Place, int], ...]

    @property
    def in_vectors(self) -> bool:
        """Whether everything lies side by side, or is one element for the whole last axis."""
        loads = all(n.place.steps[-1] in (0, 1) for n in self.nodes if isinstance(n, Load))
        return loads and all(place.steps[-1] == 1 for place, _ in self.stores)


@dataclass(frozen=True, kw_only=True)
class Panels:
    """How a product's columns are cut: panels of some vectors, the last may overlap.

    Attributes:
        rows: rows of a tile; their sums and those of a panel's columns stay in registers.
        vectors: vectors of a panel.
        lanes: values in a vector.
        starts: the first column of each panel.
    """

    rows: int
    vectors: int
    lanes: int
    starts: tuple[int, ...]

    @property
    def width(self) -> int:
        """Columns of a panel."""
        return self.vectors * self.lanes


@dataclass(frozen=True, kw_only=True)
class Product:
    """Rows times a matrix of weights.

    Attributes:
        rows, depth, columns: the sizes.
        source: where the rows lie; its axes are rows and depth.
        weights: the binding with the weights (panels x depth x panel width).
        target: where the result goes; its axes are rows and columns, which lie side by side.
    """

    rows: int
    depth: int
    columns: int
    source: Place
    weights: int
    target: Place


Stage = Fill | Product


@dataclass(frozen=True, kw_only=True)
class Recurrence:
    """A loop.

    Attributes:
        turns: how often it turns.
        bindings: elements of each tensor that it reads, then of each that it writes.
        scratch: elements of each piece of memory of its own.
        before, turn, after: the stages, in order.
    """

    turns: int
    bindings: tuple[int, ...]
    scratch: tuple[int, ...]
    before: tuple[Fill, ...]
    turn: tuple[Stage, ...]
    after: tuple[Fill, ...]

    @property
    def scratch_bytes(self) -> int:
        """How much of the stack it takes."""
        return 4 * sum(self.scratch)


def panels(rows: int, columns: int, unit: VectorUnit) -> Panels:
    """The cut that computes the fewest vectors; the widest of these, to read in long runs."""
    lanes = _lanes(columns, unit)
    tile = next(n for n in range(_MOST_ROWS, 0, -1) if rows % n == 0)
    most = max(1, min(unit.registers // 2 // tile, columns // lanes))
    vectors = min(range(1, most + 1), key=lambda v: (-(-columns // (v * lanes)) * v, -v))
    width = vectors * lanes
    count = -(-columns // width)
    starts = tuple(min(i * width, columns - width) for i in range(count))
    return Panels(rows=tile, vectors=vectors, lanes=lanes, starts=starts)


def _lanes(columns: int, unit: VectorUnit) -> int:
    lanes = unit.lanes
    while lanes > columns:
        lanes //= 2
    return lanes


def recurrence_kernel(name: str, loop: Recurrence, unit: VectorUnit) -> str:
    """The text of a `stream.executable` called `name` with an entry point of that name.

    It is one workgroup, since every turn needs all of the one before it.
    """
    writer = Writer(name=name, workgroups=(1, 1, 1), sizes=list(loop.bindings))
    return writer.text(_Body(loop=loop, unit=unit, w=writer).lines())


@dataclass(frozen=True, kw_only=True)
class _Body:
    loop: Recurrence
    unit: VectorUnit
    w: Writer

    def lines(self) -> Iterator[str]:
        loop, w = self.loop, self.w
        zero, one = w.index(0), w.index(1)
        for number, size in enumerate(loop.scratch):
            yield on_stack(f"%s{number}", f"memref<{size}xf32>")
        for stage in loop.before:
            yield from self.fill(stage, zero)
        yield f"scf.for %t = {zero} to {w.index(loop.turns)} step {one} {{"
        yield f"%odd = arith.remui %t, {w.index(2)} : index"
        yield f"%back = arith.cmpi eq, %odd, {one} : index"
        for step in loop.turn:
            if isinstance(step, Fill):
                yield from self.fill(step, "%t")
            else:
                yield from self.product(step)
        yield "}"
        for stage in loop.after:
            yield from self.fill(stage, zero)

    def memory(self, number: int) -> tuple[str, str]:
        """The name and type of a memory."""
        own = number - len(self.loop.bindings)
        if own < 0:
            return f"%m{number}", self.w.memory(number)
        return f"%s{own}", f"memref<{self.loop.scratch[own]}xf32>"

    def sum(self, start: int, terms: Sequence[tuple[int, str]], lines: list[str]) -> str:
        """The name of `start` plus every step times its index; `lines` gets what computes it."""
        w = self.w
        total = w.index(start)
        for step, index in terms:
            if step == 0:
                continue
            scaled, added = w.fresh(), w.fresh()
            lines.append(f"{scaled} = arith.muli {index}, {w.index(step)} : index")
            lines.append(f"{added} = arith.addi {total}, {scaled} : index")
            total = added
        return total

    def fill(self, fill: Fill, turn: str) -> Iterator[str]:
        """Loops over the domain, the last axis in vectors."""
        w = self.w
        zero, one = w.index(0), w.index(1)
        wide = fill.sizes[-1]
        lanes = _lanes(wide, self.unit) if fill.in_vectors else 1
        indices = []
        for size in fill.sizes[:-1]:
            indices.append(w.fresh())
            yield f"scf.for {indices[-1]} = {zero} to {w.index(size)} step {one} {{"
        number, scaled, lane = w.fresh(), w.fresh(), w.fresh()
        yield f"scf.for {number} = {zero} to {w.index(-(-wide // lanes))} step {one} {{"
        yield f"{scaled} = arith.muli {number}, {w.index(lanes)} : index"
        yield f"{lane} = arith.minui {scaled}, {w.index(wide - lanes)} : index"
        yield from self.values(fill, turn, [*indices, lane], lanes)
        yield "}"
        for _ in indices:
            yield "}"

    def values(self, fill: Fill, turn: str, indices: list[str], lanes: int) -> list[str]:
        """One vector of every node, and the stores."""
        w = self.w
        kind, truth = f"vector<{lanes}xf32>", f"vector<{lanes}xi1>"
        lines: list[str] = []
        names: list[str] = []

        def at(place: Place) -> str:
            terms = [(place.turn, turn), *zip(place.steps, indices, strict=True)]
            return self.sum(place.start, terms, lines)

        for node in fill.nodes:
            name = w.fresh()
            names.append(name)
            match node:
                case Number():
                    lines.append(f"{name} = arith.constant dense<{literal(node.value)}> : {kind}")
                case Load() if node.place.steps[-1] == 0:
                    where, one = at(node.place), w.fresh()
                    memory, of = self.memory(node.place.memory)
                    lines.append(f"{one} = memref.load {memory}[{where}] : {of}")
                    lines.append(f"{name} = vector.broadcast {one} : f32 to {kind}")
                case Load():
                    where = at(node.place)
                    memory, of = self.memory(node.place.memory)
                    lines.append(f"{name} = vector.load {memory}[{where}] : {of}, {kind}")
                case Apply():
                    operands = ", ".join(names[i] for i in node.operands)
                    kinds = f"{truth}, {kind}" if node.name == "arith.select" else kind
                    comma = "," if node.name.startswith("arith.cmpf") else ""
                    lines.append(f"{name} = {node.name}{comma} {operands} : {kinds}")
        for place, node_number in fill.stores:
            where = at(place)
            memory, of = self.memory(place.memory)
            lines.append(f"vector.store {names[node_number]}, {memory}[{where}] : {of}, {kind}")
        return lines

    def product(self, product: Product) -> Iterator[str]:
        """Loops over panels, tiles of rows and the inner dimension; the sums stay in registers."""
        w = self.w
        cut = panels(product.rows, product.columns, self.unit)
        zero, one = w.index(0), w.index(1)
        turned, count = w.fresh(), len(cut.starts)
        number, panel, row_tile, k = (w.fresh() for _ in range(4))
        yield f"scf.for {number} = {zero} to {w.index(count)} step {one} {{"
        yield f"{turned} = arith.subi {w.index(count - 1)}, {number} : index"
        yield f"{panel} = arith.select %back, {turned}, {number} : index"
        column, weights = w.fresh(), w.fresh()
        yield from w.start(column, panel, cut.width, product.columns - cut.width)
        yield f"{weights} = arith.muli {panel}, {w.index(product.depth * cut.width)} : index"
        yield f"scf.for {row_tile} = {zero} to {w.index(product.rows // cut.rows)} step {one} {{"
        lines: list[str] = []
        row = self.sum(0, [(cut.rows, row_tile)], lines)
        by_row, by_depth = product.source.steps
        source = self.sum(product.source.start, [(product.source.turn, "%t"), (by_row, row)], lines)
        target = self.sum(
            product.target.start, [(product.target.steps[0], row), (1, column)], lines
        )
        yield from lines
        kind = f"vector<{cut.lanes}xf32>"
        sums = cut.rows * cut.vectors
        nought = w.fresh()
        yield f"{nought} = arith.constant dense<0.0> : {kind}"
        before = [w.fresh() for _ in range(sums)]
        pairs = ", ".join(f"{name} = {nought}" for name in before)
        total = w.fresh()
        kinds = ", ".join([kind] * sums)
        yield (
            f"{total}:{sums} = scf.for {k} = {zero} to {w.index(product.depth)} step {one} "
            f"iter_args({pairs}) -> ({kinds}) {{"
        )
        yield from self.multiply(product, cut, k, weights, source, by_row, by_depth, before)
        yield "}"
        memory, of = self.memory(product.target.memory)
        for i in range(sums):
            r, v = divmod(i, cut.vectors)
            where = w.fresh()
            offset = r * product.target.steps[0] + v * cut.lanes
            yield f"{where} = arith.addi {target}, {w.index(offset)} : index"
            yield f"vector.store {total}#{i}, {memory}[{where}] : {of}, {kind}"
        yield "}"
        yield "}"

    def multiply(
        self,
        product: Product,
        cut: Panels,
        k: str,
        weights: str,
        source: str,
        by_row: int,
        by_depth: int,
        before: list[str],
    ) -> Iterator[str]:
        """One step of the inner dimension."""
        w = self.w
        kind = f"vector<{cut.lanes}xf32>"
        lines: list[str] = []
        at = self.sum(0, [(cut.width, k), (1, weights)], lines)
        where = self.sum(0, [(by_depth, k), (1, source)], lines)
        yield from lines
        memory, of = self.memory(product.source.memory)
        spread = []
        for r in range(cut.rows):
            place, one, all_lanes = w.fresh(), w.fresh(), w.fresh()
            yield f"{place} = arith.addi {where}, {w.index(r * by_row)} : index"
            yield f"{one} = memref.load {memory}[{place}] : {of}"
            yield f"{all_lanes} = vector.broadcast {one} : f32 to {kind}"
            spread.append(all_lanes)
        memory, of = self.memory(product.weights)
        done = [""] * (cut.rows * cut.vectors)
        for v in range(cut.vectors):
            place, loaded = w.fresh(), w.fresh()
            yield f"{place} = arith.addi {at}, {w.index(v * cut.lanes)} : index"
            yield f"{loaded} = vector.load {memory}[{place}] : {of}, {kind}"
            for r in range(cut.rows):
                i = r * cut.vectors + v
                done[i] = w.fresh()
                yield from w.multiply_add(
                    done[i], spread[r], loaded, before[i], kind, self.unit.fused
                )
        yield f"scf.yield {', '.join(done)} : {', '.join([kind] * len(done))}"
