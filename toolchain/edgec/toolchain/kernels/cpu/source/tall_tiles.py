"""How products of many rows by weights in blocks are cut up: tiles of rows, panels, blocks of sums.

A panel is a few vectors of neighbouring outputs. What is summed is cut into blocks, so that a
panel's part of one stays in the first cache while all rows pass, and the rows' part of it in the
second while panels do.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from edgec.toolchain.kernels.cpu.source.block_codes import BlockWeights
from edgec.toolchain.kernels.cpu.source.dot_unit import DotUnit
from edgec.toolchain.kernels.cpu.source.vectors import FIRST_CACHE, VectorUnit
from edgec.toolchain.kernels.cpu.source.workgroups import even, workgroups

__all__ = ["TallTiles", "tall_tiles"]

_STACK_SHARE = 2
_LEAST_PANELS = 4
"""Of a workgroup, where there are enough: each workgroup reads all rows."""
_LEAST_GROUPS = 8
_WORD_BITS = 32
_QUAD = 4
_LONGEST_STEP = 256
_RUN = 16


@dataclass(frozen=True, kw_only=True)
class TallTiles:
    """A cut.

    Attributes:
        weights: the blocks.
        rows: how many there are.
        tall: rows of a tile; the last tile may have fewer.
        vectors, lanes: of a panel.
        step: neighbours that are summed before a scale is needed, or a whole number of words.
        dot: how rows that are rounded to bytes are multiplied; None for rows of f32.
    """

    weights: BlockWeights
    rows: int
    tall: int
    vectors: int
    lanes: int
    step: int
    dot: DotUnit | None

    @property
    def width(self) -> int:
        """Outputs of a panel."""
        return self.vectors * self.lanes

    @property
    def panels(self) -> int:
        """How many panels there are."""
        return self.weights.outputs // self.width

    @property
    def tiles(self) -> int:
        """How many tiles there are."""
        return -(-self.rows // self.tall)

    @property
    def steps(self) -> int:
        """Steps of all that is summed."""
        return self.weights.inner // self.step

    @property
    def quads(self) -> int:
        """Four neighbours each, of a step."""
        return self.step // _QUAD

    @property
    def chunk(self) -> int:
        """Neighbours that are unpacked together: a word of each lane's output, for each lane."""
        return self.lanes * _WORD_BITS // self.weights.bits

    @property
    def blocks(self) -> int:
        """How many blocks there are of what is summed."""
        size = self.weights.inner * self.width * (1 if self.dot else 4)
        return min(self.steps, -(-size // FIRST_CACHE))

    @property
    def longest(self) -> int:
        """Steps of the longest block."""
        return -(-self.steps // self.blocks)

    @property
    def stack(self) -> int:
        """Bytes of a panel's block, with its numbers."""
        size = 1 if self.dot else 4
        return self.longest * self.width * (size * self.step + 8)

    @property
    def split(self) -> int:
        """Workgroups."""
        weights = self.weights
        wanted = workgroups(2.0 * self.rows * weights.outputs * weights.inner)
        most = max(self.panels // _LEAST_PANELS, min(self.panels, _LEAST_GROUPS))
        return min(self.panels, even(self.panels, min(wanted, most)))

    @property
    def by_output(self) -> bool:
        """Whether all that is summed shares one scale."""
        return self.weights.group == self.weights.inner

    @property
    def whole(self) -> bool:
        """Whether sums of bytes stay whole numbers over all steps of a block."""
        return self.dot is not None and self.by_output

    # Rows as they are laid out: tile by tile, step by step, quad by quad, row by row.

    @property
    def shift(self) -> int:
        """What is to be taken from every code where rows are bytes."""
        flipped = self.weights.bits == 8 and self.dot is not None and not self.dot.signed
        return 128 if flipped else int(self.weights.zero)

    @property
    def parts(self) -> tuple[str, ...]:
        """What follows a step's quads of bytes, a word for each row."""
        if self.dot is None:
            return ()
        begin = ("begin",) if self.shift else ()
        return ("scale", *begin, *(("sum",) if self.weights.least else ()))

    @property
    def record(self) -> int:
        """Elements of a step of a tile: words of four bytes, or f32."""
        each = self.quads + len(self.parts) if self.dot else self.step
        return each * self.tall

    @property
    def laid(self) -> int:
        """Elements of all rows."""
        return self.tiles * self.steps * self.record

    @property
    def kind(self) -> str:
        """The type of these elements."""
        return "i32" if self.dot else "f32"


def tall_tiles(
    weights: BlockWeights, rows: int, unit: VectorUnit, dot: DotUnit | None
) -> TallTiles | None:
    """The cut that costs the fewest cycles by a simple model; None where none fits.

    Args:
        weights: the blocks.
        rows: how many.
        unit: the vector registers of the target.
        dot: how bytes are multiplied, if the rows are rounded to bytes.
    """
    lanes = unit.lanes if dot is None else dot.lanes[0]
    if not _step(weights, _LONGEST_STEP) or weights.outputs % lanes:
        return None
    best = min(_cuts(weights, rows, lanes, unit, dot), default=None)
    if best is None:
        return None
    _, tall, vectors = best
    step = _step(weights, _longest(weights, vectors * lanes, dot))
    cut = TallTiles(
        weights=weights, rows=rows, tall=tall, vectors=vectors, lanes=lanes, step=step, dot=dot
    )
    return cut if _fits(cut) and cut.stack <= unit.stack // _STACK_SHARE else None


def _step(weights: BlockWeights, longest: int) -> int:
    """A group; where there is one for all, the largest part of it that is no longer."""
    whole = max(weights.span, _RUN)
    if weights.group != weights.inner:
        return 0 if weights.group % whole else weights.group
    sizes = range(longest // whole * whole, 0, -whole)
    return next((size for size in sizes if weights.inner % size == 0), 0)


def _longest(weights: BlockWeights, width: int, dot: DotUnit | None) -> int:
    """How long a step may be: of bytes with one scale for all as long as the cache allows."""
    by_output = weights.group == weights.inner
    return FIRST_CACHE // width if by_output and dot is not None else _LONGEST_STEP


def _fits(cut: TallTiles) -> bool:
    """Whether each block is chunks, and each chunk groups or a part of one."""
    if cut.steps // cut.blocks * cut.step < cut.chunk:
        return False
    return cut.by_output or not (cut.chunk % cut.step and cut.step % cut.chunk)


def _cuts(
    weights: BlockWeights, rows: int, lanes: int, unit: VectorUnit, dot: DotUnit | None
) -> Iterator[tuple[float, int, int]]:
    """The cost of each cut that the registers hold, with its rows and vectors.

    Two multiplications start in a cycle, and two loads; eight sums hide a multiplication's latency.
    Of bytes a group's sums become floats, and are multiplied and added.
    """
    sums = 1 if dot is None or weights.group == weights.inner else 2
    for vectors in range(1, 5):
        if weights.outputs % (vectors * lanes):
            continue
        room = (unit.registers - vectors - 1) // (sums * vectors)
        if unit.by_lane and dot is None:  # a register beside the sums for each row's neighbours
            room = (unit.registers - vectors) // (vectors + 1)
        most = min(rows, room)
        for tall in range(1, most + 1):
            tiles = -(-rows // tall)
            tall = -(-rows // tiles)
            cost = max(tall * vectors, tall + vectors, 8) + 1.0
            if dot is not None:
                longest = _longest(weights, vectors * lanes, dot)
                cost += 3 * _QUAD * tall * vectors / min(weights.group, longest)
            yield cost * tiles * (weights.outputs // (vectors * lanes)), tall, vectors
