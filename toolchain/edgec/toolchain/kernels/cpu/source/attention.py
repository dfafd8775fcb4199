"""Softmax of scaled products of queries and keys, times values: two kernels, nothing in between.

The first packs the keys: each panel of a few vectors of keys lies together, turned so that one
vector holds the same element of neighbouring keys. The second takes a few queries at a time,
multiplies them with all keys, turns the scores into shares on the stack, and multiplies these with
the values. Queries, keys, values and the result are read and written where they lie, heads side by
side or cut out of one product: every axis has its own step.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit
from edgec.toolchain.kernels.cpu.source.writer import Writer

__all__ = [
    "Attention",
    "View",
    "attention_kernel",
    "packed_keys",
    "packing_kernel",
    "scratch_bytes",
]

_FLOPS_OF_A_WORKGROUP = 4e6
_MOST_WORKGROUPS = 64


@dataclass(frozen=True, kw_only=True)
class View:
    """Where elements lie in a binding of `size` elements: at `start` plus each index times a step.

    Attributes:
        size: elements of the binding.
        start: where the first element lies.
        outer, inner: steps of the two indices that name a head of a batch.
        row: step from one query, key or result to the next.
        column: step along its width (along the keys, for a bias).
    """

    size: int
    start: int = 0
    outer: int
    inner: int
    row: int
    column: int


@dataclass(frozen=True, kw_only=True)
class Attention:
    """softmax(Q K^T * scale + biases) V for every head of a batch.

    Attributes:
        heads: how many of the two outer indices there are.
        queries, keys: how many of each.
        width: elements of a query and of a key.
        depth: elements of a value and of a result.
        scale: what the products are multiplied with.
        q, k, v, out: where these lie; the columns of values and result are neighbours.
        biases: what is added to the scaled products; columns are neighbours.
        safe: a query whose scores are all minus infinity gets zeros, not NaN.
    """

    heads: tuple[int, int]
    queries: int
    keys: int
    width: int
    depth: int
    scale: float
    q: View
    k: View
    v: View
    out: View
    biases: tuple[View, ...] = ()
    safe: bool = False

    @property
    def flops(self) -> int:
        """Multiplications and additions of the two products."""
        heads = self.heads[0] * self.heads[1]
        return 2 * heads * self.queries * self.keys * (self.width + self.depth)


def _lanes(unit: VectorUnit, size: int) -> int:
    lanes = unit.lanes
    while lanes > size:
        lanes //= 2
    return lanes


@dataclass(frozen=True, kw_only=True)
class _Cut:
    """How one product is cut: vectors of a panel, lanes of a vector, panels."""

    vectors: int
    lanes: int
    panels: int

    @classmethod
    def of(cls, unit: VectorUnit, size: int) -> "_Cut":
        lanes = _lanes(unit, size)
        best = 2 if unit.registers * unit.lanes >= 256 or unit.registers == 16 else 4
        vectors = max(1, min(best, size // lanes))
        return cls(vectors=vectors, lanes=lanes, panels=-(-size // (vectors * lanes)))

    @property
    def panel(self) -> int:
        return self.vectors * self.lanes


def _rows(unit: VectorUnit, attention: Attention) -> int:
    """Queries of a tile: as many as registers hold sums for, over-lapping little."""
    vectors = max(_Cut.of(unit, n).vectors for n in (attention.keys, attention.depth))
    most = min(attention.queries, (unit.registers - vectors - 1) // vectors)
    return min(
        range(max(1, most // 2), most + 1), key=lambda n: (-(-attention.queries // n)) * (n + 2)
    )


def packed_keys(attention: Attention, unit: VectorUnit) -> tuple[int, int, int, int]:
    """The shape of the packed keys: heads, panels, width, keys of a panel."""
    cut = _Cut.of(unit, attention.keys)
    return (attention.heads[0] * attention.heads[1], cut.panels, attention.width, cut.panel)


def scratch_bytes(attention: Attention, unit: VectorUnit) -> int:
    """The stack that a tile of queries needs."""
    lanes = _Cut.of(unit, attention.keys).lanes
    return 4 * _rows(unit, attention) * (-(-attention.keys // lanes) * lanes + 1)


def packing_kernel(name: str, attention: Attention, unit: VectorUnit) -> str:
    """The text of the kernel that packs the keys; its bindings are the keys and the packed keys."""
    heads, panels, width, panel = packed_keys(attention, unit)
    writer = Writer(
        name=name,
        workgroups=(attention.heads[0], attention.heads[1], 1),
        sizes=[attention.k.size, heads * panels * width * panel],
    )
    return writer.text(_pack(writer, attention, panels, panel))


def _pack(w: Writer, attention: Attention, panels: int, panel: int) -> Iterator[str]:
    one, zero = w.index(1), w.index(0)
    k = attention.k
    kind = f"vector<{panel}xf32>"
    yield from _head(w, attention)
    yield from _base(w, "%keys", k)
    yield f"scf.for %panel = {zero} to {w.index(panels)} step {one} {{"
    yield from w.start("%n0", "%panel", panel, attention.keys - panel)
    yield f"%f0 = arith.muli %n0, {w.index(k.row)} : index"
    yield "%f1 = arith.addi %keys, %f0 : index"
    yield f"%t0 = arith.muli %head, {w.index(panels)} : index"
    yield "%t1 = arith.addi %t0, %panel : index"
    yield f"%t2 = arith.muli %t1, {w.index(attention.width * panel)} : index"
    yield f"%none = arith.constant dense<0.0> : {kind}"
    yield f"scf.for %i = {zero} to {w.index(attention.width)} step {one} {{"
    yield f"%f2 = arith.muli %i, {w.index(k.column)} : index"
    yield "%f3 = arith.addi %f1, %f2 : index"
    whole = "%none"
    for j in range(panel):
        place, value, after = w.fresh(), w.fresh(), w.fresh()
        yield f"{place} = arith.addi %f3, {w.index(j * k.row)} : index"
        yield f"{value} = memref.load %m0[{place}] : {w.memory(0)}"
        yield f"{after} = vector.insert {value}, {whole} [{j}] : f32 into {kind}"
        whole = after
    yield f"%t3 = arith.muli %i, {w.index(panel)} : index"
    yield "%t4 = arith.addi %t2, %t3 : index"
    yield f"vector.store {whole}, %m1[%t4] : {w.memory(1)}, {kind}"
    yield "}"
    yield "}"


def attention_kernel(name: str, attention: Attention, unit: VectorUnit) -> str:
    """The text of the kernel; its bindings are queries, packed keys, values, biases, result."""
    heads, panels, width, panel = packed_keys(attention, unit)
    tiles = -(-attention.queries // _rows(unit, attention))
    count = attention.heads[0] * attention.heads[1]
    wanted = max(1, min(_MOST_WORKGROUPS, round(attention.flops / _FLOPS_OF_A_WORKGROUP)))
    writer = Writer(
        name=name,
        workgroups=(*attention.heads, min(tiles, -(-wanted // count))),
        sizes=[
            attention.q.size,
            heads * panels * width * panel,
            attention.v.size,
            *(bias.size for bias in attention.biases),
            attention.out.size,
        ],
    )
    return writer.text(_Body(attention=attention, unit=unit, w=writer).lines())


def _head(w: Writer, attention: Attention) -> Iterator[str]:
    yield f"%head0 = arith.muli %wx, {w.index(attention.heads[1])} : index"
    yield "%head = arith.addi %head0, %wy : index"


def _base(w: Writer, name: str, view: View) -> Iterator[str]:
    """Where the workgroup's head begins in a view."""
    yield f"{name}_o = arith.muli %wx, {w.index(view.outer)} : index"
    yield f"{name}_i = arith.muli %wy, {w.index(view.inner)} : index"
    yield f"{name}_s = arith.addi {name}_o, {name}_i : index"
    yield f"{name} = arith.addi {name}_s, {w.index(view.start)} : index"


@dataclass(frozen=True, kw_only=True)
class _Body:
    attention: Attention
    unit: VectorUnit
    w: Writer

    @property
    def by_key(self) -> _Cut:
        return _Cut.of(self.unit, self.attention.keys)

    @property
    def by_value(self) -> _Cut:
        return _Cut.of(self.unit, self.attention.depth)

    @property
    def rows(self) -> int:
        return _rows(self.unit, self.attention)

    @property
    def stretch(self) -> int:
        """Elements of a row of scores, a multiple of a vector's lanes."""
        lanes = self.by_key.lanes
        return -(-self.attention.keys // lanes) * lanes

    @property
    def scores(self) -> str:
        return f"memref<{self.rows * self.stretch}xf32>"

    def lines(self) -> Iterator[str]:
        a, w = self.attention, self.w
        one, zero = w.index(1), w.index(0)
        tiles = -(-a.queries // self.rows)
        yield f"%scores = memref.alloca() : {self.scores}"
        yield f"%parts = memref.alloca() : memref<{self.rows}xf32>"
        yield from _head(w, a)
        views = [("%q", a.q), ("%v", a.v), ("%out", a.out)]
        views += [(f"%bias{i}", view) for i, view in enumerate(a.biases)]
        for name, view in views:
            yield from _base(w, name, view)
        yield from w.share("tile", "%wz", tiles, w.workgroups[2])
        yield f"scf.for %tile = %tile_from to %tile_to step {one} {{"
        yield from w.start("%r0", "%tile", self.rows, a.queries - self.rows)
        yield f"scf.for %panel = {zero} to {w.index(self.by_key.panels)} step {one} {{"
        yield from self.score()
        yield "}"
        yield from self.soften()
        yield f"scf.for %part = {zero} to {w.index(self.by_value.panels)} step {one} {{"
        yield from self.mix()
        yield "}"
        yield "}"

    def score(self) -> Iterator[str]:
        """Scaled products of queries and one panel of keys, with biases, on the stack."""
        a, w, cut = self.attention, self.w, self.by_key
        kind = f"vector<{cut.lanes}xf32>"
        count = self.rows * cut.vectors
        kinds = ", ".join([kind] * count)
        yield from w.start("%n0", "%panel", cut.panel, a.keys - cut.panel)
        yield f"%s_zero = arith.constant dense<0.0> : {kind}"
        yield f"%s_a = arith.muli %head, {w.index(cut.panels)} : index"
        yield "%s_b = arith.addi %s_a, %panel : index"
        yield f"%s_keys = arith.muli %s_b, {w.index(a.width * cut.panel)} : index"
        yield f"%s_c = arith.muli %r0, {w.index(a.q.row)} : index"
        yield "%s_q = arith.addi %q, %s_c : index"
        pairs = ", ".join(f"%s_t{i} = %s_zero" for i in range(count))
        yield (
            f"%s:{count} = scf.for %i = {w.index(0)} to {w.index(a.width)} step {w.index(1)} "
            f"iter_args({pairs}) -> ({kinds}) {{"
        )
        yield f"%s_d = arith.muli %i, {w.index(cut.panel)} : index"
        yield "%s_e = arith.addi %s_keys, %s_d : index"
        for v in range(cut.vectors):
            yield f"%s_f{v} = arith.addi %s_e, {w.index(v * cut.lanes)} : index"
            yield f"%s_k{v} = vector.load %m1[%s_f{v}] : {w.memory(1)}, {kind}"
        yield f"%s_g = arith.muli %i, {w.index(a.q.column)} : index"
        yield "%s_h = arith.addi %s_q, %s_g : index"
        done = []
        for row in range(self.rows):
            yield f"%s_p{row} = arith.addi %s_h, {w.index(row * a.q.row)} : index"
            yield f"%s_x{row} = memref.load %m0[%s_p{row}] : {w.memory(0)}"
            yield f"%s_y{row} = vector.broadcast %s_x{row} : f32 to {kind}"
            for v in range(cut.vectors):
                done.append(w.fresh())
                total = f"%s_t{row * cut.vectors + v}"
                yield from w.multiply_add(
                    done[-1], f"%s_y{row}", f"%s_k{v}", total, kind, self.unit.fused
                )
        yield f"scf.yield {', '.join(done)} : {kinds}"
        yield "}"
        yield f"%s_scale = arith.constant dense<{a.scale:.9e}> : {kind}"
        for row in range(self.rows):
            for v in range(cut.vectors):
                yield from self.keep(row, v, kind)

    def keep(self, row: int, v: int, kind: str) -> Iterator[str]:
        """Scale one vector of products, add the biases, and store it among the scores."""
        a, w, cut = self.attention, self.w, self.by_key
        value = w.fresh()
        yield f"{value} = arith.mulf %s#{row * cut.vectors + v}, %s_scale : {kind}"
        for number, bias in enumerate(a.biases):
            names = [w.fresh() for _ in range(6)]
            yield f"{names[0]} = arith.muli %r0, {w.index(bias.row)} : index"
            yield f"{names[1]} = arith.addi %bias{number}, {names[0]} : index"
            yield f"{names[2]} = arith.addi {names[1]}, %n0 : index"
            offset = row * bias.row + v * cut.lanes
            yield f"{names[3]} = arith.addi {names[2]}, {w.index(offset)} : index"
            memory = w.memory(3 + number)
            yield f"{names[4]} = vector.load %m{3 + number}[{names[3]}] : {memory}, {kind}"
            yield f"{names[5]} = arith.addf {value}, {names[4]} : {kind}"
            value = names[5]
        place = w.fresh()
        offset = row * self.stretch + v * cut.lanes
        yield f"{place} = arith.addi %n0, {w.index(offset)} : index"
        yield f"vector.store {value}, %scores[{place}] : {self.scores}, {kind}"

    def soften(self) -> Iterator[str]:
        """Every row of scores to powers of e, and one over their sum to `%parts`."""
        a, w, lanes = self.attention, self.w, self.by_key.lanes
        kind = f"vector<{lanes}xf32>"
        zero, one, step = w.index(0), w.index(1), w.index(lanes)
        stretch = w.index(self.stretch)
        yield "%e_low = arith.constant 0xFF800000 : f32"
        yield f"%e_lows = arith.constant dense<0xFF800000> : {kind}"
        yield f"%e_none = arith.constant dense<0.0> : {kind}"
        yield "%e_one = arith.constant 1.0 : f32"
        yield f"scf.for %row = {zero} to {w.index(self.rows)} step {one} {{"
        yield f"%e_at = arith.muli %row, {stretch} : index"
        for j in range(a.keys, self.stretch):
            place = w.fresh()
            yield f"{place} = arith.addi %e_at, {w.index(j)} : index"
            yield f"memref.store %e_low, %scores[{place}] : {self.scores}"
        yield (
            f"%e_top = scf.for %j = {zero} to {stretch} step {step} "
            f"iter_args(%e_t = %e_lows) -> ({kind}) {{"
        )
        yield "%e_a = arith.addi %e_at, %j : index"
        yield f"%e_b = vector.load %scores[%e_a] : {self.scores}, {kind}"
        yield f"%e_c = arith.maximumf %e_t, %e_b : {kind}"
        yield f"scf.yield %e_c : {kind}"
        yield "}"
        yield f"%e_most = vector.reduction <maximumf>, %e_top : {kind} into f32"
        most = "%e_most"
        if a.safe:
            yield "%e_least = arith.constant 0xFF7FFFFF : f32"
            yield "%e_some = arith.maximumf %e_most, %e_least : f32"
            most = "%e_some"
        yield f"%e_m = vector.broadcast {most} : f32 to {kind}"
        yield (
            f"%e_sums = scf.for %j = {zero} to {stretch} step {step} "
            f"iter_args(%e_s = %e_none) -> ({kind}) {{"
        )
        yield "%e_d = arith.addi %e_at, %j : index"
        yield f"%e_e = vector.load %scores[%e_d] : {self.scores}, {kind}"
        yield f"%e_f = arith.subf %e_e, %e_m : {kind}"
        yield f"%e_g = math.exp %e_f : {kind}"
        yield f"vector.store %e_g, %scores[%e_d] : {self.scores}, {kind}"
        yield f"%e_h = arith.addf %e_s, %e_g : {kind}"
        yield f"scf.yield %e_h : {kind}"
        yield "}"
        yield f"%e_sum = vector.reduction <add>, %e_sums : {kind} into f32"
        yield "%e_whole = arith.divf %e_one, %e_sum : f32"
        yield "%e_nil = arith.constant 0.0 : f32"
        if a.safe:
            yield "%e_empty = arith.cmpf oeq, %e_sum, %e_nil : f32"
            yield "%e_part = arith.select %e_empty, %e_nil, %e_whole : f32"
        else:
            yield "%e_part = arith.addf %e_whole, %e_nil : f32"
        yield f"memref.store %e_part, %parts[%row] : memref<{self.rows}xf32>"
        yield "}"

    def mix(self) -> Iterator[str]:
        """The tile's shares times one panel of the values' columns, to the result."""
        a, w, cut = self.attention, self.w, self.by_value
        kind = f"vector<{cut.lanes}xf32>"
        count = self.rows * cut.vectors
        kinds = ", ".join([kind] * count)
        result = 3 + len(a.biases)
        yield from w.start("%o0", "%part", cut.panel, a.depth - cut.panel)
        yield f"%o_zero = arith.constant dense<0.0> : {kind}"
        yield "%o_v = arith.addi %v, %o0 : index"
        pairs = ", ".join(f"%o_t{i} = %o_zero" for i in range(count))
        yield (
            f"%o:{count} = scf.for %j = {w.index(0)} to {w.index(a.keys)} step {w.index(1)} "
            f"iter_args({pairs}) -> ({kinds}) {{"
        )
        yield f"%o_a = arith.muli %j, {w.index(a.v.row)} : index"
        yield "%o_b = arith.addi %o_v, %o_a : index"
        for v in range(cut.vectors):
            yield f"%o_c{v} = arith.addi %o_b, {w.index(v * cut.lanes)} : index"
            yield f"%o_d{v} = vector.load %m2[%o_c{v}] : {w.memory(2)}, {kind}"
        done = []
        for row in range(self.rows):
            yield f"%o_p{row} = arith.addi %j, {w.index(row * self.stretch)} : index"
            yield f"%o_x{row} = memref.load %scores[%o_p{row}] : {self.scores}"
            yield f"%o_y{row} = vector.broadcast %o_x{row} : f32 to {kind}"
            for v in range(cut.vectors):
                done.append(w.fresh())
                total = f"%o_t{row * cut.vectors + v}"
                yield from w.multiply_add(
                    done[-1], f"%o_y{row}", f"%o_d{v}", total, kind, self.unit.fused
                )
        yield f"scf.yield {', '.join(done)} : {kinds}"
        yield "}"
        yield f"%o_e = arith.muli %r0, {w.index(a.out.row)} : index"
        yield "%o_f = arith.addi %out, %o_e : index"
        yield "%o_g = arith.addi %o_f, %o0 : index"
        for row in range(self.rows):
            yield f"%o_h{row} = memref.load %parts[{w.index(row)}] : memref<{self.rows}xf32>"
            yield f"%o_i{row} = vector.broadcast %o_h{row} : f32 to {kind}"
            for v in range(cut.vectors):
                value, place = w.fresh(), w.fresh()
                yield f"{value} = arith.mulf %o#{row * cut.vectors + v}, %o_i{row} : {kind}"
                offset = row * a.out.row + v * cut.lanes
                yield f"{place} = arith.addi %o_g, {w.index(offset)} : index"
                yield f"vector.store {value}, %m{result}[{place}] : {w.memory(result)}, {kind}"
