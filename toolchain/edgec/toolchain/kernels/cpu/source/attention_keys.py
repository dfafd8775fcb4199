"""Keys of attention to panels: a vector holds the same element of neighbouring keys."""

from collections.abc import Iterator
from dataclasses import dataclass

from edgec.toolchain.kernels.cpu.source.attention import (
    Attention,
    heads_of_workgroup,
    start_of_head,
)
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit
from edgec.toolchain.kernels.cpu.source.writer import Writer

__all__ = ["KeyCut", "packed_keys", "packing_kernel"]

_MOST_WORKGROUPS = 64


def _lanes(unit: VectorUnit, size: int) -> int:
    lanes = unit.lanes
    while lanes > size:
        lanes //= 2
    return lanes


@dataclass(frozen=True, kw_only=True)
class KeyCut:
    """How one product is cut: vectors of a panel, lanes of a vector, panels."""

    vectors: int
    lanes: int
    panels: int

    @classmethod
    def of(cls, unit: VectorUnit, size: int) -> "KeyCut":
        """The cut of so many columns."""
        lanes = _lanes(unit, size)
        best = 2 if unit.registers * unit.lanes >= 256 or unit.registers == 16 else 4
        vectors = max(1, min(best, size // lanes))
        return cls(vectors=vectors, lanes=lanes, panels=-(-size // (vectors * lanes)))

    @property
    def panel(self) -> int:
        """Columns of a panel."""
        return self.vectors * self.lanes


def packed_keys(attention: Attention, unit: VectorUnit) -> tuple[int, int, int, int]:
    """The shape of the packed keys: heads, panels, width, keys of a panel."""
    cut = KeyCut.of(unit, attention.keys)
    return (attention.key_heads, cut.panels, attention.width, cut.panel)


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
    yield from heads_of_workgroup(w, "%h", sizes)
    yield from start_of_head(w, "%keys", k.start, [k.heads[i] for i in own], "%h")
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
