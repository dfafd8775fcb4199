"""A reduction over windows of images whose channels are last: the largest, smallest, or the sum.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.toolchain.ir.fold import splat
from edgec.toolchain.ir.read import integers, shape_of
from edgec.toolchain.kernels.spec import Work
from edgec.toolchain.match.description import Array, Description

__all__ = ["Pooling", "read_pooling"]

_NAMES = ("maximum", "minimum", "add")


@dataclass(frozen=True, kw_only=True)
class Pooling(Description):
    """What a `stablehlo.reduce_window` computes.

    Attributes:
        image, value: what is read, and the result.
        name: `maximum`, `minimum` or `add`.
        start: what a window begins with, and what stands around the image.
        batch, height, width, channels: the image's sizes; all axes before these three are batch.
        out: rows and columns of the result.
        window, stride, dilation: rows and columns of each.
        before: rows above the image and columns left of it.
    """

    image: Any
    value: Any
    name: str
    start: float
    batch: int
    height: int
    width: int
    channels: int
    out: tuple[int, int]
    window: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    before: tuple[int, int]

    @property
    def operands(self) -> tuple[Any, ...]:
        """The image."""
        return (self.image,)

    @property
    def results(self) -> tuple[Any, ...]:
        """What a kernel stores, or what it is made of."""
        return (self.value,)

    @property
    def work(self) -> Work:
        """A step for each place of a window; the image is read and the result written."""
        pixels, images = math.prod(self.out), self.height * self.width
        count = self.batch * self.channels
        width = int(self.image.type.element_type.width) // 8
        return Work(
            flops=count * pixels * math.prod(self.window), bytes=count * (pixels + images) * width
        )

    def __str__(self) -> str:
        """In a few words: `pooling: maximum of 3 x 3, 112 x 112 to 56 x 56 x 64`."""
        (high, wide), (rows, columns) = self.window, self.out
        return (
            f"pooling: {self.name} of {high} x {wide}, {self.height} x {self.width} to "
            f"{rows} x {columns} x {self.channels}"
        )

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Every place of the window, one after the other."""
        image = inputs[0].reshape(self.batch, self.height, self.width, self.channels)
        reach = [
            (n - 1) * step + (size - 1) * far + 1
            for n, step, size, far in zip(
                self.out, self.stride, self.window, self.dilation, strict=True
            )
        ]
        wide = np.full((self.batch, *reach, self.channels), self.start)
        (top, left), (high, broad) = self.before, (self.height, self.width)
        part = image[:, : max(reach[0] - top, 0), : max(reach[1] - left, 0)]
        wide[:, top : top + high, left : left + broad] = part
        total = np.full((self.batch, *self.out, self.channels), self.start)
        for row in range(self.window[0]):
            for column in range(self.window[1]):
                first = row * self.dilation[0], column * self.dilation[1]
                rows, columns = (
                    slice(at, at + (n - 1) * step + 1, step)
                    for at, n, step in zip(first, self.out, self.stride, strict=True)
                )
                total = getattr(np, self.name)(total, wide[:, rows, columns])
        return (total.reshape(tuple(size or 0 for size in shape_of(self.value))),)


def read_pooling(op: Any) -> Pooling | None:
    """What a `stablehlo.reduce_window` is; None where it is not that, or its sizes are open."""
    if len(op.operands) != 2:
        return None
    image, value = op.operands[0], op.results[0]
    before, after = ([size or 0 for size in shape_of(each)] for each in (image, value))
    rank, start, name = len(before), splat(op.operands[1]), _reducer(op)
    ones = [1] * rank
    window = integers(op, "window_dimensions")
    strides, apart, between = (
        integers(op, f"{word}s", ones)
        for word in ("window_stride", "window_dilation", "base_dilation")
    )
    pads = integers(op, "padding", [0] * (2 * rank))
    lows, highs = pads[::2], pads[1::2]
    if rank < 3 or name is None or start is None or not all((*before, *after)):
        return None
    if between != ones or min(pads) < 0:
        return None
    first = max(rank - 3, 1)
    others = [*range(first), rank - 1]
    if any(window[a] > 1 or strides[a] > 1 or lows[a] or highs[a] for a in others):
        return None

    def pair(values: list[int], missing: int) -> tuple[int, int]:
        kept = values[first:-1]
        return (missing, kept[0]) if len(kept) == 1 else (kept[0], kept[1])

    height, width = pair(before, 1)
    return Pooling(
        image=image,
        value=value,
        name=name,
        start=start,
        batch=math.prod(before[:first]),
        height=height,
        width=width,
        channels=before[-1],
        out=pair(after, 1),
        window=pair(window, 1),
        stride=pair(strides, 1),
        dilation=pair(apart, 1),
        before=pair(lows, 0),
    )


def _reducer(op: Any) -> str | None:
    """What joins two elements; None for anything but one operation on both."""
    (block,) = op.regions[0].blocks
    names = [each.operation.name for each in block.operations]
    if len(names) != 2 or set(block.operations[0].operands) != set(block.arguments):
        return None
    name = str(names[0]).removeprefix("stablehlo.")
    return name if name in _NAMES else None
