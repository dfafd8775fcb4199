"""A convolution with a window of 3 x 3, by Winograd's minimal filtering, to one kernel.

Two by two output pixels need 16 products a channel instead of 36: the 4 x 4 input pixels and the
weights are each turned into 16 sums, whose products are summed over the channels and turned back
(Winograd 1980; Lavin and Gray 2015, F(2 x 2, 3 x 3)). The weights are turned when compiling. A
workgroup turns a few tiles of input onto its stack, multiplies them with the weights of a panel as
16 small matrix products, and turns the sums back; nothing leaves the core's own memory between.
"""

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from functools import cached_property

from edgec.toolchain.kernels.cpu.source.ahead import Ahead, ahead
from edgec.toolchain.kernels.cpu.source.by_lane import Factors, multiplied, summed_by_quads
from edgec.toolchain.kernels.cpu.source.convolution import Convolution
from edgec.toolchain.kernels.cpu.source.cut import Cut, Form
from edgec.toolchain.kernels.cpu.source.result import Tile
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit
from edgec.toolchain.kernels.cpu.source.workgroups import even, workgroups
from edgec.toolchain.kernels.cpu.source.writer import Writer, on_stack

__all__ = [
    "WEIGHTS",
    "WinogradTiling",
    "winograd_cuts",
    "winograd_kernel",
    "winograd_tiling",
]

WEIGHTS = ((1.0, 0.0, 0.0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0.0, 0.0, 1.0))
"""The matrix that weights are multiplied with on both sides, G of the literature."""

_LEAST_TILES = 4
_SHARE_OF_STACK = 5 / 8
"""Every group of tiles reads all weights, so the fewer groups the better; what a group turns need
not lie in a first cache, since each of its 16 products reads a part of it."""
_LEAST_CHANNELS = 24
_CACHES_OF_WEIGHTS = 4
_LEAST_PIXELS = 128
"""Turned weights are 16/9 of the plain ones. In a large network they come from memory in each call,
at some 5 bytes a nanosecond; with fewer pixels that takes longer than the products save."""
_SHARE_OF_CACHE = 5 / 8
"""Of a second cache, weights of the panels between which groups of tiles alternate."""
_PACE = 2.0
"""A third to a half of the products are left, so that the same work is done in less time."""


@dataclass(frozen=True, kw_only=True)
class WinogradTiling:
    """How such a convolution is cut up.

    Attributes:
        tiles: tiles of 2 x 2 output pixels that a group turns together.
        vectors, lanes: of output channels in a panel.
        panels: how many panels there are; the last may overlap the one before it.
        down, across: tiles of the whole result; the last may overlap the ones before.
        groups: groups of tiles; the last may overlap the one before it.
        split: workgroups across the groups.
        runs: parts of the panels, one after the other, each for all groups of its workgroup.
        lanes_in: values of a vector of input channels.
    """

    tiles: int
    vectors: int
    lanes: int
    panels: int
    down: int
    across: int
    groups: int
    split: int
    runs: int
    lanes_in: int

    @property
    def panel(self) -> int:
        """Output channels of a panel."""
        return self.vectors * self.lanes

    def starts(self, channels: int) -> tuple[int, ...]:
        """The first output channel of each panel."""
        return tuple(min(i * self.panel, channels - self.panel) for i in range(self.panels))


def winograd_tiling(
    conv: Convolution, unit: VectorUnit, cut: Cut | None = None
) -> WinogradTiling | None:
    """The cut, or None where the plain kernel is as good or this one does not apply.

    With `cut` its groups, vectors and workgroups instead, if they fit; a plain one is as good.
    """
    if not _applies(conv, unit):
        return None
    if cut is not None:
        return _asked(conv, unit, cut) if cut.form is Form.WINOGRAD else None
    if min(conv.channels, conv.result.channels) < _LEAST_CHANNELS:
        return None
    if conv.result.height * conv.result.width < _LEAST_PIXELS:
        return None
    if 4 * 16 * conv.channels * conv.result.channels > _CACHES_OF_WEIGHTS * unit.cache.size:
        return None  # the weights, nearly twice as many, would be fetched for every group
    vectors = 2 if conv.result.channels >= 2 * unit.lanes else 1
    most = _most_tiles(conv, unit, vectors)
    if most < _LEAST_TILES:
        return None
    count = _tiling(conv, unit, most, vectors, None)
    # As many in each group, or the last one would do again what those before it did.
    tiles = -(-count.down * count.across // count.groups)
    return _tiling(conv, unit, tiles, vectors, None)


def winograd_cuts(conv: Convolution, unit: VectorUnit) -> Iterator[Cut]:
    """Every cut that is worth a try, those nearest to the model's own first."""
    if not _applies(conv, unit):
        return
    for share in (1.0, 0.5, 0.75):
        for vectors in (2, 1, 3, 4):
            most = _most_tiles(conv, unit, vectors)
            tiles = round(share * most)
            if vectors * unit.lanes > conv.result.channels or tiles < _LEAST_TILES:
                continue
            made = _tiling(conv, unit, tiles, vectors, None)
            yield Cut(columns=tiles, vectors=vectors, split=(made.split, 1), form=Form.WINOGRAD)


def _applies(conv: Convolution, unit: VectorUnit) -> bool:
    """Whether the kernel can be written at all."""
    square = conv.taps == 9 and conv.window == (3, 3) and conv.groups == 1
    dense = conv.stride == (1, 1) and conv.dilation == (1, 1)
    wide = min(conv.channels, conv.result.channels) >= unit.lanes >= 4
    return square and dense and wide and min(conv.result.height, conv.result.width) >= 4


def _asked(conv: Convolution, unit: VectorUnit, cut: Cut) -> WinogradTiling | None:
    """The cut that is asked for; None where it does not fit."""
    fits = cut.vectors * unit.lanes <= conv.result.channels
    if not fits or cut.columns > _most_tiles(conv, unit, cut.vectors):
        return None
    return _tiling(conv, unit, cut.columns, cut.vectors, cut.split[0])


def _most_tiles(conv: Convolution, unit: VectorUnit, vectors: int) -> int:
    """Tiles of a group for which there are registers and stack."""
    down, across = -(-conv.result.height // 2), -(-conv.result.width // 2)
    room = int(_SHARE_OF_STACK * unit.stack) // (4 * 16 * (conv.channels + vectors * unit.lanes))
    if unit.by_lane:
        return min(down * across, (unit.registers - vectors) // (vectors + 1), room)
    return min(down * across, (unit.registers - vectors - 1) // vectors, room)


def _tiling(
    conv: Convolution, unit: VectorUnit, tiles: int, vectors: int, split: int | None
) -> WinogradTiling:
    """Tiles of a group and vectors of a panel, with the counts that follow."""
    result = conv.result
    down, across = -(-result.height // 2), -(-result.width // 2)
    groups = -(-down * across // tiles)
    wanted = workgroups(conv.flops / result.batch, pace=_PACE)
    panels = -(-result.channels // (vectors * unit.lanes))
    runs = _runs(conv, unit, panels, vectors * unit.lanes)
    return WinogradTiling(
        tiles=tiles,
        vectors=vectors,
        lanes=unit.lanes,
        panels=panels,
        down=down,
        across=across,
        groups=groups,
        split=even(groups, -(-wanted // runs)) if split is None else min(split, groups),
        runs=runs,
        lanes_in=unit.lanes,
    )


def _runs(conv: Convolution, unit: VectorUnit, panels: int, panel: int) -> int:
    """Parts of the panels whose weights stay in a second cache from one group to the next.

    Input is turned anew for each part; weights that stay there as a whole are one.
    """
    each = 4 * 16 * conv.channels * panel
    if each * panels <= unit.cache.size:
        return 1
    return even(panels, -(-panels // max(1, int(_SHARE_OF_CACHE * unit.cache.size) // each)))


def winograd_kernel(name: str, conv: Convolution, cut: WinogradTiling, unit: VectorUnit) -> str:
    """The text of a `stream.executable` called `name` with an entry point of that name.

    Its bindings are the input, the turned weights (panels x 16 x channels x panel width), the
    epilogue's channel tensors, its other tensors, and the result, all f32.
    """
    result = conv.result
    writer = Writer(
        name=name,
        workgroups=(cut.split, cut.runs, result.batch),
        sizes=[
            result.batch * conv.height * conv.width * conv.channels,
            cut.panels * 16 * conv.channels * cut.panel,
            *result.extra_sizes,
            result.size,
        ],
    )
    return writer.text(_Body(conv=conv, cut=cut, unit=unit, w=writer).lines())


@dataclass(frozen=True, kw_only=True)
class _Body:
    conv: Convolution
    cut: WinogradTiling
    unit: VectorUnit
    w: Writer

    @property
    def vector(self) -> str:
        return f"vector<{self.cut.lanes}xf32>"

    @property
    def turned(self) -> str:
        return f"memref<{16 * self.cut.tiles * self.conv.channels}xf32>"

    @property
    def summed(self) -> str:
        return f"memref<{16 * self.cut.tiles * self.cut.panel}xf32>"

    @property
    def pixels(self) -> Tile:
        cut = self.cut
        return Tile(rows=2, columns=2, vectors=cut.vectors, lanes=cut.lanes)

    def lines(self) -> Iterator[str]:
        conv, cut, w = self.conv, self.cut, self.w
        result = conv.result
        zero, one = w.index(0), w.index(1)
        count = cut.down * cut.across
        yield f"%zero = arith.constant dense<0.0> : {self.vector}"
        yield on_stack("%turned", self.turned)
        yield on_stack("%summed", self.summed)
        yield from w.share("panel", "%wy", cut.panels, cut.runs)
        yield from w.share("group", "%wx", cut.groups, cut.split)
        yield f"scf.for %group = %group_from to %group_to step {one} {{"
        yield from w.start("%t0", "%group", cut.tiles, count - cut.tiles)
        yield f"scf.for %tile = {zero} to {w.index(cut.tiles)} step {one} {{"
        yield from self.place()
        yield from self.turn()
        yield "}"
        yield f"scf.for %panel = %panel_from to %panel_to step {one} {{"
        yield from w.start("%n0", "%panel", cut.panel, result.channels - cut.panel)
        yield from result.channel_values(w, self.pixels, 2)
        yield f"scf.for %point = {zero} to {w.index(16)} step {one} {{"
        yield from self.multiply()
        yield "}"
        yield f"scf.for %tile = {zero} to {w.index(cut.tiles)} step {one} {{"
        yield from self.place()
        yield from result.places(w)
        own = yield from self.own()
        for v in range(cut.vectors):
            yield from self.back(v, own)
        yield from result.border(w, self.pixels, 2)
        yield "}"
        yield "}"
        yield "}"

    def place(self) -> Iterator[str]:
        """`%y0` and `%x0`: the first output pixel of tile `%tile` of the group."""
        w, result = self.w, self.conv.result
        yield "%t = arith.addi %t0, %tile : index"
        yield f"%ty = arith.divui %t, {w.index(self.cut.across)} : index"
        yield f"%tx = arith.remui %t, {w.index(self.cut.across)} : index"
        yield from w.start("%y0", "%ty", 2, result.height - 2)
        yield from w.start("%x0", "%tx", 2, result.width - 2)

    def own(self) -> Generator[str, None, tuple[str, str]]:
        """Truths: whether a tile's first row, and its first column, are its own.

        In an odd size the last tile begins a pixel earlier, in what the one before it stores. Its
        sums there are of other pixels and rounded otherwise, and threads end in any order: an
        answer would change from call to call in its last bit. Empty where all are.
        """
        w, result = self.w, self.conv.result
        found = []
        for size, tile, first in ((result.height, "%ty", "%y0"), (result.width, "%tx", "%x0")):
            if size % 2 == 0:
                found.append("")
                continue
            even, truth = w.fresh(), w.fresh()
            yield f"{even} = arith.muli {tile}, {w.index(2)} : index"
            yield f"{truth} = arith.cmpi eq, {first}, {even} : index"
            found.append(truth)
        return found[0], found[1]

    def turn(self) -> Iterator[str]:
        """The tile's 4 x 4 input pixels, turned, onto the stack: point, tile, channel."""
        conv, cut, w = self.conv, self.cut, self.w
        kind = f"vector<{cut.lanes_in}xf32>"
        blocks = -(-conv.channels // cut.lanes_in)
        yield f"%i0 = arith.muli %wz, {w.index(conv.height)} : index"
        yield "%i1 = arith.addi %i0, %y0 : index"
        yield f"%i2 = arith.muli %i1, {w.index(conv.width)} : index"
        yield "%i3 = arith.addi %i2, %x0 : index"
        yield f"%i4 = arith.muli %i3, {w.index(conv.channels)} : index"
        yield f"%u0 = arith.muli %tile, {w.index(conv.channels)} : index"
        yield f"scf.for %block = {w.index(0)} to {w.index(blocks)} step {w.index(1)} {{"
        yield from w.start("%in0", "%block", cut.lanes_in, conv.channels - cut.lanes_in)
        yield "%i5 = arith.addi %i4, %in0 : index"
        yield "%u1 = arith.addi %u0, %in0 : index"
        pixels: list[list[str]] = []
        for y in range(4):
            pixels.append([])
            for x in range(4):
                place, value = w.fresh(), w.fresh()
                offset = (y * conv.width + x) * conv.channels
                yield f"{place} = arith.addi %i5, {w.index(offset)} : index"
                yield f"{value} = vector.load %m0[{place}] : {w.memory(0)}, {kind}"
                pixels[-1].append(value)
        columns = []
        for x in range(4):
            lines, four = self.inputs([pixels[y][x] for y in range(4)], kind)
            yield from lines
            columns.append(four)
        for y in range(4):
            lines, four = self.inputs([columns[x][y] for x in range(4)], kind)
            yield from lines
            for x in range(4):
                place = w.fresh()
                offset = (4 * y + x) * cut.tiles * conv.channels
                yield f"{place} = arith.addi %u1, {w.index(offset)} : index"
                yield f"vector.store {four[x]}, %turned[{place}] : {self.turned}, {kind}"
        yield "}"

    def inputs(self, d: list[str], kind: str) -> tuple[list[str], list[str]]:
        """d0 - d2, d1 + d2, d2 - d1, d1 - d3."""
        names = [self.w.fresh() for _ in range(4)]
        return [
            f"{names[0]} = arith.subf {d[0]}, {d[2]} : {kind}",
            f"{names[1]} = arith.addf {d[1]}, {d[2]} : {kind}",
            f"{names[2]} = arith.subf {d[2]}, {d[1]} : {kind}",
            f"{names[3]} = arith.subf {d[1]}, {d[3]} : {kind}",
        ], names

    def multiply(self) -> Iterator[str]:
        """The product of all turned tiles by the panel's turned weights, for `%point`."""
        conv, cut, w = self.conv, self.cut, self.w
        count = cut.tiles * cut.vectors
        kinds = ", ".join([self.vector] * count)
        yield f"%p0 = arith.muli %panel, {w.index(16)} : index"
        yield "%p1 = arith.addi %p0, %point : index"
        yield f"%p2 = arith.muli %p1, {w.index(conv.channels * cut.panel)} : index"
        yield f"%p3 = arith.muli %point, {w.index(cut.tiles * conv.channels)} : index"
        if self.unit.by_lane and self.unit.fused:
            yield from self.multiply_by_quads()
        else:
            yield from self.multiply_one_by_one(count, kinds)
        yield f"%r0 = arith.muli %point, {w.index(cut.tiles * cut.panel)} : index"
        for i in range(count):
            place = w.fresh()
            yield f"{place} = arith.addi %r0, {w.index(i * cut.lanes)} : index"
            yield f"vector.store %sum#{i}, %summed[{place}] : {self.summed}, {self.vector}"

    def multiply_by_quads(self) -> Iterator[str]:
        """The sums, `%sum#…`, with channels four at a time."""
        conv, cut, w = self.conv, self.cut, self.w

        def channels(sums: list[str], first: str, count: int) -> Generator[str, None, list[str]]:
            at, panel_at, panel = w.fresh(), w.fresh(), w.fresh()
            yield f"{at} = arith.addi %p3, {first} : index"
            yield f"{panel_at} = arith.muli {first}, {w.index(cut.panel)} : index"
            yield f"{panel} = arith.addi %p2, {panel_at} : index"
            rows = [tile * conv.channels for tile in range(cut.tiles)]
            vectors = [v * cut.lanes for v in range(cut.vectors)]
            sums = yield from multiplied(
                w,
                sums,
                Factors(at=at, memory="%turned", kind=self.turned, offsets=rows),
                Factors(at=panel, memory="%m1", kind=w.memory(1), offsets=vectors),
                lanes=cut.lanes,
                width=cut.panel,
                count=count,
            )
            return sums

        begin = ["%zero"] * (cut.tiles * cut.vectors)
        yield from summed_by_quads(w, [], conv.channels, begin, self.vector, tuple, channels)

    def multiply_one_by_one(self, count: int, kinds: str) -> Iterator[str]:
        """The sums, `%sum#…`, channel by channel."""
        conv, cut, w = self.conv, self.cut, self.w
        pairs = ", ".join(f"%s{i} = %zero" for i in range(count))
        yield (
            f"%sum:{count} = scf.for %k = {w.index(0)} to {w.index(conv.channels)} "
            f"step {w.index(1)} iter_args({pairs}) -> ({kinds}) {{"
        )
        yield f"%q0 = arith.muli %k, {w.index(cut.panel)} : index"
        yield "%q = arith.addi %p2, %q0 : index"
        if self.ahead:
            yield f"%next = arith.addi %q, {w.index(16 * conv.channels * cut.panel)} : index"
            yield from self.ahead.lines(w, "%next")
        for v in range(cut.vectors):
            yield f"%o{v} = arith.addi %q, {w.index(v * cut.lanes)} : index"
            yield f"%g{v} = vector.load %m1[%o{v}] : {w.memory(1)}, {self.vector}"
        yield "%a = arith.addi %p3, %k : index"
        done = []
        for tile in range(cut.tiles):
            yield f"%ta{tile} = arith.addi %a, {w.index(tile * conv.channels)} : index"
            yield f"%e{tile} = memref.load %turned[%ta{tile}] : {self.turned}"
            yield f"%f{tile} = vector.broadcast %e{tile} : f32 to {self.vector}"
            for v in range(cut.vectors):
                done.append(w.fresh())
                total = f"%s{tile * cut.vectors + v}"
                yield from w.multiply_add(
                    done[-1], f"%f{tile}", f"%g{v}", total, self.vector, self.unit.fused
                )
        yield f"scf.yield {', '.join(done)} : {kinds}"
        yield "}"

    @cached_property
    def ahead(self) -> Ahead | None:
        """A panel serves a group, and is asked for by the panel before it."""
        cut, steps = self.cut, 16 * self.conv.channels
        return ahead(
            self.unit,
            panels=cut.panels,
            panel=cut.panel,
            steps=steps,
            pixels=cut.tiles,
            tiles=1,
        )

    def back(self, v: int, own: tuple[str, str]) -> Iterator[str]:
        """The tile's own sums of one vector of channels, turned back, finished and stored."""
        cut, w = self.cut, self.w
        result = self.conv.result
        base = w.fresh()
        yield f"{base} = arith.muli %tile, {w.index(cut.panel)} : index"
        points: list[list[str]] = []
        for y in range(4):
            points.append([])
            for x in range(4):
                place, value = w.fresh(), w.fresh()
                offset = (4 * y + x) * cut.tiles * cut.panel + v * cut.lanes
                yield f"{place} = arith.addi {base}, {w.index(offset)} : index"
                yield f"{value} = vector.load %summed[{place}] : {self.summed}, {self.vector}"
                points[-1].append(value)
        columns = []
        for x in range(4):
            lines, two = self.outputs([points[y][x] for y in range(4)])
            yield from lines
            columns.append(two)
        for y in range(2):
            lines, two = self.outputs([columns[x][y] for x in range(4)])
            yield from lines
            for x in range(2):
                truths = [truth for truth, at in zip(own, (y, x), strict=True) if truth and at == 0]
                yield from (f"scf.if {truth} {{" for truth in truths)
                yield from result.store(w, two[x], (y, x), v, self.pixels, 2)
                yield from "}" * len(truths)

    def outputs(self, m: list[str]) -> tuple[list[str], list[str]]:
        """m0 + m1 + m2 and m1 - m2 - m3."""
        names = [self.w.fresh() for _ in range(4)]
        kind = self.vector
        return [
            f"{names[0]} = arith.addf {m[1]}, {m[2]} : {kind}",
            f"{names[1]} = arith.addf {m[0]}, {names[0]} : {kind}",
            f"{names[2]} = arith.subf {m[1]}, {m[2]} : {kind}",
            f"{names[3]} = arith.subf {names[2]}, {m[3]} : {kind}",
        ], [names[1], names[3]]
