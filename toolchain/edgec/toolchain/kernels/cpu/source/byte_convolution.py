"""A convolution of bytes over channels-last data, or a matrix product, to a kernel of tiles.

The tiles are those of `convolution`; a step of its inner loop takes four input channels at once:
four bytes of a pixel are spread over a vector and multiplied with four weights of each output
channel, and the four products are added to a sum in i32, all by one instruction.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

from edgec.toolchain.kernels.cpu.source.ahead import Ahead, ahead
from edgec.toolchain.kernels.cpu.source.by_lane import QUAD
from edgec.toolchain.kernels.cpu.source.byte_result import ByteResult
from edgec.toolchain.kernels.cpu.source.convolution import Convolution, Tiling, window_place
from edgec.toolchain.kernels.cpu.source.dot_unit import DotUnit
from edgec.toolchain.kernels.cpu.source.first_pixel import first_pixel
from edgec.toolchain.kernels.cpu.source.nest import summed_loops
from edgec.toolchain.kernels.cpu.source.result import Tile
from edgec.toolchain.kernels.cpu.source.writer import KEPT, Writer

__all__ = ["DEPTH", "ByteConvolution", "byte_convolution_kernel"]

DEPTH = 4
"""Input channels of a step."""


@dataclass(frozen=True, kw_only=True)
class ByteConvolution:
    """A two-dimensional convolution of bytes; a product is one with a window of one pixel.

    Attributes:
        height, width, channels: the input's sizes, padding included, channels last and a multiple
            of four.
        result: what is written; its batch is the input's, too.
        window, stride, dilation: rows and columns of each.
        moving: whether sums begin with multiples of a zero point that only a call knows.
    """

    height: int = 1
    width: int
    channels: int
    result: ByteResult
    window: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    moving: bool = False

    @property
    def steps(self) -> Convolution:
        """The convolution whose input channels are this one's groups of four; its tiles serve."""
        return Convolution(
            height=self.height,
            width=self.width,
            channels=self.channels // DEPTH,
            result=self.result,
            window=self.window,
            stride=self.stride,
            dilation=self.dilation,
        )


@lru_cache(maxsize=KEPT)
def byte_convolution_kernel(name: str, conv: ByteConvolution, cut: Tiling, unit: DotUnit) -> str:
    """The text of a `stream.executable` called `name` with an entry point of that name.

    `cut` is the tiling of `conv.steps`. The bindings are the input, the packed weights (panels x
    rows x columns x fourths of the channels x panel width x 4, all i8), what each output channel's
    sum begins with (i32), the zero point that this is to be multiplied with if it is `moving`
    (i32), the epilogue's channel tensors (f32), its other tensors, and the result.
    """
    result = conv.result
    writer = Writer(
        name=name,
        workgroups=(*cut.split, result.batch),
        sizes=[
            result.batch * conv.height * conv.width * conv.channels,
            cut.panels * math.prod(conv.window) * conv.channels * cut.panel,
            result.channels,
            *[1] * conv.moving,
            *result.extra_sizes,
            result.size,
        ],
        kinds=("i8", "i8", "i32", *["i32"] * conv.moving, *result.extra_kinds, result.kind),
    )
    return writer.text(_Body(conv=conv, cut=cut, unit=unit, w=writer).lines())


@dataclass(frozen=True, kw_only=True)
class _Body:
    conv: ByteConvolution
    cut: Tiling
    unit: DotUnit
    w: Writer

    @property
    def sums(self) -> str:
        return f"vector<{self.cut.lanes}xi32>"

    @property
    def floats(self) -> str:
        return f"vector<{self.cut.lanes}xf32>"

    @property
    def first(self) -> int:
        """The epilogue's first binding."""
        return 3 + self.conv.moving

    @property
    def steps(self) -> int:
        """Steps of the channels that are done at once: Arm's instruction takes a pixel's four bytes
        out of any lane, so that a load serves four of them."""
        return QUAD if self.unit.signed and self.conv.channels % (QUAD * DEPTH) == 0 else 1

    @property
    def many(self) -> str:
        return f"vector<{4 * self.cut.lanes}xi8>"

    @property
    def pixels(self) -> Tile:
        cut = self.cut
        return Tile(rows=cut.rows, columns=cut.columns, vectors=cut.vectors, lanes=cut.lanes)

    def lines(self) -> Iterator[str]:
        conv, cut, w = self.conv, self.cut, self.w
        result = conv.result
        one = w.index(1)
        yield from result.opening(cut.lanes)
        yield from w.share("tile", "%wx", math.prod(cut.tiles), cut.split[0])
        yield from w.share("panel", "%wy", cut.panels, cut.split[1])
        yield f"scf.for %panel = %panel_from to %panel_to step {one} {{"
        yield from w.start("%n0", "%panel", cut.panel, result.channels - cut.panel)
        elements = math.prod(conv.window) * conv.channels * cut.panel
        yield f"%weights = arith.muli %panel, {w.index(elements)} : index"
        yield from self.begins()
        yield from result.channel_values(w, self.pixels, self.first)
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
            self.unit.vectors,
            panels=cut.panels,
            panel=DEPTH * cut.panel,
            steps=math.prod(conv.window) * conv.channels // DEPTH,
            pixels=cut.rows * cut.columns,
            tiles=math.prod(cut.tiles) // cut.split[0],
            size=1,
        )

    def begins(self) -> Iterator[str]:
        """`%begin…`: what the sums of a panel begin with, a vector each."""
        cut, w = self.cut, self.w
        name = "share" if self.conv.moving else "begin"
        if self.conv.moving:
            yield f"%zero_point = memref.load %m3[{w.index(0)}] : {w.memory(3)}"
            yield f"%zero_points = vector.broadcast %zero_point : i32 to {self.sums}"
        for v in range(cut.vectors):
            yield f"%at{v} = arith.addi %n0, {w.index(v * cut.lanes)} : index"
            yield f"%{name}{v} = vector.load %m2[%at{v}] : {w.memory(2)}, {self.sums}"
            if self.conv.moving:
                yield f"%begin{v} = arith.muli %share{v}, %zero_points : {self.sums}"

    def tile(self) -> Iterator[str]:
        conv, cut, w = self.conv, self.cut, self.w
        result = conv.result
        yield from cut.first(w, result)
        # the first input value: ((z * height + y * stride) * width + x * stride) * channels
        yield from first_pixel(w, "%wz", (conv.height, conv.width), conv.stride)
        yield f"%input = arith.muli %i5, {w.index(conv.channels)} : index"
        yield from self.walk()
        totals = [f"%sum#{i}" for i in range(cut.rows * cut.columns * cut.vectors)]
        if not result.words:
            sums, totals = totals, [w.fresh() for _ in totals]
            for total, whole in zip(totals, sums, strict=True):
                yield f"{total} = arith.sitofp {whole} : {self.sums} to {self.floats}"
        yield from result.finish(w, totals, self.pixels, self.first)

    def walk(self) -> Iterator[str]:
        """Go over window rows, window columns and channels; the sums become `%sum#…`."""
        conv, cut, w = self.conv, self.cut, self.w
        window = (("kh", conv.window[0]), ("kw", conv.window[1]))
        loops = [
            *((name, size) for name, size in window if size > 1),
            ("k", conv.channels // (DEPTH * self.steps)),
        ]
        begin = [f"%begin{v}" for v in range(cut.vectors)] * (cut.rows * cut.columns)
        yield from summed_loops(w, loops, begin, self.sums, self.addresses, self.multiply)

    def addresses(self) -> Iterator[str]:
        channels = self.conv.channels
        return window_place(self.w, self.conv.steps, channels, channels * self.cut.panel)

    def multiply(self, sums: list[str]) -> Iterator[str]:
        """Every pixel's bytes at `%k`, four by four, times the panel's weights there."""
        conv, cut, w = self.conv, self.cut, self.w
        yield f"%k4 = arith.muli %k, {w.index(DEPTH * self.steps)} : index"
        yield "%a = arith.addi %in, %k4 : index"
        yield f"%q0 = arith.muli %k, {w.index(DEPTH * self.steps * cut.panel)} : index"
        yield "%q = arith.addi %wt, %q0 : index"
        if self.ahead:
            yield from self.ahead.step(w, conv.channels // DEPTH)
        for pixel in range(cut.rows * cut.columns):
            row, column = divmod(pixel, cut.columns)
            offset = row * conv.stride[0] * conv.width + column * conv.stride[1]
            yield f"%place{pixel} = arith.addi %a, {w.index(offset * conv.channels)} : index"
            yield from self.words(pixel)
        for step in range(self.steps):
            weights = [f"%p{step}_{v}" for v in range(cut.vectors)]
            for v, name in enumerate(weights):
                at = w.fresh()
                offset = (step * cut.vectors + v) * DEPTH * cut.lanes
                yield f"{at} = arith.addi %q, {w.index(offset)} : index"
                yield f"{name} = vector.load %m1[{at}] : {w.memory(1)}, {self.many}"
            done = []
            for pixel in range(cut.rows * cut.columns):
                values = f"%values{pixel}_{step}"
                yield from self.spread(values, pixel, step)
                for v, name in enumerate(weights):
                    made = w.fresh()
                    total = sums[pixel * cut.vectors + v]
                    yield self.unit.multiply(made, total, values, name, cut.lanes)
                    done.append(made)
            sums = done
        yield f"scf.yield {', '.join(sums)} : {', '.join([self.sums] * len(sums))}"

    def words(self, pixel: int) -> Iterator[str]:
        """`%words…`: a pixel's bytes, each four of them as one number."""
        few = f"vector<{DEPTH * self.steps}xi8>"
        kind = f"vector<{self.steps}xi32>"
        yield f"%few{pixel} = vector.load %m0[%place{pixel}] : {self.w.memory(0)}, {few}"
        yield f"%words{pixel} = vector.bitcast %few{pixel} : {few} to {kind}"

    def spread(self, name: str, pixel: int, step: int) -> Iterator[str]:
        """`name`: four of a pixel's bytes, as often as a vector holds them."""
        kind = f"vector<{self.steps}xi32>"
        lone, spread = self.w.fresh(), self.w.fresh()
        yield f"{lone} = vector.extract %words{pixel}[{step}] : i32 from {kind}"
        yield f"{spread} = vector.broadcast {lone} : i32 to {self.sums}"
        yield f"{name} = vector.bitcast {spread} : {self.sums} to {self.many}"
