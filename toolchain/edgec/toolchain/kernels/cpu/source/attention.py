"""Softmax of scaled products of queries and keys, times values: two kernels, nothing in between.

The first packs the keys: each panel of a few vectors of keys lies together, turned so that one
vector holds the same element of neighbouring keys. The second takes a few queries at a time and a
block of keys after the other: it multiplies them, turns the scores into powers of e on the stack,
and multiplies these with the values. Sums of one block fade by what the next one's largest score
exceeds the last, so that the stack does not grow with the keys. Queries, keys, values and the
result are read and written where they lie, heads side by side, cut out of one product, or shared
by several others: every index has its own step.
"""

import math
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass

from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit
from edgec.toolchain.kernels.cpu.source.writer import Writer

__all__ = [
    "Attention",
    "Term",
    "View",
    "attention_kernel",
    "packed_keys",
    "packing_kernel",
    "scratch_bytes",
]

_FLOPS_OF_A_WORKGROUP = 4e6
_MOST_WORKGROUPS = 64
_LEAST_PANELS = 4


@dataclass(frozen=True, kw_only=True)
class View:
    """Where elements lie in a binding of `size` elements: at `start` plus each index times a step.

    Attributes:
        size: elements of the binding.
        start: where the first element lies.
        heads: steps of the indices that name a head.
        row: step from one query, key or result to the next.
        column: step along its width (along the keys, for what is added to scores).
    """

    size: int
    start: int = 0
    heads: tuple[int, ...]
    row: int
    column: int


@dataclass(frozen=True, kw_only=True)
class Term:
    """What becomes of scores once they are scaled.

    Attributes:
        view: f32 to add, or bytes of which some keep a score; its columns are neighbours or one.
        factor: what is added is multiplied with this.
        keep: whether bytes that are not 0 keep a score, or those that are; None where it is added.
        otherwise: what a score becomes that is not kept.
    """

    view: View
    factor: float = 1.0
    keep: bool | None = None
    otherwise: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Attention:
    """softmax(scores) V for every head, of scores = scale * Q K^T and what becomes of them.

    Attributes:
        heads: how many there are of each index that names a head.
        queries, keys: how many of each.
        width: elements of a query and of a key.
        depth: elements of a value and of a result.
        scale: what the products are multiplied with.
        cap: scores then become `cap * tanh(scores)`; 0 where they do not.
        q, k, v, out: where these lie; the columns of values and result are neighbours.
        terms: what then becomes of the scores, in order.
        safe: a query whose scores are all minus infinity gets zeros, not NaN.
        stack: bytes that a tile of queries may use for scores.
    """

    heads: tuple[int, ...]
    queries: int
    keys: int
    width: int
    depth: int
    scale: float
    q: View
    k: View
    v: View
    out: View
    cap: float = 0.0
    terms: tuple[Term, ...] = ()
    safe: bool = False
    stack: int

    @property
    def count(self) -> int:
        """Heads in all."""
        return math.prod(self.heads)

    @property
    def key_heads(self) -> int:
        """Heads that have keys of their own."""
        return math.prod(n for n, s in zip(self.heads, self.k.heads, strict=True) if s)

    @property
    def flops(self) -> int:
        """Multiplications and additions of the two products."""
        return 2 * self.count * self.queries * self.keys * (self.width + self.depth)


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
    return (attention.key_heads, cut.panels, attention.width, cut.panel)


def _block(attention: Attention, unit: VectorUnit) -> int:
    """Keys of a block: whole panels that the stack has room for, the last block a panel or more.

    The last panel of all begins so that it ends with the last key; it must lie in one block.
    """
    panel = _Cut.of(unit, attention.keys).panel
    room = attention.stack // (4 * _rows(unit, attention) * panel)
    if room * panel >= attention.keys:
        return -(-attention.keys // panel) * panel
    for panels in range(max(room, _LEAST_PANELS), 0, -1):
        rest = attention.keys % (panels * panel)
        if rest == 0 or rest >= panel:
            return panels * panel
    return -(-attention.keys // panel) * panel


def scratch_bytes(attention: Attention, unit: VectorUnit) -> int:
    """The stack that a tile of queries needs."""
    cut, block = _Cut.of(unit, attention.depth), _block(attention, unit)
    sums = cut.panels * cut.panel if block < attention.keys else 0
    return 4 * _rows(unit, attention) * (block + sums + 4)


def packing_kernel(name: str, attention: Attention, unit: VectorUnit) -> str:
    """The text of the kernel that packs the keys; its bindings are the keys and the packed keys."""
    heads, panels, width, panel = packed_keys(attention, unit)
    parts = max(1, min(panels, _MOST_WORKGROUPS // heads))
    writer = Writer(
        name=name,
        workgroups=(heads, 1, parts),
        sizes=[attention.k.size, heads * panels * width * panel],
    )
    return writer.text(_pack(writer, attention, panels, panel))


def _pack(w: Writer, attention: Attention, panels: int, panel: int) -> Iterator[str]:
    one, zero = w.index(1), w.index(0)
    k = attention.k
    kind = f"vector<{panel}xf32>"
    own = [i for i, step in enumerate(k.heads) if step]
    sizes = [attention.heads[i] for i in own]
    yield from _indices(w, "%h", sizes)
    yield from _base(w, "%keys", k.start, [k.heads[i] for i in own], "%h")
    yield from w.share("panel", "%wz", panels, w.workgroups[2])
    yield f"scf.for %panel = %panel_from to %panel_to step {one} {{"
    yield from w.start("%n0", "%panel", panel, attention.keys - panel)
    yield f"%f0 = arith.muli %n0, {w.index(k.row)} : index"
    yield "%f1 = arith.addi %keys, %f0 : index"
    yield f"%t0 = arith.muli %wx, {w.index(panels)} : index"
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
    """The text of the kernel; its bindings are queries, packed keys, values, terms, result."""
    heads, panels, width, panel = packed_keys(attention, unit)
    tiles = -(-attention.queries // _rows(unit, attention))
    wanted = max(1, min(_MOST_WORKGROUPS, round(attention.flops / _FLOPS_OF_A_WORKGROUP)))
    kinds = ("f32" if term.keep is None else "i8" for term in attention.terms)
    writer = Writer(
        name=name,
        workgroups=(attention.count, 1, min(tiles, -(-wanted // attention.count))),
        sizes=[
            attention.q.size,
            heads * panels * width * panel,
            attention.v.size,
            *(term.view.size for term in attention.terms),
            attention.out.size,
        ],
        kinds=("f32", "f32", "f32", *kinds, "f32"),
    )
    return writer.text(_Body(attention=attention, unit=unit, w=writer).lines())


def _indices(w: Writer, name: str, sizes: Sequence[int]) -> Iterator[str]:
    """`name0`, `name1`, …: the indices that the workgroup's number is made of."""
    left = "%wx"
    for axis in reversed(range(len(sizes))):
        rest = w.fresh()
        yield f"{name}{axis} = arith.remui {left}, {w.index(sizes[axis])} : index"
        yield f"{rest} = arith.divui {left}, {w.index(sizes[axis])} : index"
        left = rest


def _base(w: Writer, name: str, start: int, steps: Sequence[int], indices: str) -> Iterator[str]:
    """Where the workgroup's head begins in a view."""
    total = w.index(start)
    for axis, step in enumerate(steps):
        far, more = w.fresh(), w.fresh()
        yield f"{far} = arith.muli {indices}{axis}, {w.index(step)} : index"
        yield f"{more} = arith.addi {total}, {far} : index"
        total = more
    yield f"{name} = arith.addi {total}, {w.index(0)} : index"


def _float(number: float) -> str:
    """A number as MLIR writes it in f32."""
    if math.isinf(number):
        return "0xFF800000" if number < 0 else "0x7F800000"
    if abs(number) > _LARGEST:
        return "0xFF7FFFFF" if number < 0 else "0x7F7FFFFF"
    return f"{number:.9e}"


_LARGEST = 3.4028234e38


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
    def block(self) -> int:
        """Keys of a block, which a row of scores holds."""
        return _block(self.attention, self.unit)

    @property
    def blocks(self) -> int:
        return -(-self.attention.keys // self.block)

    @property
    def scores(self) -> str:
        return f"memref<{self.rows * self.block}xf32>"

    @property
    def by_row(self) -> str:
        """The type of what is kept once for each row."""
        return f"memref<{self.rows}xf32>"

    @property
    def sums(self) -> str:
        """The type of the sums of values of the blocks so far."""
        return f"memref<{self.rows * self.by_value.panels * self.by_value.panel}xf32>"

    def lines(self) -> Iterator[str]:
        a, w = self.attention, self.w
        one, zero = w.index(1), w.index(0)
        tiles = -(-a.queries // self.rows)
        yield f"%scores = memref.alloca() : {self.scores}"
        yield f"%parts = memref.alloca() : {self.by_row}"
        if self.blocks > 1:
            yield f"%mosts = memref.alloca() : {self.by_row}"
            yield f"%fades = memref.alloca() : {self.by_row}"
            yield f"%sums = memref.alloca() : {self.sums}"
        yield from _indices(w, "%h", a.heads)
        own = [i for i, step in enumerate(a.k.heads) if step]
        steps = {i: math.prod(a.heads[j] for j in own[n + 1 :]) for n, i in enumerate(own)}
        packed = [steps.get(i, 0) for i in range(len(a.heads))]
        yield from _base(w, "%key_head", 0, packed, "%h")
        views = [("%q", a.q), ("%v", a.v), ("%out", a.out)]
        views += [(f"%term{i}", term.view) for i, term in enumerate(a.terms)]
        for name, view in views:
            yield from _base(w, name, view.start, view.heads, "%h")
        yield from w.share("tile", "%wz", tiles, w.workgroups[2])
        yield f"scf.for %tile = %tile_from to %tile_to step {one} {{"
        yield from w.start("%r0", "%tile", self.rows, a.queries - self.rows)
        if self.blocks == 1:
            yield f"%from = arith.addi {zero}, {zero} : index"
            yield from self.work()
        else:
            yield from self.clear()
            last, step = w.index(a.keys), w.index(self.block)
            yield f"scf.for %from = {zero} to {last} step {step} {{"
            yield from self.work()
            yield "}"
            yield from self.finish()
        yield "}"

    def work(self) -> Iterator[str]:
        """Everything that is done to one block of keys, which begins at `%from`."""
        a, w, cut = self.attention, self.w, self.by_key
        one, zero, lanes = w.index(1), w.index(0), w.index(cut.lanes)
        yield f"%left = arith.subi {w.index(a.keys)}, %from : index"
        yield f"%here = arith.minui %left, {w.index(self.block)} : index"
        yield f"%p_0 = arith.divui %from, {w.index(cut.panel)} : index"
        yield f"%p_1 = arith.ceildivui %here, {w.index(cut.panel)} : index"
        yield "%p_2 = arith.addi %p_0, %p_1 : index"
        yield f"scf.for %panel = %p_0 to %p_2 step {one} {{"
        yield from self.score()
        yield "}"
        yield f"%p_3 = arith.ceildivui %here, {lanes} : index"
        yield f"%stretch = arith.muli %p_3, {lanes} : index"
        yield from self.soften()
        yield f"scf.for %part = {zero} to {w.index(self.by_value.panels)} step {one} {{"
        yield from self.mix()
        yield "}"

    def clear(self) -> Iterator[str]:
        """No sums yet, and no largest score."""
        w, cut = self.w, self.by_value
        kind = f"vector<{cut.lanes}xf32>"
        zero, one = w.index(0), w.index(1)
        yield f"%i_none = arith.constant dense<0.0> : {kind}"
        yield "%i_zero = arith.constant 0.0 : f32"
        yield "%i_least = arith.constant 0xFF7FFFFF : f32"
        size = self.rows * cut.panels * cut.panel
        yield f"scf.for %i = {zero} to {w.index(size)} step {w.index(cut.lanes)} {{"
        yield f"vector.store %i_none, %sums[%i] : {self.sums}, {kind}"
        yield "}"
        yield f"scf.for %i = {zero} to {w.index(self.rows)} step {one} {{"
        yield f"memref.store %i_least, %mosts[%i] : {self.by_row}"
        yield f"memref.store %i_zero, %parts[%i] : {self.by_row}"
        yield "}"

    def score(self) -> Iterator[str]:
        """Scaled products of queries and one panel of keys, with all terms, on the stack."""
        a, w, cut = self.attention, self.w, self.by_key
        kind = f"vector<{cut.lanes}xf32>"
        count = self.rows * cut.vectors
        kinds = ", ".join([kind] * count)
        yield from w.start("%n0", "%panel", cut.panel, a.keys - cut.panel)
        yield "%n1 = arith.subi %n0, %from : index"
        yield f"%s_zero = arith.constant dense<0.0> : {kind}"
        yield f"%s_a = arith.muli %key_head, {w.index(cut.panels)} : index"
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
        yield f"%s_scale = arith.constant dense<{_float(a.scale)}> : {kind}"
        for row in range(self.rows):
            for v in range(cut.vectors):
                yield from self.keep(row, v, kind)

    def keep(self, row: int, v: int, kind: str) -> Iterator[str]:
        """Scale one vector of products, apply the terms, and store it among the scores."""
        a, w, cut = self.attention, self.w, self.by_key
        value = w.fresh()
        yield f"{value} = arith.mulf %s#{row * cut.vectors + v}, %s_scale : {kind}"
        if a.cap:
            bent, cap, capped = w.fresh(), w.fresh(), w.fresh()
            yield f"{bent} = math.tanh {value} : {kind}"
            yield f"{cap} = arith.constant dense<{_float(a.cap)}> : {kind}"
            yield f"{capped} = arith.mulf {bent}, {cap} : {kind}"
            value = capped
        for number, term in enumerate(a.terms):
            after, seen = w.fresh(), w.fresh()
            yield from self.load(number, row, v * cut.lanes, cut.lanes, seen)
            if term.keep is None:
                yield from self.add(term, seen, value, after, kind)
            else:
                yield from self.choose(term, seen, value, after, cut.lanes)
            value = after
        place = w.fresh()
        offset = row * self.block + v * cut.lanes
        yield f"{place} = arith.addi %n1, {w.index(offset)} : index"
        yield f"vector.store {value}, %scores[{place}] : {self.scores}, {kind}"

    def load(self, number: int, row: int, column: int, lanes: int, name: str) -> Iterator[str]:
        """`name`: what a term says of neighbouring keys of a query."""
        w, view = self.w, self.attention.terms[number].view
        memory = w.memory(3 + number)
        element = memory.rsplit("x", 1)[1].rstrip(">")
        kind = f"vector<{lanes}x{element}>"
        names = [w.fresh() for _ in range(5)]
        yield f"{names[0]} = arith.muli %r0, {w.index(view.row)} : index"
        yield f"{names[1]} = arith.addi %term{number}, {names[0]} : index"
        offset = w.index(row * view.row + column * view.column)
        yield f"{names[2]} = arith.addi {names[1]}, {offset} : index"
        if not view.column:
            yield f"{names[3]} = memref.load %m{3 + number}[{names[2]}] : {memory}"
            yield f"{name} = vector.broadcast {names[3]} : {element} to {kind}"
            return
        yield f"{names[4]} = arith.addi {names[2]}, %n0 : index"
        yield f"{name} = vector.load %m{3 + number}[{names[4]}] : {memory}, {kind}"

    def add(self, term: Term, seen: str, value: str, after: str, kind: str) -> Iterator[str]:
        """`after`: a score and what is added to it."""
        if term.factor == 1:
            yield f"{after} = arith.addf {value}, {seen} : {kind}"
            return
        factor = self.w.fresh()
        yield f"{factor} = arith.constant dense<{_float(term.factor)}> : {kind}"
        yield from self.w.multiply_add(after, seen, factor, value, kind, self.unit.fused)

    def choose(self, term: Term, seen: str, value: str, after: str, lanes: int) -> Iterator[str]:
        """`after`: a score where it is kept."""
        none, truth, low = (self.w.fresh() for _ in range(3))
        bytes_, kind = f"vector<{lanes}xi8>", f"vector<{lanes}xf32>"
        yield f"{none} = arith.constant dense<0> : {bytes_}"
        yield f"{truth} = arith.cmpi {'ne' if term.keep else 'eq'}, {seen}, {none} : {bytes_}"
        yield f"{low} = arith.constant dense<{_float(term.otherwise)}> : {kind}"
        yield f"{after} = arith.select {truth}, {value}, {low} : vector<{lanes}xi1>, {kind}"

    def soften(self) -> Iterator[str]:
        """Every row of scores to powers of e, and one over their sum to `%parts`.

        With several blocks `%parts` keeps the sum so far, `%mosts` the largest score so far, and
        `%fades` what the sums before this block are multiplied with.
        """
        w, lanes = self.w, self.by_key.lanes
        kind = f"vector<{lanes}xf32>"
        zero, one, step = w.index(0), w.index(1), w.index(lanes)
        yield "%e_low = arith.constant 0xFF800000 : f32"
        yield f"%e_lows = arith.constant dense<0xFF800000> : {kind}"
        yield f"%e_none = arith.constant dense<0.0> : {kind}"
        yield f"scf.for %row = {zero} to {w.index(self.rows)} step {one} {{"
        yield f"%e_at = arith.muli %row, {w.index(self.block)} : index"
        yield f"scf.for %j = %here to %stretch step {one} {{"
        yield "%e_o = arith.addi %e_at, %j : index"
        yield f"memref.store %e_low, %scores[%e_o] : {self.scores}"
        yield "}"
        yield (
            f"%e_top = scf.for %j = {zero} to %stretch step {step} "
            f"iter_args(%e_t = %e_lows) -> ({kind}) {{"
        )
        yield "%e_a = arith.addi %e_at, %j : index"
        yield f"%e_b = vector.load %scores[%e_a] : {self.scores}, {kind}"
        yield f"%e_c = arith.maximumf %e_t, %e_b : {kind}"
        yield f"scf.yield %e_c : {kind}"
        yield "}"
        yield f"%e_most = vector.reduction <maximumf>, %e_top : {kind} into f32"
        most = yield from self.bounded()
        yield f"%e_m = vector.broadcast {most} : f32 to {kind}"
        yield (
            f"%e_sums = scf.for %j = {zero} to %stretch step {step} "
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
        if self.blocks == 1:
            yield from self.share("%e_sum")
            yield f"memref.store %e_sum_part, %parts[%row] : {self.by_row}"
        else:
            yield f"%e_q = memref.load %parts[%row] : {self.by_row}"
            yield "%e_r = arith.mulf %e_q, %e_fade : f32"
            yield "%e_u = arith.addf %e_r, %e_sum : f32"
            yield f"memref.store %e_u, %parts[%row] : {self.by_row}"
        yield "}"

    def bounded(self) -> Generator[str, None, str]:
        """The name of the largest score, so far and no less than a number, where that matters."""
        if self.blocks == 1:
            if not self.attention.safe:
                return "%e_most"
            yield "%e_least = arith.constant 0xFF7FFFFF : f32"
            yield "%e_some = arith.maximumf %e_most, %e_least : f32"
            return "%e_some"
        yield f"%e_i = memref.load %mosts[%row] : {self.by_row}"
        yield "%e_some = arith.maximumf %e_most, %e_i : f32"
        yield "%e_n = arith.subf %e_i, %e_some : f32"
        yield "%e_fade = math.exp %e_n : f32"
        yield f"memref.store %e_fade, %fades[%row] : {self.by_row}"
        yield f"memref.store %e_some, %mosts[%row] : {self.by_row}"
        return "%e_some"

    def share(self, total: str) -> Iterator[str]:
        """One over a sum; where it may be, 0 of a sum of nothing."""
        yield f"{total}_one = arith.constant 1.0 : f32"
        if not self.attention.safe:
            yield f"{total}_part = arith.divf {total}_one, {total} : f32"
            return
        yield f"{total}_nil = arith.constant 0.0 : f32"
        yield f"{total}_whole = arith.divf {total}_one, {total} : f32"
        yield f"{total}_empty = arith.cmpf oeq, {total}, {total}_nil : f32"
        yield f"{total}_part = arith.select {total}_empty, {total}_nil, {total}_whole : f32"

    def mix(self) -> Iterator[str]:
        """The tile's powers times one panel of the values' columns, to the sums or the result."""
        a, w, cut = self.attention, self.w, self.by_value
        kind = f"vector<{cut.lanes}xf32>"
        count = self.rows * cut.vectors
        kinds = ", ".join([kind] * count)
        yield from w.start("%o0", "%part", cut.panel, a.depth - cut.panel)
        yield "%o_v = arith.addi %v, %o0 : index"
        first = ["%o_zero"] * count
        if self.blocks == 1:
            yield f"%o_zero = arith.constant dense<0.0> : {kind}"
        else:
            first = [w.fresh() for _ in range(count)]
            for row in range(self.rows):
                fade = yield from self.of_row("%fades", row, kind)
                for v in range(cut.vectors):
                    name, before = first[row * cut.vectors + v], w.fresh()
                    place = yield from self.sum_place(row, v)
                    yield f"{before} = vector.load %sums[{place}] : {self.sums}, {kind}"
                    yield f"{name} = arith.mulf {before}, {fade} : {kind}"
        pairs = ", ".join(f"%o_t{i} = {name}" for i, name in enumerate(first))
        yield (
            f"%o:{count} = scf.for %j = {w.index(0)} to %here step {w.index(1)} "
            f"iter_args({pairs}) -> ({kinds}) {{"
        )
        yield "%o_j = arith.addi %j, %from : index"
        yield f"%o_a = arith.muli %o_j, {w.index(a.v.row)} : index"
        yield "%o_b = arith.addi %o_v, %o_a : index"
        for v in range(cut.vectors):
            yield f"%o_c{v} = arith.addi %o_b, {w.index(v * cut.lanes)} : index"
            yield f"%o_d{v} = vector.load %m2[%o_c{v}] : {w.memory(2)}, {kind}"
        done = []
        for row in range(self.rows):
            yield f"%o_p{row} = arith.addi %j, {w.index(row * self.block)} : index"
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
        if self.blocks == 1:
            yield from self.store([f"%o#{i}" for i in range(count)])
            return
        for row in range(self.rows):
            for v in range(cut.vectors):
                place = yield from self.sum_place(row, v)
                total = f"%o#{row * cut.vectors + v}"
                yield f"vector.store {total}, %sums[{place}] : {self.sums}, {kind}"

    def of_row(self, memory: str, row: int, kind: str) -> Generator[str, None, str]:
        """The name of a vector of what is kept for a row."""
        one, all_ = self.w.fresh(), self.w.fresh()
        yield f"{one} = memref.load {memory}[{self.w.index(row)}] : {self.by_row}"
        yield f"{all_} = vector.broadcast {one} : f32 to {kind}"
        return all_

    def sum_place(self, row: int, v: int) -> Generator[str, None, str]:
        """The name of where a vector of `%part`'s sums lies."""
        w, cut = self.w, self.by_value
        far, place = w.fresh(), w.fresh()
        yield f"{far} = arith.muli %part, {w.index(cut.panel)} : index"
        offset = row * cut.panels * cut.panel + v * cut.lanes
        yield f"{place} = arith.addi {far}, {w.index(offset)} : index"
        return place

    def finish(self) -> Iterator[str]:
        """All sums, each row divided by what its powers add up to, to the result."""
        w, cut = self.w, self.by_value
        kind = f"vector<{cut.lanes}xf32>"
        yield f"scf.for %row = {w.index(0)} to {w.index(self.rows)} step {w.index(1)} {{"
        yield f"%z = memref.load %parts[%row] : {self.by_row}"
        yield from self.share("%z")
        yield f"memref.store %z_part, %parts[%row] : {self.by_row}"
        yield "}"
        yield f"scf.for %part = {w.index(0)} to {w.index(cut.panels)} step {w.index(1)} {{"
        yield from w.start("%o0", "%part", cut.panel, self.attention.depth - cut.panel)
        totals = []
        for row in range(self.rows):
            for v in range(cut.vectors):
                totals.append(w.fresh())
                place = yield from self.sum_place(row, v)
                yield f"{totals[-1]} = vector.load %sums[{place}] : {self.sums}, {kind}"
        yield from self.store(totals)
        yield "}"

    def store(self, totals: Sequence[str]) -> Iterator[str]:
        """Sums of the columns from `%o0` on, each row times its part, to the result."""
        a, w, cut = self.attention, self.w, self.by_value
        kind = f"vector<{cut.lanes}xf32>"
        result = 3 + len(a.terms)
        yield f"%o_e = arith.muli %r0, {w.index(a.out.row)} : index"
        yield "%o_f = arith.addi %out, %o_e : index"
        yield "%o_g = arith.addi %o_f, %o0 : index"
        for row in range(self.rows):
            part = yield from self.of_row("%parts", row, kind)
            for v in range(cut.vectors):
                value, place = w.fresh(), w.fresh()
                yield f"{value} = arith.mulf {totals[row * cut.vectors + v]}, {part} : {kind}"
                offset = row * a.out.row + v * cut.lanes
                yield f"{place} = arith.addi %o_g, {w.index(offset)} : index"
                yield f"vector.store {value}, %m{result}[{place}] : {w.memory(result)}, {kind}"
