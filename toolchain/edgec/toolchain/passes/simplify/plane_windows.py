"""Convolutions along one axis, or along three and more, become ones over rows and columns."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["PlaneWindows"]

_MOST_ELEMENTS = 2**31
"""Of an image that kernels reach into with integers of 32 bits."""


@dataclass(frozen=True, kw_only=True)
class PlaneWindows:
    """A convolution of sound has rows of height one; one of a video takes frames as channels.

    Kernels of GPUs know windows over rows and columns. What has a window along one axis (sound,
    time series) has them with one row more. Along three axes (video, volumes) the places of the
    window along the first one are put side by side as channels, each image a frame of the result:
    as many copies of the image as the window has such places, for matrix units instead of code
    that multiplies one by one. The CPU's kernels take any number of axes as they are.

    Measured on Mesa's llvmpipe: a codec of sound (DAC, a third of a second) takes 0.54 s and took
    7.2, with 98 % of its arithmetic in kernels of edgec's own and none before.
    """

    name = "plane-windows"
    purpose = Purpose.SPEED

    @classmethod
    def plan(cls, situation: Situation) -> "PlaneWindows | None":
        """For StableHLO with convolutions at -O2 and above, on GPUs that have kernels."""
        gpu = situation.target.gpu
        if gpu is None or not gpu.kernels or situation.level < 2:
            return None
        needed = situation.is_stablehlo and "stablehlo.convolution" in situation.operations
        return cls() if needed else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many convolutions."""
        from edgec.toolchain.ir.rewriting import rewrite_each

        return rewrite_each(module, ["stablehlo.convolution"], _planar)


def _planar(op: Any) -> Sequence[Any] | None:
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph
    from edgec.toolchain.match.convolution import Axis, read_convolution

    conv = read_convolution(op)
    if conv is None or not conv.channels_last or len(conv.axes) in (0, 2):
        return None
    axes, image, weight = list(conv.axes), conv.image, conv.weight
    if len(axes) == 1:
        axes.insert(0, Axis(size=1, out=1, window=1))
        images, wide, channels = graph.shape(image)
        image = graph.reshape(image, [images, 1, wide, channels])
        weight = graph.reshape(weight, [1, *graph.shape(weight)])
    elif not _folds(conv):
        return None
    while len(axes) > 2:
        image, weight = _folded(image, weight, axes.pop(0))
    flags = ", ".join("true" if axis.turned else "false" for axis in axes)
    pads = ", ".join(f"[{axis.low}, {axis.high}]" for axis in axes)
    lists = {
        "window_strides": [axis.stride for axis in axes],
        "lhs_dilation": [axis.spread for axis in axes],
        "rhs_dilation": [axis.dilation for axis in axes],
    }
    attributes = dict(op.attributes.items()) | {
        "dimension_numbers": ir.Attribute.parse(
            "#stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>"
        ),
        "padding": ir.Attribute.parse(f"dense<[{pads}]> : tensor<2x2xi64>"),
        **{name: ir.DenseI64ArrayAttr.get(numbers) for name, numbers in lists.items()},
    }
    if "window_reversal" in attributes:
        attributes["window_reversal"] = ir.Attribute.parse(f"array<i1: {flags}>")
    batch = graph.shape(image)[0] // conv.batch_groups
    sizes = [batch, *(axis.out for axis in axes), conv.outputs]
    kind = graph.tensor(sizes, graph.element(conv.value))
    result = graph.create(op.name, kind, [image, weight], attributes)
    return [graph.reshape(result, graph.shape(conv.value))]


def _folds(conv: Any) -> bool:
    """Whether the places along all axes but two may become channels."""
    first = conv.axes[:-2]
    if conv.groups > 1 or conv.batch_groups > 1 or not all(axis.plain for axis in first):
        return False
    frames = conv.batch * math.prod(axis.out * axis.window for axis in first)
    pixels = math.prod(axis.size for axis in conv.axes[-2:])
    return bool(frames * pixels * conv.channels < _MOST_ELEMENTS)


def _folded(image: Any, weight: Any, axis: Any) -> tuple[Any, Any]:
    """Image and weight without their first axis: its places are channels, its results images."""
    from edgec.toolchain.ir import write as graph

    rank = len(graph.shape(image))
    if axis.low or axis.high:
        zero = graph.fill(0, (), graph.element(image))
        low, high = ([0, width, *([0] * (rank - 2))] for width in (axis.low, axis.high))
        image = graph.pad(image, zero, low, high)
    batch, _, *inner = graph.shape(image)
    span = (axis.out - 1) * axis.stride + 1
    places = []
    for place in range(axis.window):
        first = place * axis.dilation
        start, limit = [0, first, *([0] * len(inner))], [batch, first + span, *inner]
        steps = [1, axis.stride, *([1] * len(inner))]
        places.append(graph.slice_(image, start, limit, steps))
    channels = axis.window * inner[-1]
    image = graph.concatenate(places, rank - 1) if len(places) > 1 else places[0]
    image = graph.reshape(image, [batch * axis.out, *inner[:-1], channels])
    window, *taps, inputs, outputs = graph.shape(weight)
    last = len(taps) + 1
    weight = graph.transpose(weight, [*range(1, last), 0, last, last + 1])
    return image, graph.reshape(weight, [*taps, window * inputs, outputs])
