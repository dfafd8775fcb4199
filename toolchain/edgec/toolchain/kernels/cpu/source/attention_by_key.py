"""Attention of a few queries at a time, neighbouring keys in a vector, over packed keys.

The kernel takes a few queries at a time and a block of keys after the other: it multiplies them,
turns the scores into powers of e on the stack, and multiplies these with the values. Sums of one
block fade by what the next one's largest score exceeds the last, so that the stack does not grow
with the keys.
"""

import math
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from edgec.toolchain.kernels.cpu.source.attention import (
    Attention,
    heads_of_workgroup,
    start_of_head,
)
from edgec.toolchain.kernels.cpu.source.attention_key_products import Loop, Product, Read
from edgec.toolchain.kernels.cpu.source.attention_key_terms import KeyTerms
from edgec.toolchain.kernels.cpu.source.attention_key_tiling import keys_of_block, rows_of_tile
from edgec.toolchain.kernels.cpu.source.attention_keys import KeyCut, packed_keys
from edgec.toolchain.kernels.cpu.source.literals import literal
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit
from edgec.toolchain.kernels.cpu.source.workgroups import even, workgroups
from edgec.toolchain.kernels.cpu.source.writer import KEPT, Writer, on_stack

__all__ = ["by_key_kernel"]


@lru_cache(maxsize=KEPT)
def by_key_kernel(name: str, attention: Attention, unit: VectorUnit) -> str:
    """The text of the kernel; its bindings are queries, packed keys, values, terms, result."""
    heads, panels, width, panel = packed_keys(attention, unit)
    tiles = -(-attention.queries // rows_of_tile(unit, attention))
    wanted = workgroups(attention.flops, 8 * attention.keys * attention.count * attention.width)
    kinds = ("f32" if term.keep is None else "i8" for term in attention.terms)
    writer = Writer(
        name=name,
        workgroups=(attention.count, 1, even(tiles, -(-wanted // attention.count))),
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


@dataclass(frozen=True, kw_only=True)
class _Body:
    attention: Attention
    unit: VectorUnit
    w: Writer

    @property
    def by_key(self) -> KeyCut:
        return KeyCut.of(self.unit, self.attention.keys)

    @property
    def by_value(self) -> KeyCut:
        return KeyCut.of(self.unit, self.attention.depth)

    @property
    def terms(self) -> KeyTerms:
        return KeyTerms(
            terms=self.attention.terms,
            first=3,
            lanes=self.by_key.lanes,
            fused=self.unit.fused,
            w=self.w,
        )

    def product(self, cut: KeyCut) -> Product:
        return Product(rows=self.rows, cut=cut, fused=self.unit.fused, w=self.w)

    @property
    def rows(self) -> int:
        return rows_of_tile(self.unit, self.attention)

    @property
    def block(self) -> int:
        """Keys of a block, which a row of scores holds."""
        return keys_of_block(self.attention, self.unit)

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
        yield on_stack("%scores", self.scores)
        yield on_stack("%parts", self.by_row)
        if self.blocks > 1:
            yield on_stack("%mosts", self.by_row)
            yield on_stack("%fades", self.by_row)
            yield on_stack("%sums", self.sums)
        yield from heads_of_workgroup(w, "%h", a.heads)
        own = [i for i, step in enumerate(a.k.heads) if step]
        steps = {i: math.prod(a.heads[j] for j in own[n + 1 :]) for n, i in enumerate(own)}
        packed = [steps.get(i, 0) for i in range(len(a.heads))]
        yield from start_of_head(w, "%key_head", 0, packed, "%h")
        views = [("%q", a.q), ("%v", a.v), ("%out", a.out)]
        views += [(f"%term{i}", term.view) for i, term in enumerate(a.terms)]
        for name, view in views:
            yield from start_of_head(w, name, view.start, view.heads, "%h")
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
        yield from w.start("%n0", "%panel", cut.panel, a.keys - cut.panel)
        yield "%n1 = arith.subi %n0, %from : index"
        yield f"%s_zero = arith.constant dense<0.0> : {kind}"
        yield f"%s_a = arith.muli %key_head, {w.index(cut.panels)} : index"
        yield "%s_b = arith.addi %s_a, %panel : index"
        yield f"%s_keys = arith.muli %s_b, {w.index(a.width * cut.panel)} : index"
        yield f"%s_c = arith.muli %r0, {w.index(a.q.row)} : index"
        yield "%s_q = arith.addi %q, %s_c : index"
        yield from self.product(cut).lines(
            Loop(name="%s", index="%i", end=w.index(a.width), first=("%s_zero",) * count),
            [
                f"%s_d = arith.muli %i, {w.index(cut.panel)} : index",
                "%s_e = arith.addi %s_keys, %s_d : index",
            ],
            Read(at="%s_e", memory="%m1", kind=w.memory(1), step=cut.lanes),
            [
                f"%s_g = arith.muli %i, {w.index(a.q.column)} : index",
                "%s_h = arith.addi %s_q, %s_g : index",
            ],
            Read(at="%s_h", memory="%m0", kind=w.memory(0), step=a.q.row),
        )
        yield f"%s_scale = arith.constant dense<{literal(a.scale)}> : {kind}"
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
            yield f"{cap} = arith.constant dense<{literal(a.cap)}> : {kind}"
            yield f"{capped} = arith.mulf {bent}, {cap} : {kind}"
            value = capped
        value = yield from self.terms.applied(value, row, v * cut.lanes)
        place = w.fresh()
        offset = row * self.block + v * cut.lanes
        yield f"{place} = arith.addi %n1, {w.index(offset)} : index"
        yield f"vector.store {value}, %scores[{place}] : {self.scores}, {kind}"

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
        yield from self.product(cut).lines(
            Loop(name="%o", index="%j", end="%here", first=tuple(first)),
            [
                "%o_j = arith.addi %j, %from : index",
                f"%o_a = arith.muli %o_j, {w.index(a.v.row)} : index",
                "%o_b = arith.addi %o_v, %o_a : index",
            ],
            Read(at="%o_b", memory="%m2", kind=w.memory(2), step=cut.lanes),
            [],
            Read(at="%j", memory="%scores", kind=self.scores, step=self.block),
        )
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
