"""A number of each row times the vectors of a panel, summed over a loop: both products' inside."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from edgec.toolchain.kernels.cpu.source.attention_keys import KeyCut
from edgec.toolchain.kernels.cpu.source.writer import Writer

__all__ = ["Loop", "Product", "Read"]


@dataclass(frozen=True, kw_only=True)
class Loop:
    """The loop of a product: the name of its sums, its index, its end, and what sums begin with."""

    name: str
    index: str
    end: str
    first: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Read:
    """Where factors lie: from a place in memory on, each so many elements after the one before."""

    at: str
    memory: str
    kind: str
    step: int


@dataclass(frozen=True, kw_only=True)
class Product:
    """Sums of `rows` times a panel's vectors, which stay in registers."""

    rows: int
    cut: KeyCut
    fused: bool
    w: Writer

    def lines(
        self,
        loop: Loop,
        before_vectors: Sequence[str],
        vectors: Read,
        before_rows: Sequence[str],
        rows: Read,
    ) -> Iterator[str]:
        """`loop.name`: the sums, row after row; what is `before` says where factors begin."""
        w, name, cut = self.w, loop.name, self.cut
        kind = f"vector<{cut.lanes}xf32>"
        count = self.rows * cut.vectors
        kinds = ", ".join([kind] * count)
        pairs = ", ".join(f"{name}_t{i} = {first}" for i, first in enumerate(loop.first))
        yield (
            f"{name}:{count} = scf.for {loop.index} = {w.index(0)} to {loop.end} "
            f"step {w.index(1)} iter_args({pairs}) -> ({kinds}) {{"
        )
        yield from before_vectors
        for v in range(cut.vectors):
            place, value = f"{name}_f{v}", f"{name}_k{v}"
            yield f"{place} = arith.addi {vectors.at}, {w.index(v * vectors.step)} : index"
            yield f"{value} = vector.load {vectors.memory}[{place}] : {vectors.kind}, {kind}"
        yield from before_rows
        done = []
        for row in range(self.rows):
            place, one, wide = (f"{name}_{letter}{row}" for letter in "pxy")
            yield f"{place} = arith.addi {rows.at}, {w.index(row * rows.step)} : index"
            yield f"{one} = memref.load {rows.memory}[{place}] : {rows.kind}"
            yield f"{wide} = vector.broadcast {one} : f32 to {kind}"
            for v in range(cut.vectors):
                done.append(w.fresh())
                total, factor = f"{name}_t{row * cut.vectors + v}", f"{name}_k{v}"
                yield from w.multiply_add(done[-1], wide, factor, total, kind, self.fused)
        yield f"scf.yield {', '.join(done)} : {kinds}"
        yield "}"
