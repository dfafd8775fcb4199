"""A convolution of narrow groups over channels-last data to a kernel vectorised over all of them.

A vector holds the output channels of several whole groups, one each where every channel has a
window of its own. What its lanes multiply lies side by side in the input, too: it is loaded once a
pixel and put into place by a shuffle for each input channel of a group, and serves every place of
the window that meets it. The weights are read as they are: window x inputs x output channels.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from edgec.targets import Cache
from edgec.toolchain.kernels.cpu.source.convolution import Convolution
from edgec.toolchain.kernels.cpu.source.cut import Cut
from edgec.toolchain.kernels.cpu.source.first_pixel import first_pixel
from edgec.toolchain.kernels.cpu.source.result import Tile
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit
from edgec.toolchain.kernels.cpu.source.workgroups import beside, even, workgroups
from edgec.toolchain.kernels.cpu.source.writer import Writer

__all__ = ["GroupedTiling", "grouped_kernel", "grouped_tiling"]

_PACE = 0.25  # of the rate of products
_MOST_PRODUCTS = 200
_MOST_PRODUCTS_OF_A_ROW = 640
_ENOUGH_SUMS = 8
_MOST_COLUMNS = 32
_MOST_VECTORS = 3
_LONGEST_LOAD = 8  # vectors


@dataclass(frozen=True, kw_only=True)
class GroupedTiling:
    """How such a convolution is cut up.

    Attributes:
        columns: neighbouring output pixels of a tile, whose sums are kept in registers.
        lanes: output channels of a vector.
        vectors: of a block, which holds whole groups.
        blocks: how many blocks there are; the last may overlap the one before it.
        across: how many tiles there are in a row; the last may overlap the one before it.
        near: whether all blocks of a few pixels come before the next pixels.
        split: workgroups across the rows, and across the blocks.
    """

    columns: int
    lanes: int
    vectors: int
    blocks: int
    across: int
    near: bool
    split: tuple[int, int]

    @property
    def block(self) -> int:
        """Output channels of a block."""
        return self.vectors * self.lanes


def grouped_tiling(
    conv: Convolution, unit: VectorUnit, cut: Cut | None = None
) -> GroupedTiling | None:
    """Tiles that divide a row with little overlap, and leave registers for the weights.

    With `cut` its columns and workgroups instead, if they fit. None where there is one group,
    groups are wide, or so odd that no few vectors hold whole ones.
    """
    result = conv.result
    if conv.groups == 1:
        return None
    lanes = unit.lanes
    while lanes and math.lcm(lanes, conv.outputs) > result.channels:
        lanes //= 2
    if not lanes or conv.outputs > lanes or conv.inputs > _LONGEST_LOAD * conv.outputs:
        return None
    vectors = math.lcm(lanes, conv.outputs) // lanes
    if vectors > _MOST_VECTORS:
        return None
    room = _room(conv, unit, vectors)
    choices = range(1, min(result.width, room) + 1)
    columns = min(choices, key=lambda n: (-(-result.width // n)) * (n + 1.5))
    blocks = -(-result.channels // (vectors * lanes))
    wanted = workgroups(conv.flops, pace=_PACE)
    down = even(result.height, -(-wanted // result.batch))
    split = (down, even(blocks, beside(down * result.batch, wanted)))
    if cut is not None and cut.columns <= min(result.width, _MOST_COLUMNS):
        columns = cut.columns
        split = (min(cut.split[0], result.height), min(cut.split[1], blocks))
    return GroupedTiling(
        columns=columns,
        lanes=lanes,
        vectors=vectors,
        blocks=blocks,
        across=-(-result.width // columns),
        near=_is_far(conv, unit.cache),
        split=split,
    )


def _is_far(conv: Convolution, cache: Cache) -> bool:
    """Whether a block's pixels push each other out of a core's second cache.

    They are as far apart as all channels are wide: where that is a multiple of a power of two, they
    share as few of the cache's sets.
    """
    result = conv.result
    apart = max(1, 4 * conv.channels // cache.line)
    lines = (conv.height * conv.width + result.height * result.width) * math.gcd(apart, cache.sets)
    return lines > cache.sets * cache.ways


def _room(conv: Convolution, unit: VectorUnit, vectors: int) -> int:
    """The most columns of a tile: registers for as many inputs as sums, code of a bounded length.

    A window that is too large to be written out as a whole goes by rows, a very long row of it by
    columns; then the tile may have as many columns as there are registers for, which it needs: a
    sum waits four cycles for the one before it.
    """
    steps = vectors * conv.inputs
    room = max(2, unit.registers // 2 - 2)
    if steps > 1:
        room = max(2, (unit.registers - 6) // (2 * vectors))
    whole = _MOST_PRODUCTS // (math.prod(conv.window) * steps)
    return whole if whole * vectors >= _ENOUGH_SUMS and whole < room else room


def grouped_kernel(name: str, conv: Convolution, cut: GroupedTiling, unit: VectorUnit) -> str:
    """The text of a `stream.executable` called `name` with an entry point of that name.

    Its bindings are the input, the weights (window x inputs of a group x output channels), the
    epilogue's channel tensors, its other tensors, and the result, all f32.
    """
    result = conv.result
    writer = Writer(
        name=name,
        workgroups=(*cut.split, result.batch),
        sizes=[
            conv.size,
            conv.taps * conv.inputs * result.channels,
            *result.extra_sizes,
            result.size,
        ],
    )
    return writer.text(_Body(conv=conv, cut=cut, unit=unit, w=writer).lines())


@dataclass(frozen=True, kw_only=True)
class _Body:
    conv: Convolution
    cut: GroupedTiling
    unit: VectorUnit
    w: Writer

    @property
    def kind(self) -> str:
        return f"vector<{self.cut.lanes}xf32>"

    @property
    def count(self) -> int:
        return self.cut.columns * self.cut.vectors

    @property
    def unrolled(self) -> tuple[bool, bool, bool]:
        """Whether frames, rows and columns of the window are written out one by one."""
        conv = self.conv
        products = self.count * conv.inputs
        columns = products * conv.window[1] <= _MOST_PRODUCTS_OF_A_ROW
        rows = columns and products * math.prod(conv.window) <= _MOST_PRODUCTS + 50
        return conv.frames.window == 1, rows or conv.window[0] == 1, columns

    @property
    def keeps(self) -> bool:
        """Whether the weights stay in registers from tile to tile, as far as there are enough."""
        narrow = self.conv.inputs == self.cut.vectors == 1
        return all(self.unrolled) and narrow and not self.cut.near

    @property
    def pixels(self) -> Tile:
        cut = self.cut
        return Tile(columns=cut.columns, vectors=cut.vectors, lanes=cut.lanes)

    def lines(self) -> Iterator[str]:
        conv, cut, w = self.conv, self.cut, self.w
        result = conv.result
        yield f"%zero = arith.constant dense<0.0> : {self.kind}"
        yield from w.share("row", "%wx", result.height, cut.split[0])
        yield from w.share("block", "%wy", cut.blocks, cut.split[1])
        loops = [self.block_loop(), self.row_loop(), self.tile_loop()]
        for loop in (*loops[1:], loops[0]) if cut.near else loops:
            yield from loop
        yield from conv.frames.first(w)
        yield from first_pixel(w, "%frame", (conv.height, conv.width), conv.stride)
        yield f"%i6 = arith.muli %i5, {w.index(conv.channels)} : index"
        yield "%input = arith.addi %i6, %first_in : index"
        steps, sums = self.walk(["%zero"] * self.count)
        yield from steps
        yield from result.finish(w, sums, self.pixels, 2)
        yield "}"
        yield "}"
        yield "}"

    def block_loop(self) -> Iterator[str]:
        """Begin the loop over blocks of channels, with what each reads once."""
        conv, cut, w = self.conv, self.cut, self.w
        yield f"scf.for %block = %block_from to %block_to step {w.index(1)} {{"
        yield from w.start("%n0", "%block", cut.block, conv.result.channels - cut.block)
        yield f"%group = arith.divui %n0, {w.index(conv.outputs)} : index"
        yield f"%first_in = arith.muli %group, {w.index(conv.inputs)} : index"
        if self.keeps:
            for tap in range(conv.taps):
                yield from self.weights(f"%wt{tap}", "%n0", tap, 0)
        yield from conv.result.channel_values(w, self.pixels, 2)

    def row_loop(self) -> Iterator[str]:
        """Begin the loop over rows."""
        yield f"scf.for %y0 = %row_from to %row_to step {self.w.index(1)} {{"

    def tile_loop(self) -> Iterator[str]:
        """Begin the loop over tiles of a row."""
        cut, w = self.cut, self.w
        yield f"scf.for %tx = {w.index(0)} to {w.index(cut.across)} step {w.index(1)} {{"
        yield from w.start("%x0", "%tx", cut.columns, self.conv.result.width - cut.columns)

    def weights(self, name: str, base: str, offset: int, vector: int) -> Iterator[str]:
        """`name`: a vector of weights, `offset` rows of output channels from `base` on."""
        w = self.w
        place = w.fresh()
        at = offset * self.conv.result.channels + vector * self.cut.lanes
        yield f"{place} = arith.addi {base}, {w.index(at)} : index"
        yield f"{name} = vector.load %m1[{place}] : {w.memory(1)}, {self.kind}"

    def walk(self, sums: list[str]) -> tuple[list[str], list[str]]:
        """The loops over what of the window is not written out, and the names of the sums."""
        conv, w = self.conv, self.w
        lines: list[str] = []
        counted = [
            (name, size)
            for name, size, plain in zip(
                ("kd", "kh", "kw"),
                (conv.frames.window, *conv.window),
                self.unrolled,
                strict=True,
            )
            if not plain
        ]
        kinds = ", ".join([self.kind] * self.count)
        for name, size in counted:
            names = [f"%{name}_s{i}" for i in range(self.count)]
            pairs = ", ".join(f"{n} = {o}" for n, o in zip(names, sums, strict=True))
            lines.append(
                f"%sum_{name}:{self.count} = scf.for %{name} = {w.index(0)} to {w.index(size)} "
                f"step {w.index(1)} iter_args({pairs}) -> ({kinds}) {{"
            )
            sums = names
        lines += self.bases([name for name, _ in counted])
        inner, sums = self.multiply(sums)
        lines += inner
        for name, _ in reversed(counted):
            lines += [f"scf.yield {', '.join(sums)} : {kinds}", "}"]
            sums = [f"%sum_{name}#{i}" for i in range(self.count)]
        return lines, sums

    def bases(self, counted: list[str]) -> Iterator[str]:
        """`%in` and `%wt`: where input and weights begin in the loops' present turn."""
        conv, w = self.conv, self.w
        rows, columns = conv.window
        row = conv.width * conv.channels
        steps = {
            "kd": (conv.frames.dilation * conv.height * row, rows * columns),
            "kh": (conv.dilation[0] * row, columns),
            "kw": (conv.dilation[1] * conv.channels, 1),
        }
        here, there = "%input", "%n0"
        for name in counted:
            far, taps = steps[name]
            a, b, c, d = (w.fresh() for _ in range(4))
            yield f"{a} = arith.muli %{name}, {w.index(far)} : index"
            yield f"{b} = arith.addi {here}, {a} : index"
            heavy = taps * conv.inputs * conv.result.channels
            yield f"{c} = arith.muli %{name}, {w.index(heavy)} : index"
            yield f"{d} = arith.addi {there}, {c} : index"
            here, there = b, d
        yield f"%in = arith.addi {here}, {w.index(0)} : index"
        yield f"%wt = arith.addi {there}, {w.index(0)} : index"

    def multiply(self, sums: list[str]) -> tuple[list[str], list[str]]:
        """What is written out of the window, for every pixel of the tile; the names of its sums."""
        conv, cut, w = self.conv, self.cut, self.w
        _, rows, columns = self.unrolled
        lines: list[str] = []
        sums = list(sums)
        high, wide = conv.window[0] if rows else 1, conv.window[1] if columns else 1
        for y in range(high):
            places: dict[tuple[int, int], str] = {}
            for k in range(conv.inputs):
                shuffled: dict[tuple[int, int], str] = {}
                for x, v in itertools.product(range(wide), range(cut.vectors)):
                    tap = y * wide + x
                    factor = f"%wt{tap}"
                    if not self.keeps:
                        factor = w.fresh()
                        lines += self.weights(factor, "%wt", tap * conv.inputs + k, v)
                    for column in range(cut.columns):
                        at = (column * conv.stride[1] + x * conv.dilation[1], v)
                        if at not in places:
                            places[at] = w.fresh()
                            lines += self.load(places[at], y, *at)
                        if at not in shuffled:
                            more, shuffled[at] = self.placed(places[at], v, k)
                            lines += more
                        number = column * cut.vectors + v
                        total = w.fresh()
                        lines += w.multiply_add(
                            total, shuffled[at], factor, sums[number], self.kind, self.unit.fused
                        )
                        sums[number] = total
        return lines, sums

    def span(self, vector: int) -> tuple[int, int]:
        """The first group that a vector's lanes belong to, of those of the block, and how many."""
        cut, outputs = self.cut, self.conv.outputs
        first = vector * cut.lanes // outputs
        return first, ((vector + 1) * cut.lanes - 1) // outputs - first + 1

    def load(self, name: str, y: int, x: int, vector: int) -> Iterator[str]:
        """`name`: the input of all groups of a vector, at a row and column from `%in` on."""
        conv, w = self.conv, self.w
        first, groups = self.span(vector)
        place = w.fresh()
        offset = (y * conv.dilation[0] * conv.width + x) * conv.channels + first * conv.inputs
        yield f"{place} = arith.addi %in, {w.index(offset)} : index"
        kind = f"vector<{groups * conv.inputs}xf32>"
        yield f"{name} = vector.load %m0[{place}] : {w.memory(0)}, {kind}"

    def placed(self, value: str, vector: int, k: int) -> tuple[list[str], str]:
        """What the lanes of a vector multiply with input channel `k` of their groups."""
        conv, cut = self.conv, self.cut
        first, groups = self.span(vector)
        lanes = range(vector * cut.lanes, (vector + 1) * cut.lanes)
        picks = [(lane // conv.outputs - first) * conv.inputs + k for lane in lanes]
        if picks == list(range(groups * conv.inputs)):
            return [], value
        name = self.w.fresh()
        kind = f"vector<{groups * conv.inputs}xf32>"
        chosen = ", ".join(map(str, picks))
        return [f"{name} = vector.shuffle {value}, {value} [{chosen}] : {kind}, {kind}"], name
