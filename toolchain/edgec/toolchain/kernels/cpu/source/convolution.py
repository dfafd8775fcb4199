"""A convolution over channels-last data, or a matrix product, to a kernel of register tiles.

Each workgroup takes a run of tiles and of panels. A tile is a few neighbouring output pixels, a
panel a few vectors of output channels; their sums stay in registers while the kernel walks over
the window and the input channels, where each input value is multiplied with a whole vector of
weights. So the input is read where it lies, in any stride, and nothing is copied but the weights,
which lie panel by panel.
"""

import math
from collections.abc import Collection, Generator, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

from edgec.toolchain.kernels.cpu.source.ahead import Ahead, ahead
from edgec.toolchain.kernels.cpu.source.by_lane import (
    QUAD,
    Factors,
    multiplied,
    summed_by_quads,
)
from edgec.toolchain.kernels.cpu.source.cut import Cut, Form
from edgec.toolchain.kernels.cpu.source.first_pixel import first_pixel
from edgec.toolchain.kernels.cpu.source.frames import Frames
from edgec.toolchain.kernels.cpu.source.nest import summed_loops
from edgec.toolchain.kernels.cpu.source.result import Result, Tile
from edgec.toolchain.kernels.cpu.source.vectors import FIRST_CACHE, VectorUnit
from edgec.toolchain.kernels.cpu.source.workgroups import beside, even, workgroups
from edgec.toolchain.kernels.cpu.source.writer import KEPT, Writer

__all__ = ["Convolution", "Tiling", "convolution_kernel", "ranked_tilings", "tiling"]

_MOST_SUMS = 64
_MOST_VECTORS = 4
_USUAL_REGISTERS = 16
_ALIKE = 1.02
"""How much more a panel may cost that is cut as those of processors with 16 registers: variants of
a package share weights that lie alike."""
_SHARED = 1.1
"""How much more panels may cost in which another kernel has the same weights already."""
_FAR = 4.0
"""Half cycles that a vector of 32 bytes or more takes from the second cache: measured with AVX2
(Zen 3), where 3 pixels by 3 vectors of 2,016 channels reached 95 GFLOP/s, and 6 by 2 reach 138."""
_LATENCY = 4
"""Sums that are needed to hide the latency of a multiplication, where one takes a lane."""


@dataclass(frozen=True, kw_only=True)
class Convolution:
    """A convolution; a matrix product is one with a window of one pixel.

    Attributes:
        height, width, channels: the input's sizes, padding included, channels last.
        groups: equal parts of the channels, each of which makes one part of the result's.
        result: what is written; its batch counts the frames of all images.
        window: rows and columns of the window.
        stride: steps of the window, rows and columns.
        dilation: distance of the window's own rows and columns.
        frames: the window's third axis, the outermost.
    """

    height: int = 1
    width: int
    channels: int
    groups: int = 1
    result: Result
    window: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    frames: Frames = field(default_factory=Frames)

    @property
    def inputs(self) -> int:
        """Channels that one output channel sums."""
        return self.channels // self.groups

    @property
    def outputs(self) -> int:
        """Output channels of a group."""
        return self.result.channels // self.groups

    @property
    def taps(self) -> int:
        """Places of the window."""
        return self.frames.window * math.prod(self.window)

    @property
    def line(self) -> int:
        """Neighbours of the input that an output sums: of all columns of the window, or of one."""
        whole = self.groups == 1 and self.dilation[1] == 1
        return self.inputs * (self.window[1] if whole else 1)

    @property
    def size(self) -> int:
        """Elements of the input."""
        images = self.result.batch // self.frames.out * self.frames.size
        return images * self.height * self.width * self.channels

    @property
    def flops(self) -> int:
        """Multiplications and additions, both counted."""
        result = self.result
        pixels = result.batch * result.height * result.width
        return 2 * pixels * result.channels * self.inputs * self.taps


@dataclass(frozen=True, kw_only=True)
class Tiling:
    """How a convolution is cut up.

    Attributes:
        rows, columns: output pixels of a tile.
        vectors: vectors of output channels in a panel.
        lanes: values in a vector.
        panels: how many panels there are; a group's last may overlap the one before it.
        outputs: output channels of a group.
        tiles: how many tiles there are down and across; the last may overlap the one before it.
        split: workgroups across the tiles, and across the panels.
    """

    rows: int
    columns: int
    vectors: int
    lanes: int
    panels: int
    outputs: int
    tiles: tuple[int, int]
    split: tuple[int, int]

    @property
    def panel(self) -> int:
        """Output channels of a panel."""
        return self.vectors * self.lanes

    @property
    def each(self) -> int:
        """Panels of a group."""
        return -(-self.outputs // self.panel)

    @property
    def starts(self) -> tuple[int, ...]:
        """The first output channel of each panel."""
        return tuple(
            i // self.each * self.outputs
            + min(i % self.each * self.panel, self.outputs - self.panel)
            for i in range(self.panels)
        )

    def first(self, w: Writer, result: Result) -> Iterator[str]:
        """`%y0` and `%x0`: the first pixel of the result that tile `%tile` makes."""
        across = w.index(self.tiles[1])
        yield f"%ty = arith.divui %tile, {across} : index"
        yield f"%tx = arith.remui %tile, {across} : index"
        yield from w.start("%y0", "%ty", self.rows, result.height - self.rows)
        yield from w.start("%x0", "%tx", self.columns, result.width - self.columns)


def tiling(
    conv: Convolution, unit: VectorUnit, cut: Cut | None = None, panels: Collection[int] = ()
) -> Tiling:
    """The cut asked for, if it fits; else the one that costs the fewest cycles by a simple model.

    Weights that another kernel has in panels of some width stay in these where that costs little:
    a program that computes the same for several sizes then has its weights once.

    A step of the inner loop takes as long as its multiplications (two a cycle) or its loads (two a
    cycle, one for each pixel and one for each vector of weights), whichever is longer; eight
    sums are needed to hide the latency of a multiplication. Weights of a panel that the first
    cache does not hold come more slowly, so that a tile of more pixels is better there.
    """
    lanes = _lanes(conv, unit)
    if cut is not None and _fits(cut, conv, lanes):
        return _tiling(conv, lanes, (cut.vectors, cut.rows, cut.columns), cut.split)
    costs = list(_costs(conv, unit))
    least = min(costs)
    shared = min((each for each in costs if each[1][0] * lanes in panels), default=least)
    chosen = shared if shared[0] <= least[0] * _SHARED else least
    return _tiling(conv, lanes, chosen[1], None)


def ranked_tilings(conv: Convolution, unit: VectorUnit) -> Iterator[Tiling]:
    """Every cut that fits the registers, those that cost least by the model of `tiling` first."""
    for _, sizes in sorted(_costs(conv, unit)):
        yield _tiling(conv, _lanes(conv, unit), sizes, None)


def _lanes(conv: Convolution, unit: VectorUnit) -> int:
    lanes = unit.lanes
    while lanes > conv.outputs:
        lanes //= 2
    return lanes


def _costs(conv: Convolution, unit: VectorUnit) -> Iterator[tuple[float, tuple[int, int, int]]]:
    """The cost of each cut that fits, with its vectors, rows and columns; there is at least one."""
    result = conv.result
    lanes = _lanes(conv, unit)
    if unit.by_lane:
        usual = replace(unit, by_lane=False, registers=_USUAL_REGISTERS)
        panel = min(_costs(conv, usual))[1][0]
        for cost, sizes in _costs_by_lane(conv, unit, lanes):
            yield cost * (1.0 if sizes[0] == panel else _ALIKE), sizes
        return
    for vectors in range(1, _MOST_VECTORS + 1):
        panel = vectors * lanes
        if panel > conv.outputs:
            return
        panels = conv.groups * -(-conv.outputs // panel)
        is_far = 4 * conv.taps * conv.inputs * panel > FIRST_CACHE
        far = min(_FAR, lanes / 2) if is_far else 0.0
        room = unit.registers - vectors - 1
        for rows in range(1, min(result.height, 4) + 1):
            for columns in range(1, min(result.width, room // (vectors * rows)) + 1):
                pixels = rows * columns
                step = max(pixels * vectors, pixels + vectors, 8, far * vectors) + 1.0 + 0.2 * rows
                down, across = -(-result.height // rows), -(-result.width // columns)
                yield step * panels * down * across, (vectors, rows, columns)


def _costs_by_lane(
    conv: Convolution, unit: VectorUnit, lanes: int
) -> Iterator[tuple[float, tuple[int, int, int]]]:
    """As `_costs`, in instructions, where neighbours of the input are read four at a time.

    A quad takes its multiplications, a load for each pixel, one for two vectors of weights, and
    those of the loop; a tile beside that its first and last places.
    """
    result = conv.result
    quads = conv.taps * conv.inputs / QUAD
    for vectors in range(1, _MOST_VECTORS + 1):
        panel = vectors * lanes
        if panel > conv.outputs:
            return
        panels = conv.groups * -(-conv.outputs // panel)
        room = (unit.registers - vectors) // (vectors + 1)
        for rows in range(1, min(result.height, 4) + 1):
            for columns in range(1, min(result.width, room // rows) + 1):
                pixels = rows * columns
                step = max((QUAD * vectors + 1) * pixels, QUAD * _LATENCY) + 2 * vectors + 4
                tile = 4 * pixels * vectors + 10 * rows + 20
                down, across = -(-result.height // rows), -(-result.width // columns)
                cost = (step * quads + tile) * panels * down * across
                yield cost, (vectors, rows, columns)


def _fits(cut: Cut, conv: Convolution, lanes: int) -> bool:
    result = conv.result
    return (
        cut.form is Form.PLAIN
        and cut.rows <= result.height
        and cut.columns <= result.width
        and cut.vectors * lanes <= conv.outputs
        and cut.rows * cut.columns * cut.vectors <= _MOST_SUMS
    )


def _tiling(
    conv: Convolution, lanes: int, sizes: tuple[int, int, int], split: tuple[int, int] | None
) -> Tiling:
    """Vectors, rows and columns of a tile, with the counts that follow; `split` at most."""
    result = conv.result
    vectors, rows, columns = sizes
    tiles = (-(-result.height // rows), -(-result.width // columns))
    panels = conv.groups * -(-conv.outputs // (vectors * lanes))
    return Tiling(
        rows=rows,
        columns=columns,
        vectors=vectors,
        lanes=lanes,
        panels=panels,
        outputs=conv.outputs,
        tiles=tiles,
        split=_split(conv, math.prod(tiles), panels)
        if split is None
        else (min(split[0], math.prod(tiles)), min(split[1], panels)),
    )


def _split(conv: Convolution, tiles: int, panels: int) -> tuple[int, int]:
    """Workgroups across tiles and panels: enough to keep every core busy, each worth its start.

    Weights that are larger than the input are split, so that each is read once; otherwise the
    pixels are.
    """
    batch, channels = conv.result.batch, conv.result.channels
    weights = conv.inputs * channels * conv.taps
    wanted = workgroups(conv.flops, 4 * weights)
    if weights > conv.size:
        across = even(panels, wanted)
        return even(tiles, -(-wanted // across)), across
    down = even(tiles, -(-wanted // batch))
    return down, even(panels, beside(down * batch, wanted))


@lru_cache(maxsize=KEPT)
def convolution_kernel(name: str, conv: Convolution, cut: Tiling, unit: VectorUnit) -> str:
    """The text of a `stream.executable` called `name` with an entry point of that name.

    Its bindings are the input, the packed weights (panels x window x inputs x panel width), the
    epilogue's channel tensors, its other tensors, and the result, all f32.
    """
    weights = cut.panels * conv.taps * conv.inputs * cut.panel
    result = conv.result
    writer = Writer(
        name=name,
        workgroups=(*cut.split, result.batch),
        sizes=[
            conv.size,
            weights,
            *result.extra_sizes,
            result.size,
        ],
    )
    return writer.text(_Body(conv=conv, cut=cut, unit=unit, w=writer).lines())


def window_place(
    w: Writer, conv: Convolution, pixel: int, tap: int, *, by_line: bool = False
) -> Iterator[str]:
    """`%in` and `%wt`: where input and weights of a place `%kd`, `%kh`, `%kw` in the window begin.

    Args:
        w: the kernel's writer.
        conv: the convolution, whose tile begins at `%input` and whose panel at `%weights`.
        pixel: elements of a pixel of the input.
        tap: elements of a panel's weights for one place of the window.
        by_line: whether columns of the window that are neighbours are gone over as one.
    """
    rows, columns = conv.window
    kd = "%kd" if conv.frames.window > 1 else w.index(0)
    kh = "%kh" if rows > 1 else w.index(0)
    alone = columns > 1 and not (by_line and conv.line > conv.inputs)
    kw = "%kw" if alone else w.index(0)
    frame = conv.frames.dilation * conv.height * conv.width
    yield f"%jd = arith.muli {kd}, {w.index(frame)} : index"
    yield f"%jh = arith.muli {kh}, {w.index(conv.dilation[0] * conv.width)} : index"
    yield "%j0 = arith.addi %jd, %jh : index"
    yield f"%j1 = arith.muli {kw}, {w.index(conv.dilation[1])} : index"
    yield "%j2 = arith.addi %j0, %j1 : index"
    yield f"%j3 = arith.muli %j2, {w.index(pixel)} : index"
    yield "%in = arith.addi %j3, %input : index"
    yield f"%ld = arith.muli {kd}, {w.index(rows * columns)} : index"
    yield f"%lh = arith.muli {kh}, {w.index(columns)} : index"
    yield "%l0 = arith.addi %ld, %lh : index"
    yield f"%l1 = arith.addi %l0, {kw} : index"
    yield f"%l2 = arith.muli %l1, {w.index(tap)} : index"
    yield "%wt = arith.addi %l2, %weights : index"


@dataclass(frozen=True, kw_only=True)
class _Body:
    conv: Convolution
    cut: Tiling
    unit: VectorUnit
    w: Writer

    @property
    def vector(self) -> str:
        return f"vector<{self.cut.lanes}xf32>"

    @property
    def pixels(self) -> Tile:
        cut = self.cut
        return Tile(rows=cut.rows, columns=cut.columns, vectors=cut.vectors, lanes=cut.lanes)

    def lines(self) -> Iterator[str]:
        conv, cut, w = self.conv, self.cut, self.w
        result = conv.result
        one = w.index(1)
        yield f"%zero = arith.constant dense<0.0> : {self.vector}"
        yield from w.share("tile", "%wx", math.prod(cut.tiles), cut.split[0])
        yield from w.share("panel", "%wy", cut.panels, cut.split[1])
        yield f"scf.for %panel = %panel_from to %panel_to step {one} {{"
        yield from self.channels()
        elements = conv.taps * conv.inputs * cut.panel
        yield f"%weights = arith.muli %panel, {w.index(elements)} : index"
        yield from result.channel_values(w, self.pixels, 2)
        yield f"scf.for %tile = %tile_from to %tile_to step {one} {{"
        if self.ahead:
            yield from self.ahead.tile(w, "%tile_from", "%weights", elements)
        yield from self.tile()
        yield "}"
        yield "}"

    @cached_property
    def ahead(self) -> Ahead | None:
        conv, cut = self.conv, self.cut
        return ahead(
            self.unit,
            panels=cut.panels,
            panel=cut.panel,
            steps=conv.taps * conv.inputs,
            pixels=cut.rows * cut.columns,
            tiles=math.prod(cut.tiles) // cut.split[0],
        )

    def channels(self) -> Iterator[str]:
        """`%n0` and `%first_in`: the panel's first output channel, its group's first input."""
        conv, cut, w = self.conv, self.cut, self.w
        if conv.groups == 1:
            yield from w.start("%n0", "%panel", cut.panel, conv.outputs - cut.panel)
            yield f"%first_in = arith.addi {w.index(0)}, {w.index(0)} : index"
            return
        yield f"%group = arith.divui %panel, {w.index(cut.each)} : index"
        yield f"%within = arith.remui %panel, {w.index(cut.each)} : index"
        yield from w.start("%n_in", "%within", cut.panel, conv.outputs - cut.panel)
        yield f"%n_group = arith.muli %group, {w.index(conv.outputs)} : index"
        yield "%n0 = arith.addi %n_group, %n_in : index"
        yield f"%first_in = arith.muli %group, {w.index(conv.inputs)} : index"

    def tile(self) -> Iterator[str]:
        conv, cut, w = self.conv, self.cut, self.w
        result = conv.result
        yield from cut.first(w, result)
        # the first input value: ((frame * height + y * stride) * width + x * stride) * channels
        yield from conv.frames.first(w)
        yield from first_pixel(w, "%frame", (conv.height, conv.width), conv.stride)
        yield f"%i6 = arith.muli %i5, {w.index(conv.channels)} : index"
        yield "%input = arith.addi %i6, %first_in : index"
        yield from self.walk()
        count = cut.rows * cut.columns * cut.vectors
        yield from result.finish(w, [f"%sum#{i}" for i in range(count)], self.pixels, 2)

    def walk(self) -> Iterator[str]:
        """Go over window rows, window columns and channels; the sums become `%sum#…`."""
        conv, cut, w = self.conv, self.cut, self.w
        if self.by_lane:
            yield from self.walk_by_quads()
            return
        window = (("kd", conv.frames.window), ("kh", conv.window[0]), ("kw", conv.window[1]))
        loops = [*((name, size) for name, size in window if size > 1), ("k", conv.inputs)]
        begin = ["%zero"] * (cut.rows * cut.columns * cut.vectors)
        yield from summed_loops(w, loops, begin, self.vector, self.addresses, self.multiply)

    @property
    def by_lane(self) -> bool:
        """Whether the neighbours that are summed are read four at a time."""
        return self.unit.by_lane and self.unit.fused and self.conv.line >= QUAD

    def walk_by_quads(self) -> Iterator[str]:
        """As `walk`, with neighbours of the input four at a time."""
        conv, cut, w = self.conv, self.cut, self.w
        window = [("kd", conv.frames.window), ("kh", conv.window[0])]
        if conv.line == conv.inputs:
            window.append(("kw", conv.window[1]))
        loops = [(name, size) for name, size in window if size > 1]
        begin = ["%zero"] * (cut.rows * cut.columns * cut.vectors)
        rows = [
            (row * conv.stride[0] * conv.width + column * conv.stride[1]) * conv.channels
            for row in range(cut.rows)
            for column in range(cut.columns)
        ]
        panel = [v * cut.lanes for v in range(cut.vectors)]

        def neighbours(sums: list[str], first: str, count: int) -> Generator[str, None, list[str]]:
            at, far, vectors = w.fresh(), w.fresh(), w.fresh()
            yield f"{at} = arith.addi %in, {first} : index"
            yield f"{far} = arith.muli {first}, {w.index(cut.panel)} : index"
            yield f"{vectors} = arith.addi %wt, {far} : index"
            sums = yield from multiplied(
                w,
                sums,
                Factors(at=at, memory="%m0", kind=w.memory(0), offsets=rows),
                Factors(at=vectors, memory="%m1", kind=w.memory(1), offsets=panel),
                lanes=cut.lanes,
                width=cut.panel,
                count=count,
            )
            return sums

        yield from summed_by_quads(
            w, loops, conv.line, begin, self.vector, self.addresses, neighbours
        )

    def addresses(self) -> Iterator[str]:
        conv = self.conv
        tap = conv.inputs * self.cut.panel
        return window_place(self.w, conv, conv.channels, tap, by_line=self.by_lane)

    def multiply(self, sums: list[str]) -> Iterator[str]:
        """One step: every pixel's value at `%k` times the panel's weights at `%k`."""
        conv, cut, w = self.conv, self.cut, self.w
        yield "%a = arith.addi %in, %k : index"
        yield f"%q0 = arith.muli %k, {w.index(cut.panel)} : index"
        yield "%q = arith.addi %wt, %q0 : index"
        if self.ahead:
            yield from self.ahead.step(w, conv.inputs)
        for v in range(cut.vectors):
            yield f"%o{v} = arith.addi %q, {w.index(v * cut.lanes)} : index"
            yield f"%p{v} = vector.load %m1[%o{v}] : {w.memory(1)}, {self.vector}"
        done = []
        for pixel in range(cut.rows * cut.columns):
            row, column = divmod(pixel, cut.columns)
            offset = row * conv.stride[0] * conv.width + column * conv.stride[1]
            yield f"%g{pixel} = arith.addi %a, {w.index(offset * conv.channels)} : index"
            yield f"%e{pixel} = memref.load %m0[%g{pixel}] : {w.memory(0)}"
            yield f"%f{pixel} = vector.broadcast %e{pixel} : f32 to {self.vector}"
            for v in range(cut.vectors):
                result = w.fresh()
                total = sums[pixel * cut.vectors + v]
                yield from w.multiply_add(
                    result, f"%f{pixel}", f"%p{v}", total, self.vector, self.unit.fused
                )
                done.append(result)
        yield f"scf.yield {', '.join(done)} : {', '.join([self.vector] * len(done))}"
