"""A convolution of bytes over channels-last data, or a matrix product, to a kernel of tiles.

The tiles are those of `convolution`; a step of its inner loop takes four input channels at once:
four bytes of a pixel are spread over a vector and multiplied with four weights of each output
channel, and the four products are added to a sum in i32, all by one instruction.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from edgec.toolchain.kernels.cpu.source.byte_result import ByteResult
from edgec.toolchain.kernels.cpu.source.convolution import Convolution, Tiling, window_place
from edgec.toolchain.kernels.cpu.source.dot_unit import DotUnit
from edgec.toolchain.kernels.cpu.source.first_pixel import first_pixel
from edgec.toolchain.kernels.cpu.source.nest import summed_loops
from edgec.toolchain.kernels.cpu.source.result import Tile
from edgec.toolchain.kernels.cpu.source.writer import Writer

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
        yield from self.tile()
        yield "}"
        yield "}"

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
            ("k", conv.channels // DEPTH),
        ]
        begin = [f"%begin{v}" for v in range(cut.vectors)] * (cut.rows * cut.columns)
        yield from summed_loops(w, loops, begin, self.sums, self.addresses, self.multiply)

    def addresses(self) -> Iterator[str]:
        channels = self.conv.channels
        return window_place(self.w, self.conv.steps, channels, channels * self.cut.panel)

    def multiply(self, sums: list[str]) -> Iterator[str]:
        """One step: every pixel's four bytes at `%k` times the panel's weights at `%k`."""
        conv, cut, w = self.conv, self.cut, self.w
        few = f"vector<{DEPTH}xi8>"
        yield f"%k4 = arith.muli %k, {w.index(DEPTH)} : index"
        yield "%a = arith.addi %in, %k4 : index"
        yield f"%q0 = arith.muli %k, {w.index(DEPTH * cut.panel)} : index"
        yield "%q = arith.addi %wt, %q0 : index"
        for v in range(cut.vectors):
            yield f"%o{v} = arith.addi %q, {w.index(v * DEPTH * cut.lanes)} : index"
            yield f"%p{v} = vector.load %m1[%o{v}] : {w.memory(1)}, {self.many}"
        done = []
        for pixel in range(cut.rows * cut.columns):
            row, column = divmod(pixel, cut.columns)
            offset = row * conv.stride[0] * conv.width + column * conv.stride[1]
            yield f"%place{pixel} = arith.addi %a, {w.index(offset * conv.channels)} : index"
            yield f"%four{pixel} = vector.load %m0[%place{pixel}] : {w.memory(0)}, {few}"
            yield f"%word{pixel} = vector.bitcast %four{pixel} : {few} to vector<1xi32>"
            yield f"%lone{pixel} = vector.extract %word{pixel}[0] : i32 from vector<1xi32>"
            yield f"%spread{pixel} = vector.broadcast %lone{pixel} : i32 to {self.sums}"
            yield f"%values{pixel} = vector.bitcast %spread{pixel} : {self.sums} to {self.many}"
            for v in range(cut.vectors):
                made = w.fresh()
                total = sums[pixel * cut.vectors + v]
                yield self.unit.multiply(made, total, f"%values{pixel}", f"%p{v}", cut.lanes)
                done.append(made)
        yield f"scf.yield {', '.join(done)} : {', '.join([self.sums] * len(done))}"
