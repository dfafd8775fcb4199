"""The largest, smallest or sum over windows of an image, channels last, to a kernel of vectors.

A workgroup takes some rows of the result, a few vectors of channels at a time, which stay in
registers while the kernel walks over the window. The image is read where it lies: of a window at
the edge only what is inside is read, so that nothing need be written around it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from edgec.toolchain.kernels.cpu.source.body import Body
from edgec.toolchain.kernels.cpu.source.result import Result, Tile
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit
from edgec.toolchain.kernels.cpu.source.workgroups import even, workgroups
from edgec.toolchain.kernels.cpu.source.writer import Writer

__all__ = ["Pooling", "pooling_kernel", "pools"]

_MOST_VECTORS = 4
_LEAST_LANES = 4
_COMPARISONS = {"maximum": "ogt", "minimum": "olt"}
_NAN = float("nan")


@dataclass(frozen=True, kw_only=True)
class Pooling:
    """A reduction over windows.

    Attributes:
        height, width, channels: the image's sizes.
        result: what is written.
        window, stride, dilation: rows and columns of each.
        before: rows above the image and columns left of it that windows begin in.
        name: `maximum`, `minimum` or `add`.
        start: what a window begins with.
    """

    height: int
    width: int
    channels: int
    result: Result
    window: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    before: tuple[int, int]
    name: str
    start: float

    @property
    def size(self) -> int:
        """Elements of the image, of all images."""
        return self.result.batch * self.height * self.width * self.channels

    @property
    def inner(self) -> tuple[int, int]:
        """The first and the last but one column of the result whose windows have all columns."""
        left, step = self.before[1], self.stride[1]
        reach = (self.window[1] - 1) * self.dilation[1] + 1
        first = min(-(-left // step), self.result.width)
        last = (self.width - reach + left) // step + 1
        return first, max(first, min(last, self.result.width))


def pools(channels: int, unit: VectorUnit) -> bool:
    """Whether so many channels are vectors."""
    return min(channels, unit.lanes) >= _LEAST_LANES


def pooling_kernel(name: str, pooling: Pooling, unit: VectorUnit) -> str:
    """The text of a `stream.executable` called `name` with an entry point of that name.

    Its bindings are the image, the epilogue's channel tensors, its other tensors, and the result.
    """
    result, lanes = pooling.result, unit.lanes
    while lanes > pooling.channels:
        lanes //= 2
    vectors = min(_MOST_VECTORS, pooling.channels // lanes)
    jobs = result.height * -(-pooling.channels // (vectors * lanes))
    wanted = workgroups(0, 4 * (pooling.size + result.size) // result.batch)
    split = even(jobs, wanted)
    writer = Writer(
        name=name,
        workgroups=(split, 1, result.batch),
        sizes=[pooling.size, *result.extra_sizes, result.size],
    )
    tile = Tile(columns=1, vectors=vectors, lanes=lanes)
    body = Body(writer, fused=unit.fused)
    _Kernel(pooling=pooling, tile=tile, b=body).write(jobs, split)
    return writer.text(body.lines)


@dataclass(frozen=True, kw_only=True)
class _Kernel:
    pooling: Pooling
    tile: Tile
    b: Body

    @property
    def kind(self) -> str:
        return f"vector<{self.tile.lanes}xf32>"

    def write(self, jobs: int, split: int) -> None:
        """The whole body: a job is a row of the result and a few vectors of channels."""
        self.say(f"%zero = arith.constant dense<0.0> : {self.kind}")
        self.b.lines += self.b.writer.share("job", "%wx", jobs, split)
        self.b.loop("%job_from", "%job_to", 1, self.row)

    def row(self, job: str) -> None:
        pooling, b, w = self.pooling, self.b, self.b.writer
        panel = self.tile.vectors * self.tile.lanes
        panels = b.index(-(-pooling.channels // panel))
        self.say(f"%y0 = arith.divui {job}, {panels} : index")
        self.say(f"%panel = arith.remui {job}, {panels} : index")
        b.lines += w.start("%n0", "%panel", panel, pooling.channels - panel)
        b.lines += pooling.result.channel_values(w, self.tile, 1)
        above, stride = pooling.before[0], pooling.stride[0]
        rows = self.inside("%y0", 0, pooling.height)
        line = pooling.width * pooling.channels
        corner = b.place(
            -above * line - pooling.before[1] * pooling.channels,
            ("%wz", pooling.height * line),
            ("%y0", stride * line),
            (rows[0], pooling.dilation[0] * line),
        )
        corner = b.plus(corner, "%n0")
        first, last = pooling.inner
        for start, stop in ((0, first), (first, last), (last, pooling.result.width)):
            if start < stop:
                whole = (start, stop) == (first, last)
                pixel = partial(self.pixel, corner=corner, rows=rows[1], whole=whole)
                b.loop(start, stop, 1, pixel)

    def inside(self, place: str, axis: int, size: int) -> tuple[str, str]:
        """The first place of a window that is inside of the image along an axis, and how many are.

        Args:
            place: of the result.
            axis: 0 for rows, 1 for columns.
            size: the image's.
        """
        pooling, b = self.pooling, self.b
        before, apart = pooling.before[axis], pooling.dilation[axis]
        window = pooling.window[axis]
        begin = b.times(place, pooling.stride[axis])
        zero = b.index(0)
        outside = b.value(f"arith.maxsi {b.less(before, begin)}, {zero}", "index")
        beyond = b.value(f"arith.maxsi {b.less(size + before, begin)}, {zero}", "index")
        low = b.least(b.parts(outside, apart), window)
        high = b.least(b.parts(beyond, apart), window)
        count = b.value(f"arith.maxsi {b.less(high, low)}, {zero}", "index")
        return low, count

    def pixel(self, x: str, corner: str, rows: str, whole: bool) -> None:
        """One pixel of the result; `whole`: all columns of its window are inside."""
        pooling, b, w = self.pooling, self.b, self.b.writer
        self.say(f"%x0 = arith.addi {x}, {b.index(0)} : index")
        place = b.place(corner, (x, pooling.stride[1] * pooling.channels))
        step = pooling.dilation[1] * pooling.channels
        line = pooling.dilation[0] * pooling.width * pooling.channels
        begin = b.number(pooling.start, self.kind)
        columns = ("", "") if whole else self.inside(x, 1, pooling.width)
        if not whole:
            place = b.place(place, (columns[0], step))

        def line_of(row: str, values: list[str]) -> list[str]:
            at = b.place(place, (row, line))
            if whole:
                return self.joined(values, [b.plus(at, k * step) for k in range(pooling.window[1])])
            return b.fold(
                columns[1],
                values,
                self.kind,
                lambda column, inner: self.joined(inner, [b.place(at, (column, step))]),
            )

        values = b.fold(rows, [begin] * self.tile.vectors, self.kind, line_of)
        b.lines += pooling.result.finish(w, values, self.tile, 1)

    def joined(self, values: list[str], places: list[str]) -> list[str]:
        """What there is so far with the vectors at some places."""
        b, lanes = self.b, self.tile.lanes
        joined = []
        for v, value in enumerate(values):
            read = [
                b.load("%m0", b.plus(place, v * lanes), b.writer.memory(0), self.kind)
                for place in places
            ]
            joined.append(self.added(value, read))
        return joined

    def added(self, value: str, read: list[str]) -> str:
        """The sum, or the extreme; a NaN stays.

        A comparison with a NaN is false and keeps what there is, a NaN too; those among what is
        read are looked for two at a time.
        """
        b = self.b
        if self.pooling.name == "add":
            for each in read:
                value = b.value(f"arith.addf {value}, {each}", self.kind)
            return value
        truth = self.kind.replace("f32", "i1")
        choice = f"{truth}, {self.kind}"
        for each in read:
            beyond = b.value(
                f"arith.cmpf {_COMPARISONS[self.pooling.name]}, {each}, {value}", self.kind
            )
            value = b.value(f"arith.select {beyond}, {each}, {value}", choice)
        is_none = ""
        for one, other in _pairs(read):
            found = b.value(f"arith.cmpf uno, {one}, {other}", self.kind)
            is_none = b.value(f"arith.ori {is_none}, {found}", truth) if is_none else found
        return b.value(f"arith.select {is_none}, {b.number(_NAN, self.kind)}, {value}", choice)

    def say(self, line: str) -> None:
        self.b.lines.append(line)


def _pairs(values: list[str]) -> Iterator[tuple[str, str]]:
    """Two after two; the last with itself where it is alone."""
    for i in range(0, len(values), 2):
        yield values[i], values[min(i + 1, len(values) - 1)]
