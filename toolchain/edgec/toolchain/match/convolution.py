"""A convolution of any kind to a description that names no axes: what is summed, and where.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from edgec.toolchain.ir.read import convolution_layout, element_type, integers, shape_of
from edgec.toolchain.kernels.spec import Work
from edgec.toolchain.match.description import Array, Description

__all__ = ["Axis", "Convolution", "read_convolution"]


@dataclass(frozen=True, kw_only=True)
class Axis:
    """One axis along which a window moves.

    Attributes:
        size, out: of the image and of the result.
        window: places of the window.
        stride: from one place of the window to the next.
        low, high: zeros before and after the image; below 0 it is cut.
        spread: from one element of the image to the next; in between are zeros.
        dilation: from one place inside of the window to the next.
        turned: whether the window meets the image back to front.
    """

    size: int
    out: int
    window: int
    stride: int = 1
    low: int = 0
    high: int = 0
    spread: int = 1
    dilation: int = 1
    turned: bool = False

    @property
    def plain(self) -> bool:
        """Whether it moves over the image as that lies, and over all of it."""
        return self.spread == 1 and not self.turned and min(self.low, self.high) >= 0


@dataclass(frozen=True, kw_only=True)
class Convolution(Description):
    """Windows of an image times weights, summed.

    Attributes:
        image, weight, value: what is multiplied, and the result.
        axes: those along which the window moves, the outermost first.
        image_order, weight_order, value_order: which axis of each value is the batch (outputs of
            the weights), the channels (inputs of the weights), and each of `axes`.
        batch: how many images.
        channels, outputs: of the image and of the result, in all groups.
        groups: equal parts of the channels; each makes its part of the outputs.
        batch_groups: equal parts of the images; each makes its part of the outputs.
    """

    image: Any
    weight: Any
    value: Any
    axes: tuple[Axis, ...]
    image_order: tuple[int, ...]
    weight_order: tuple[int, ...]
    value_order: tuple[int, ...]
    batch: int
    channels: int
    outputs: int
    groups: int = 1
    batch_groups: int = 1

    @property
    def inner(self) -> int:
        """Channels that one output sums."""
        return self.channels // self.groups

    @property
    def depthwise(self) -> bool:
        """Whether each channel has a window of its own, and one alone."""
        return 1 < self.groups == self.channels == self.outputs

    @property
    def channels_last(self) -> bool:
        """Whether the values lie as batch, axes, channels, and the weights as axes, in, out."""
        rank = len(self.axes)
        image = (0, rank + 1, *range(1, rank + 1))
        weight = (rank + 1, rank, *range(rank))
        return (self.image_order, self.weight_order, self.value_order) == (image, weight, image)

    @property
    def elements(self) -> tuple[str, str, str]:
        """The types of image, weight and result."""
        first, second, third = (str(element_type(v)) for v in (self.image, self.weight, self.value))
        return first, second, third

    @cached_property
    def taps(self) -> int:
        """Places of the window in all."""
        return math.prod(axis.window for axis in self.axes)

    @property
    def is_wide(self) -> bool:
        """Whether its window is larger than its result and reaches over more than half the image.

        So it is where weights' gradients are summed; patches of an image are large alone.
        """
        if self.taps <= math.prod(axis.out for axis in self.axes):
            return False
        spans = [(axis.window - 1) * axis.dilation + 1 for axis in self.axes]
        ways = [(axis.out - 1) * axis.stride for axis in self.axes]
        return all(span > way for span, way in zip(spans, ways, strict=True))

    @property
    def work(self) -> Work:
        """Multiplications and additions by which no zero between pixels is counted."""
        pixels = self.batch // self.batch_groups * math.prod(axis.out for axis in self.axes)
        spread = math.prod(axis.spread for axis in self.axes)
        values = (self.image, self.weight, self.value)
        return Work(
            flops=2 * pixels * self.outputs * self.inner * self.taps // spread,
            bytes=sum(_bytes(value) for value in values),
        )

    def __str__(self) -> str:
        """`convolution: 3x3, 64 to 128 in 4 groups, 56x56, f32`."""

        def sizes(numbers: list[int]) -> str:
            return "x".join(map(str, numbers))

        groups = f" in {self.groups} groups" if self.groups > 1 else ""
        notes = [
            f"{word} {sizes(numbers)}"
            for word, numbers in (
                ("stride", [a.stride for a in self.axes]),
                ("dilation", [a.dilation for a in self.axes]),
                ("spread", [a.spread for a in self.axes]),
            )
            if set(numbers) - {1}
        ]
        return ", ".join(
            (
                f"convolution: {sizes([a.window for a in self.axes])}",
                f"{self.channels} to {self.outputs}{groups}",
                sizes([a.out for a in self.axes]),
                *notes,
                self.elements[0],
            )
        )

    @property
    def operands(self) -> tuple[Any, ...]:
        """Image and weights."""
        return (self.image, self.weight)

    @property
    def results(self) -> tuple[Any, ...]:
        """The one result."""
        return (self.value,)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """The sum over places of the window, one shifted image at a time."""
        image, weight = inputs
        x = image.transpose(self.image_order)
        w = weight.transpose(self.weight_order)
        for number, axis in enumerate(self.axes):
            x = _prepared(x, axis, number + 2)
        if self.batch_groups > 1:
            # Groups of images are groups of channels of fewer images.
            x = np.concatenate(np.split(x, self.batch_groups, 0), 1)
        groups = self.groups * self.batch_groups
        places = [axis.out for axis in self.axes]
        rows = np.zeros((groups, self.outputs // groups, len(x) * math.prod(places)))
        for tap in np.ndindex(*(axis.window for axis in self.axes)):
            cut: list[slice | int] = [
                slice(t * axis.dilation, t * axis.dilation + (axis.out - 1) * axis.stride + 1,
                      axis.stride)
                for t, axis in zip(tap, self.axes, strict=True)
            ]  # fmt: skip
            shifted = np.moveaxis(x[(slice(None), slice(None), *cut)], 1, 0)
            shifted = shifted.reshape(groups, x.shape[1] // groups, -1)
            places_of = tuple(
                axis.window - 1 - t if axis.turned else t
                for t, axis in zip(tap, self.axes, strict=True)
            )
            matrix = w[(slice(None), slice(None), *places_of)]
            rows += matrix.reshape(groups, -1, w.shape[1]) @ shifted
        whole = np.moveaxis(rows.reshape(self.outputs, len(x), *places), 0, 1)
        return (whole.transpose(np.argsort(self.value_order)),)


def _prepared(x: Array, axis: Axis, number: int) -> Array:
    """An image with the zeros between and around its elements along one axis."""
    sizes = list(x.shape)
    sizes[number] = max(0, (sizes[number] - 1) * axis.spread + 1)
    spread = np.zeros(sizes, x.dtype)
    spread[(slice(None),) * number + (slice(None, None, axis.spread),)] = x
    pairs = [(0, 0)] * x.ndim
    pairs[number] = (max(axis.low, 0), max(axis.high, 0))
    wide = np.pad(spread, pairs)
    cut = slice(max(-axis.low, 0), wide.shape[number] - max(-axis.high, 0))
    return np.asarray(wide[(slice(None),) * number + (cut,)])


def read_convolution(op: Any) -> Convolution | None:
    """The description of a `stablehlo.convolution`; None where a size is not known."""
    image, weight = op.operands
    (value,) = op.results
    if any(None in shape_of(v) for v in (image, weight, value)):
        return None
    names = convolution_layout(op)
    rank = len(names[0]) - 2
    spatial = [str(i) for i in range(rank)]
    orders = [
        tuple(letters.index(name) for name in (*first, *spatial))
        for letters, first in zip(names, ("bf", "oi", "bf"), strict=True)
    ]
    sizes = [
        [shape_of(v)[place] or 0 for place in order]
        for v, order in zip((image, weight, value), orders, strict=True)
    ]
    ones = [1] * rank
    strides, spreads, dilations = (
        integers(op, name, ones) for name in ("window_strides", "lhs_dilation", "rhs_dilation")
    )
    pads = integers(op, "padding", [0] * (2 * rank))
    turned = [bool(flag) for flag in op.attributes.get("window_reversal", ())] or [False] * rank
    groups, batch_groups = (
        integers(op, f"{what}_group_count", [1])[0] for what in ("feature", "batch")
    )
    return Convolution(
        image=image,
        weight=weight,
        value=value,
        axes=tuple(
            Axis(
                size=sizes[0][i + 2],
                out=sizes[2][i + 2],
                window=sizes[1][i + 2],
                stride=strides[i],
                low=pads[2 * i],
                high=pads[2 * i + 1],
                spread=spreads[i],
                dilation=dilations[i],
                turned=turned[i],
            )
            for i in range(rank)
        ),
        image_order=orders[0],
        weight_order=orders[1],
        value_order=orders[2],
        batch=sizes[0][0],
        channels=sizes[0][1],
        outputs=sizes[1][0],
        groups=groups,
        batch_groups=batch_groups,
    )


def _bytes(value: Any) -> int:
    width = getattr(element_type(value), "width", 32)
    return math.prod(size or 0 for size in shape_of(value)) * width // 8
