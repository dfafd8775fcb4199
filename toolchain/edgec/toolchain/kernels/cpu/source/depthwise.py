"""A depthwise convolution over channels-last data to a kernel that is vectorised over channels."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from edgec.toolchain.kernels.cpu.source.cut import Cut
from edgec.toolchain.kernels.cpu.source.result import Result
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit
from edgec.toolchain.kernels.cpu.source.writer import Writer

__all__ = ["Depthwise", "DepthwiseTiling", "depthwise_kernel", "depthwise_tiling"]

_FLOPS_OF_A_WORKGROUP = 0.4e6
_MOST_WORKGROUPS = 64
_MOST_PRODUCTS = 200
_MOST_COLUMNS = 32


@dataclass(frozen=True, kw_only=True)
class Depthwise:
    """A convolution of each channel with a window of its own.

    Attributes:
        height, width: the input's sizes, padding included; its channels are the result's.
        result: what is written.
        window: rows and columns of the window.
        stride: steps of the window, rows and columns.
        dilation: distance of the window's own rows and columns.
    """

    height: int
    width: int
    result: Result
    window: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)

    @property
    def flops(self) -> int:
        """Multiplications and additions, both counted."""
        result = self.result
        pixels = result.batch * result.height * result.width
        return 2 * pixels * result.channels * math.prod(self.window)


@dataclass(frozen=True, kw_only=True)
class DepthwiseTiling:
    """How a depthwise convolution is cut up.

    Attributes:
        columns: neighbouring output pixels of a tile, whose sums are kept in registers.
        lanes: channels of a tile, one vector.
        blocks: how many vectors there are; the last may overlap the one before it.
        across: how many tiles there are in a row; the last may overlap the one before it.
        split: workgroups across the rows, and across the vectors.
    """

    columns: int
    lanes: int
    blocks: int
    across: int
    split: tuple[int, int]


def depthwise_tiling(conv: Depthwise, unit: VectorUnit, cut: Cut | None = None) -> DepthwiseTiling:
    """Tiles that divide a row with little overlap, and leave registers for the weights.

    With `cut` its columns and workgroups instead, if they fit.
    """
    result = conv.result
    lanes = unit.lanes
    while lanes > result.channels:
        lanes //= 2
    room = max(2, min(unit.registers // 2 - 2, _MOST_PRODUCTS // math.prod(conv.window)))
    choices = range(1, min(result.width, room) + 1)
    columns = min(choices, key=lambda n: (-(-result.width // n)) * (n + 1.5))
    blocks = -(-result.channels // lanes)
    wanted = max(1, min(_MOST_WORKGROUPS, round(conv.flops / _FLOPS_OF_A_WORKGROUP)))
    down = min(result.height, -(-wanted // result.batch))
    split = (down, min(blocks, -(-wanted // (down * result.batch))))
    if cut is not None and cut.columns <= min(result.width, _MOST_COLUMNS):
        columns = cut.columns
        split = (min(cut.split[0], result.height), min(cut.split[1], blocks))
    return DepthwiseTiling(
        columns=columns,
        lanes=lanes,
        blocks=blocks,
        across=-(-result.width // columns),
        split=split,
    )


def depthwise_kernel(name: str, conv: Depthwise, cut: DepthwiseTiling, unit: VectorUnit) -> str:
    """The text of a `stream.executable` called `name` with an entry point of that name.

    Its bindings are the input, the weights (rows x columns x channels), the epilogue's channel
    tensors, its other tensors, and the result, all f32.
    """
    result = conv.result
    writer = Writer(
        name=name,
        workgroups=(*cut.split, result.batch),
        sizes=[
            result.batch * conv.height * conv.width * result.channels,
            math.prod(conv.window) * result.channels,
            *result.extra_sizes,
            result.size,
        ],
    )
    return writer.text(_Body(conv=conv, cut=cut, unit=unit, w=writer).lines())


@dataclass(frozen=True, kw_only=True)
class _Body:
    conv: Depthwise
    cut: DepthwiseTiling
    unit: VectorUnit
    w: Writer

    def lines(self) -> Iterator[str]:
        conv, cut, w = self.conv, self.cut, self.w
        result = conv.result
        kind = f"vector<{cut.lanes}xf32>"
        one = w.index(1)
        yield f"%zero = arith.constant dense<0.0> : {kind}"
        yield from w.share("row", "%wx", result.height, cut.split[0])
        yield from w.share("block", "%wy", cut.blocks, cut.split[1])
        yield f"scf.for %block = %block_from to %block_to step {one} {{"
        yield from w.start("%n0", "%block", cut.lanes, result.channels - cut.lanes)
        for tap in range(math.prod(conv.window)):
            yield f"%wa{tap} = arith.addi %n0, {w.index(tap * result.channels)} : index"
            yield f"%wt{tap} = vector.load %m1[%wa{tap}] : {w.memory(1)}, {kind}"
        for c in range(result.epilogue.channels):
            yield f"%ch{c} = vector.load %m{2 + c}[%n0] : {w.memory(2 + c)}, {kind}"
        yield f"scf.for %y0 = %row_from to %row_to step {one} {{"
        yield f"scf.for %tx = {w.index(0)} to {w.index(cut.across)} step {one} {{"
        yield from w.start("%x0", "%tx", cut.columns, result.width - cut.columns)
        yield f"%i0 = arith.muli %wz, {w.index(conv.height)} : index"
        yield f"%i1 = arith.muli %y0, {w.index(conv.stride[0])} : index"
        yield "%i2 = arith.addi %i0, %i1 : index"
        yield f"%i3 = arith.muli %i2, {w.index(conv.width)} : index"
        yield f"%i4 = arith.muli %x0, {w.index(conv.stride[1])} : index"
        yield "%i5 = arith.addi %i3, %i4 : index"
        yield f"%i6 = arith.muli %i5, {w.index(result.channels)} : index"
        yield "%input = arith.addi %i6, %n0 : index"
        yield from self.multiply(kind)
        yield from result.places(w.index)
        for column in range(cut.columns):
            yield from result.store(
                f"%s{column}",
                (0, column),
                0,
                [f"%ch{c}" for c in range(result.epilogue.channels)],
                2,
                kind,
                w.index,
                w.fresh,
            )
        yield from result.border(1, cut.columns, 1, cut.lanes, 2, w.index, w.fresh)
        yield "}"
        yield "}"
        yield "}"

    def multiply(self, kind: str) -> Iterator[str]:
        """Every tap of the window for every pixel of the tile; the sums become `%s…`."""
        conv, cut, w = self.conv, self.cut, self.w
        channels = conv.result.channels
        loaded: dict[tuple[int, int], str] = {}
        sums = ["%zero"] * cut.columns
        taps = [(y, x) for y in range(conv.window[0]) for x in range(conv.window[1])]
        for number, (y, x) in enumerate(taps):
            for column in range(cut.columns):
                at = (y * conv.dilation[0], column * conv.stride[1] + x * conv.dilation[1])
                if at not in loaded:
                    place, loaded[at] = w.fresh(), w.fresh()
                    offset = (at[0] * conv.width + at[1]) * channels
                    yield f"{place} = arith.addi %input, {w.index(offset)} : index"
                    yield f"{loaded[at]} = vector.load %m0[{place}] : {w.memory(0)}, {kind}"
                last = number == len(taps) - 1
                total = f"%s{column}" if last else w.fresh()
                yield from w.multiply_add(
                    total, loaded[at], f"%wt{number}", sums[column], kind, self.unit.fused
                )
                sums[column] = total
