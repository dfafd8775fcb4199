"""A depthwise convolution of bytes over channels-last data to a kernel of vectors of channels.

Bytes are widened to f32 as they are read; sums of so few products of bytes are exact in f32.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from edgec.toolchain.kernels.cpu.source.byte_result import ByteResult
from edgec.toolchain.kernels.cpu.source.convolution import Convolution
from edgec.toolchain.kernels.cpu.source.dot_unit import DotUnit
from edgec.toolchain.kernels.cpu.source.first_pixel import first_pixel
from edgec.toolchain.kernels.cpu.source.grouped import GroupedTiling
from edgec.toolchain.kernels.cpu.source.result import Tile
from edgec.toolchain.kernels.cpu.source.writer import Writer

__all__ = ["byte_depthwise_kernel"]


def byte_depthwise_kernel(
    name: str, conv: Convolution, result: ByteResult, cut: GroupedTiling, unit: DotUnit
) -> str:
    """The text of a `stream.executable` called `name` with an entry point of that name.

    Its bindings are the input (i8), the weights (rows x columns x channels, f32), what each
    channel's sum begins with (f32), the epilogue's channel tensors (f32), its other tensors (i8),
    and the result. `conv.result` must be `result`.
    """
    writer = Writer(
        name=name,
        workgroups=(*cut.split, result.batch),
        sizes=[
            result.batch * conv.height * conv.width * result.channels,
            math.prod(conv.window) * result.channels,
            result.channels,
            *result.extra_sizes,
            result.size,
        ],
        kinds=("i8", "f32", "f32", *result.extra_kinds, result.kind),
    )
    return writer.text(_Body(conv=conv, result=result, cut=cut, unit=unit, w=writer).lines())


@dataclass(frozen=True, kw_only=True)
class _Body:
    conv: Convolution
    result: ByteResult
    cut: GroupedTiling
    unit: DotUnit
    w: Writer

    def lines(self) -> Iterator[str]:
        conv, cut, w, result = self.conv, self.cut, self.w, self.result
        kind = f"vector<{cut.lanes}xf32>"
        tile = Tile(columns=cut.columns, lanes=cut.lanes)
        one = w.index(1)
        yield from result.opening(cut.lanes)
        yield from w.share("row", "%wx", result.height, cut.split[0])
        yield from w.share("block", "%wy", cut.blocks, cut.split[1])
        yield f"scf.for %block = %block_from to %block_to step {one} {{"
        yield from w.start("%n0", "%block", cut.lanes, result.channels - cut.lanes)
        for tap in range(math.prod(conv.window)):
            yield f"%wa{tap} = arith.addi %n0, {w.index(tap * result.channels)} : index"
            yield f"%wt{tap} = vector.load %m1[%wa{tap}] : {w.memory(1)}, {kind}"
        yield f"%begin = vector.load %m2[%n0] : {w.memory(2)}, {kind}"
        yield from result.channel_values(w, tile, 3)
        yield f"scf.for %y0 = %row_from to %row_to step {one} {{"
        yield f"scf.for %tx = {w.index(0)} to {w.index(cut.across)} step {one} {{"
        yield from w.start("%x0", "%tx", cut.columns, result.width - cut.columns)
        yield from first_pixel(w, "%wz", (conv.height, conv.width), conv.stride)
        yield f"%i6 = arith.muli %i5, {w.index(result.channels)} : index"
        yield "%input = arith.addi %i6, %n0 : index"
        yield from self.multiply(kind)
        sums = [f"%s{column}" for column in range(cut.columns)]
        yield from result.finish(w, sums, tile, 3)
        yield "}"
        yield "}"
        yield "}"

    def multiply(self, kind: str) -> Iterator[str]:
        """Every tap of the window for every pixel of the tile; the sums become `%s…`."""
        conv, cut, w = self.conv, self.cut, self.w
        few, words = (f"vector<{cut.lanes}x{kind}>" for kind in ("i8", "i32"))
        extend = "arith.extsi" if self.unit.signed else "arith.extui"
        loaded: dict[tuple[int, int], str] = {}
        sums = ["%begin"] * cut.columns
        taps = [(y, x) for y in range(conv.window[0]) for x in range(conv.window[1])]
        for number, (y, x) in enumerate(taps):
            for column in range(cut.columns):
                at = (y * conv.dilation[0], column * conv.stride[1] + x * conv.dilation[1])
                if at not in loaded:
                    place, read, wide, loaded[at] = (w.fresh() for _ in range(4))
                    offset = (at[0] * conv.width + at[1]) * self.result.channels
                    yield f"{place} = arith.addi %input, {w.index(offset)} : index"
                    yield f"{read} = vector.load %m0[{place}] : {w.memory(0)}, {few}"
                    yield f"{wide} = {extend} {read} : {few} to {words}"
                    yield f"{loaded[at]} = arith.sitofp {wide} : {words} to {kind}"
                last = number == len(taps) - 1
                total = f"%s{column}" if last else w.fresh()
                yield from w.multiply_add(
                    total, loaded[at], f"%wt{number}", sums[column], kind, self.unit.vectors.fused
                )
                sums[column] = total
