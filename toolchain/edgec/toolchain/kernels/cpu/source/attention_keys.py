"""Keys of attention to panels: a vector holds the same element of neighbouring keys."""

from dataclasses import dataclass

from edgec.toolchain.kernels.cpu.source.attention import (
    Attention,
    heads_of_workgroup,
    start_of_head,
)
from edgec.toolchain.kernels.cpu.source.body import Body
from edgec.toolchain.kernels.cpu.source.turned import turned
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit
from edgec.toolchain.kernels.cpu.source.workgroups import even, workgroups
from edgec.toolchain.kernels.cpu.source.writer import Writer

__all__ = ["KeyCut", "packed_keys", "packing_kernel"]


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
    size = heads * panels * width * panel
    parts = even(panels, -(-workgroups(0, 8 * size) // heads))
    writer = Writer(name=name, workgroups=(heads, 1, parts), sizes=[attention.k.size, size])
    body = Body(writer, fused=unit.fused)
    _Packing(attention=attention, cut=KeyCut.of(unit, attention.keys), b=body).write(parts)
    return writer.text(body.lines)


@dataclass(frozen=True, kw_only=True)
class _Packing:
    attention: Attention
    cut: KeyCut
    b: Body

    @property
    def kind(self) -> str:
        return f"vector<{self.cut.lanes}xf32>"

    @property
    def vectors(self) -> range:
        """Where each vector of a panel's keys begins."""
        return range(0, self.cut.panel, self.cut.lanes)

    def write(self, parts: int) -> None:
        """The whole body."""
        k, b, w = self.attention.k, self.b, self.b.writer
        own = [i for i, step in enumerate(k.heads) if step]
        b.lines += heads_of_workgroup(w, "%h", [self.attention.heads[i] for i in own])
        b.lines += start_of_head(w, "%keys", k.start, [k.heads[i] for i in own], "%h")
        b.lines += w.share("panel", "%wz", self.cut.panels, parts)
        b.loop("%panel_from", "%panel_to", 1, self.panel)

    def panel(self, number: str) -> None:
        """One panel, the last overlapping the one before it."""
        a, cut, b = self.attention, self.cut, self.b
        first = b.least(b.times(number, cut.panel), a.keys - cut.panel)
        keys = b.place("%keys", (first, a.k.row))
        whole = b.plus(b.times("%wx", cut.panels), number)
        packed = b.times(whole, a.width * cut.panel)
        if a.k.column == 1 and a.width >= cut.lanes:
            squares = -(-a.width // cut.lanes)
            b.loop(0, squares, 1, lambda square: self.square(keys, packed, square))
        else:
            b.loop(0, a.width, 1, lambda element: self.element(keys, packed, element))

    def square(self, keys: str, packed: str, number: str) -> None:
        """As many neighbouring elements as keys of a vector, turned in registers."""
        a, cut, b = self.attention, self.cut, self.b
        element = b.least(b.times(number, cut.lanes), a.width - cut.lanes)
        far = b.plus(keys, element)
        near = b.place(packed, (element, cut.panel))
        for at in self.vectors:
            rows = [
                b.load("%m0", b.plus(far, (at + i) * a.k.row), b.writer.memory(0), self.kind)
                for i in range(cut.lanes)
            ]
            for i, value in enumerate(turned(b, rows, self.kind)):
                place = b.plus(near, i * cut.panel + at)
                b.store(value, "%m1", place, b.writer.memory(1), self.kind)

    def element(self, keys: str, packed: str, element: str) -> None:
        """One element of all keys of the panel."""
        a, cut, b = self.attention, self.cut, self.b
        far = b.place(keys, (element, a.k.column))
        near = b.place(packed, (element, cut.panel))
        for at in self.vectors:
            value = self.neighbours(far, at) if a.k.row == 1 else self.gathered(far, at)
            b.store(value, "%m1", b.plus(near, at), b.writer.memory(1), self.kind)

    def neighbours(self, place: str, at: int) -> str:
        return self.b.load("%m0", self.b.plus(place, at), self.b.writer.memory(0), self.kind)

    def gathered(self, place: str, at: int) -> str:
        """One element after the other."""
        b, memory = self.b, self.b.writer.memory(0)
        whole = b.number(0.0, self.kind)
        for i in range(self.cut.lanes):
            one = b.load("%m0", b.plus(place, (at + i) * self.attention.k.row), memory, "f32")
            whole = b.value(f"vector.insert {one}, {whole} [{i}]", f"f32 into {self.kind}")
        return whole
