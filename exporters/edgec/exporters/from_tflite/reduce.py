"""TensorFlow Lite's operators that reduce, accumulate or normalise along axes, in real numbers."""

from typing import Any

import numpy as np

from edgec.exporters.from_tflite.call import Call

__all__ = [
    "arg",
    "cumsum",
    "l2_normalization",
    "local_response_normalization",
    "log_softmax",
    "reduction",
    "softmax",
    "top_k",
]

_SMALLEST_NORM = 1e-6  # of L2_NORMALIZATION in TensorFlow Lite's kernels


def reduction(name: str) -> Any:
    """The reduction of NumPy of this name over the axes in input 1."""

    def reduce(call: Call) -> Any:
        axes = call.axes(1, call[0].ndim)
        keep = bool(call.option("keepDims", False))
        return getattr(call.xp, name)(call[0], axis=axes, keepdims=keep)

    return reduce


def arg(name: str) -> Any:
    """ARG_MAX and ARG_MIN: the first index of the extreme along the axis in input 1."""

    def find(call: Call) -> Any:
        (axis,) = call.axes(1, call[0].ndim)
        return getattr(call.xp, name)(call[0], axis=axis).astype(call.outputs[0].dtype)

    return find


def cumsum(call: Call) -> Any:
    """CUMSUM along the axis in input 1, exclusive or reversed."""
    from jax import lax

    x = call[0]
    (axis,) = call.axes(1, x.ndim)
    total = lax.cumsum(x, axis=axis, reverse=bool(call.option("reverse", False)))
    return total - x if call.option("exclusive", False) else total


def softmax(call: Call) -> Any:
    """SOFTMAX over the last axis of beta times the input."""
    x = call[0] * np.float32(call.option("beta", 1.0))
    powers = call.xp.exp(x - call.xp.max(x, axis=-1, keepdims=True))
    return powers / call.xp.sum(powers, axis=-1, keepdims=True)


def log_softmax(call: Call) -> Any:
    """LOG_SOFTMAX over the last axis."""
    x = call[0] - call.xp.max(call[0], axis=-1, keepdims=True)
    return x - call.xp.log(call.xp.sum(call.xp.exp(x), axis=-1, keepdims=True))


def l2_normalization(call: Call) -> Any:
    """L2_NORMALIZATION over the last axis."""
    x = call[0]
    norm = call.xp.sqrt(call.xp.sum(x * x, axis=-1, keepdims=True))
    return call.activated(x / call.xp.maximum(norm, _SMALLEST_NORM))


def local_response_normalization(call: Call) -> Any:
    """LOCAL_RESPONSE_NORMALIZATION over neighbouring channels."""
    x = call[0]
    radius = int(call.option("radius", 0))
    padded = call.xp.pad(x * x, [(0, 0)] * (x.ndim - 1) + [(radius, radius)])
    channels = x.shape[-1]
    near = [padded[..., shift : shift + channels] for shift in range(2 * radius + 1)]
    total = call.option("bias", 0.0) + call.option("alpha", 0.0) * sum(near)
    return x / call.xp.power(total, call.option("beta", 0.0))


def top_k(call: Call) -> Any:
    """TOPK_V2: the k largest along the last axis, and where they were."""
    from jax import lax

    values, places = lax.top_k(call[0], int(call.constant(1).item()))
    return values, places.astype(call.outputs[1].dtype)
