"""Weights of the next panel, asked for while the ones at hand are multiplied.

A panel's weights come from memory for its first tile and from the caches for all others; what a
processor guesses by itself ends with a page. A network's weights are larger than its caches, so
that without this every panel's first tile waits (DistilBERT, 128 tokens: a sixth of all time on
an Intel Xeon with AVX-512, measured at commit 5935097).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from edgec.toolchain.kernels.cpu.source.body import Body
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit
from edgec.toolchain.kernels.cpu.source.writer import Writer

__all__ = ["Ahead", "ahead", "ask_for_stream"]

_LINE = 64
"""Bytes that come from memory together."""
_STREAM = 8192
"""How far ahead of what is read once and in order; it comes into the second cache.

The first takes few lines at a time: a core of an AMD EPYC (Zen 4) read rows of four bits at 13 GB/s
with each line asked for there 4,096 bytes ahead, at 14 to 16 without, and at 18 to 19 so.
"""


@dataclass(frozen=True, kw_only=True)
class Ahead:
    """Each step of each tile asks for a little of the next panel.

    Behind the last panel nothing lies: to ask for what is not there does nothing.

    Attributes:
        steps: of a tile.
        each: elements of the next panel for each step.
        line: elements that come from memory together.
    """

    steps: int
    each: int
    line: int

    def tile(self, w: Writer, first: str, weights: str, size: int) -> Iterator[str]:
        """`%next`: where the part begins for which tile `%tile` asks.

        Args:
            w: the kernel's writer.
            first: the workgroup's first tile.
            weights: where the present panel begins.
            size: elements of a panel.
        """
        yield f"%next0 = arith.addi {weights}, {w.index(size)} : index"
        yield f"%next1 = arith.subi %tile, {first} : index"
        yield f"%next2 = arith.muli %next1, {w.index(self.steps * self.each)} : index"
        yield "%next = arith.addi %next0, %next2 : index"

    def step(self, w: Writer, inner: int) -> Iterator[str]:
        """Ask for the part of step `%k` of the `inner` steps of the window's place `%l1`."""
        yield f"%tap_k = arith.muli %l1, {w.index(inner)} : index"
        yield "%step = arith.addi %tap_k, %k : index"
        yield f"%next3 = arith.muli %step, {w.index(self.each)} : index"
        yield "%next4 = arith.addi %next, %next3 : index"
        yield from self.lines(w, "%next4")

    def lines(self, w: Writer, place: str) -> Iterator[str]:
        """Ask for a step's part, which begins at `place`."""
        for at in range(0, self.each, self.line):
            line = w.fresh()
            yield f"{line} = arith.addi {place}, {w.index(at)} : index"
            yield f"memref.prefetch %m1[{line}], read, locality<2>, data : {w.memory(1)}"


def ahead(
    unit: VectorUnit,
    *,
    panels: int,
    panel: int,
    steps: int,
    pixels: int,
    tiles: int,
    size: int = 4,
) -> Ahead | None:
    """What to ask for; None where nothing is.

    Where a multiplication takes one lane of a register, an instruction more is not free; nor is it
    where few tiles have to ask for much, which is worth it for what no cache holds. Tiles of one
    pixel read weights as fast as memory gives them.

    Args:
        unit: the vector registers of the target.
        panels: how many there are.
        panel: weights of a step.
        steps: of a tile.
        pixels: of a tile.
        tiles: that a workgroup multiplies by each panel, at least.
        size: bytes of a weight.
    """
    each, line = -(-panel // tiles), _LINE // size
    fits = size * panels * steps * panel <= unit.cache.size
    if unit.by_lane or pixels == 1 or (fits and each > line):
        return None
    return Ahead(steps=steps, each=each, line=line)


def ask_for_stream(body: Body, at: str, size: int) -> None:
    """Ask for what comes some turns after byte `at` of `%m1`, whose `size` are read in order.

    A processor's own guesses end with a page.
    """
    place, memory = body.least(body.plus(at, _STREAM), size - 1), body.writer.memory(1)
    body.lines.append(f"memref.prefetch %m1[{place}], read, locality<2>, data : {memory}")
