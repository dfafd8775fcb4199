"""TensorFlow Lite's convolutions, products, pools and resizing, in real numbers."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from edgec.exporters.from_tflite.call import Call

__all__ = [
    "average_pool",
    "batch_matmul",
    "conv_2d",
    "conv_3d",
    "depthwise_conv_2d",
    "fully_connected",
    "max_pool",
    "resize_bilinear",
    "resize_nearest",
    "transpose_conv",
]

_NHWC = ("NHWC", "HWIO", "NHWC")
_NDHWC = ("NDHWC", "DHWIO", "NDHWC")


def conv_2d(call: Call) -> Any:
    """CONV_2D of NHWC by OHWI, grouped where the weights have fewer channels."""
    x, weights = call[0], call.xp.transpose(call[1], (1, 2, 3, 0))
    return _convolved(call, weights, x.shape[3] // weights.shape[2])


def depthwise_conv_2d(call: Call) -> Any:
    """DEPTHWISE_CONV_2D of NHWC, a multiple of channels out."""
    x = call[0]
    weights = call[1].reshape(*call[1].shape[1:3], 1, call[1].shape[3])  # 1HWC as HWIO
    return _convolved(call, weights, x.shape[3])


def _convolved(call: Call, weights: Any, groups: int) -> Any:
    """The first operand by HWIO weights, with bias and activation."""
    from jax import lax

    strides, dilation = _strides(call)
    value = lax.conv_general_dilated(
        call[0],
        weights,
        strides,
        _padding(call, weights.shape[:2], strides, dilation),
        rhs_dilation=dilation,
        dimension_numbers=_NHWC,
        feature_group_count=groups,
    )
    return call.activated(_biased(call, value, 2))


def conv_3d(call: Call) -> Any:
    """CONV_3D of NDHWC by DHWIO."""
    from jax import lax

    strides = [int(call.option(f"stride{a}", 1)) for a in "DHW"]
    dilation = [int(call.option(f"dilation{a}Factor", 1)) for a in "DHW"]
    value = lax.conv_general_dilated(
        call[0],
        call[1],
        strides,
        _padding(call, call[1].shape[:3], strides, dilation),
        rhs_dilation=dilation,
        dimension_numbers=_NDHWC,
    )
    return call.activated(_biased(call, value, 2))


def transpose_conv(call: Call) -> Any:
    """TRANSPOSE_CONV: sizes in input 0, OHWI weights, the image, perhaps a bias."""
    from jax import lax

    weights, x = call[1], call[2]
    strides = [int(call.option("strideH", 1)), int(call.option("strideW", 1))]
    sizes = [int(d) for d in call.sizes(0)[1:3]]
    same = int(call.option("padding", 0)) == 0
    pads = []
    for size, out, kernel, stride in zip(
        x.shape[1:3], sizes, weights.shape[1:3], strides, strict=True
    ):
        total = max((size - 1) * stride + kernel - out, 0) if same else 0
        low = kernel - 1 - total // 2
        pads.append((low, out - ((size - 1) * stride + 1) - low + kernel - 1))
    value = lax.conv_general_dilated(
        x,
        call.xp.transpose(call.xp.flip(weights, (1, 2)), (1, 2, 3, 0)),
        (1, 1),
        pads,
        lhs_dilation=strides,
        dimension_numbers=_NHWC,
    )
    return call.activated(_biased(call, value, 3))


def fully_connected(call: Call) -> Any:
    """FULLY_CONNECTED: rows times the transposed weights."""
    if int(call.option("weightsFormat", 0)):
        call.refuse("with shuffled weights")
    x = _rows(call)
    return call.activated(_biased(call, x @ call[1].T, 2))


def batch_matmul(call: Call) -> Any:
    """BATCH_MATMUL, either side transposed."""
    one, other = call[0], call[1]
    if call.option("adjX", False):
        one = call.xp.swapaxes(one, -1, -2)
    if call.option("adjY", False):
        other = call.xp.swapaxes(other, -1, -2)
    return call.xp.matmul(one, other)


def average_pool(call: Call) -> Any:
    """AVERAGE_POOL_2D over the pixels that are in the image."""
    from jax import lax

    x = call[0]
    window, strides, pads = _pool(call)
    zero = np.zeros((), x.dtype)
    total = lax.reduce_window(x, zero, lax.add, window, strides, pads)
    return call.activated(total / _pixels(x.shape, window, strides, pads))


def max_pool(call: Call) -> Any:
    """MAX_POOL_2D."""
    from jax import lax

    x = call[0]
    window, strides, pads = _pool(call)
    least = np.array(-np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min, x.dtype)
    return call.activated(lax.reduce_window(x, least, lax.max, window, strides, pads))


def resize_bilinear(call: Call) -> Any:
    """RESIZE_BILINEAR to a known size."""
    x = call[0]
    for axis, out in zip((1, 2), call.sizes(1), strict=True):
        size = x.shape[axis]
        at = _sources(call, size, out)
        low = np.maximum(np.floor(at), 0).astype(np.int32)
        high = np.minimum(np.ceil(at), size - 1).astype(np.int32)
        shape = [1] * x.ndim
        shape[axis] = out
        part = (at - low).astype(np.float32).reshape(shape)
        lower = call.xp.take(x, np.minimum(low, size - 1), axis=axis, mode="clip")
        upper = call.xp.take(x, np.maximum(high, 0), axis=axis, mode="clip")
        x = lower * (1 - part) + upper * part
    return x


def resize_nearest(call: Call) -> Any:
    """RESIZE_NEAREST_NEIGHBOR to a known size."""
    x = call[0]
    for axis, out in zip((1, 2), call.sizes(1), strict=True):
        size = x.shape[axis]
        align = bool(call.option("alignCorners", False)) and out > 1
        scale = np.float32((size - 1) / (out - 1) if align else size / out)
        half = np.float32(0.5 if call.option("halfPixelCenters", False) else 0)
        at = (np.arange(out, dtype=np.float32) + half) * scale
        # Halves go up, as C's round does with numbers that are not negative.
        places = np.floor(at + np.float32(0.5)) if align else np.floor(at)
        index = np.clip(places, 0, size - 1).astype(np.int32)
        x = call.xp.take(x, index, axis=axis, mode="clip")
    return x


def _strides(call: Call) -> tuple[list[int], list[int]]:
    """Strides and dilations, height first."""
    strides = [int(call.option("strideH", 1)), int(call.option("strideW", 1))]
    dilation = [int(call.option("dilationHFactor", 1)), int(call.option("dilationWFactor", 1))]
    return strides, dilation


def _padding(
    call: Call, kernel: Sequence[int], strides: Sequence[int], dilation: Sequence[int]
) -> list[tuple[int, int]]:
    """What SAME or VALID adds before and after each spatial axis of input 0."""
    if int(call.option("padding", 0)) == 1:
        return [(0, 0)] * len(kernel)
    pads = []
    for size, k, stride, d in zip(call[0].shape[1:], kernel, strides, dilation, strict=False):
        if not isinstance(size, int):
            call.refuse("with SAME padding of a dynamic height or width")
        total = max((-(-size // stride) - 1) * stride + (k - 1) * d + 1 - size, 0)
        pads.append((total // 2, total - total // 2))
    return pads


def _rows(call: Call) -> Any:
    """The input of FULLY_CONNECTED as rows that the weights fit."""
    x, depth = call[0], call[1].shape[1]
    if call.option("keepNumDims", False) and x.shape[-1] == depth:
        return x
    return x.reshape(-1, depth) if x.ndim != 2 or x.shape[1] != depth else x


def _biased(call: Call, value: Any, index: int) -> Any:
    return value + call[index] if call.has(index) else value


def _pool(call: Call) -> tuple[tuple[int, ...], tuple[int, ...], list[tuple[int, int]]]:
    kernel = [int(call.option("filterHeight", 1)), int(call.option("filterWidth", 1))]
    strides, _ = _strides(call)
    pads = _padding(call, kernel, strides, (1, 1))
    return (1, *kernel, 1), (1, *strides, 1), [(0, 0), *pads, (0, 0)]


def _pixels(
    shape: Sequence[Any],
    window: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[tuple[int, int]],
) -> np.ndarray:
    """How many pixels of the image are in each window, as f32[1, height, width, 1]."""
    counts = []
    for axis in (1, 2):
        low, high = pads[axis]
        if low == high == 0:
            counts.append(np.array([window[axis]], np.float32))
            continue
        size, step = shape[axis], strides[axis]
        starts = np.arange(0, size + low + high - window[axis] + 1, step) - low
        inside = np.minimum(starts + window[axis], size) - np.maximum(starts, 0)
        counts.append(inside.astype(np.float32))
    return np.asarray(counts[0][:, None] * counts[1][None, :])[None, :, :, None]


def _sources(call: Call, size: int, out: int) -> np.ndarray:
    """Where the pixels of a resized axis lie in the original (f32)."""
    align = bool(call.option("alignCorners", False)) and out > 1
    scale = np.float32((size - 1) / (out - 1) if align else size / out)
    at = np.arange(out, dtype=np.float32)
    if call.option("halfPixelCenters", False):
        return (at + np.float32(0.5)) * scale - np.float32(0.5)
    return at * scale
