"""A function of all that the kernels for GPUs without matrix units do, and what they are called."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["CASES", "arguments", "every"]

_Array = np.ndarray[Any, np.dtype[Any]]


def _windows(x, w, stride=1, pad=1, groups=1, gaps=(1, 1)):
    return jax.lax.conv_general_dilated(
        x,
        w,
        (stride, stride),
        [(pad, pad)] * 2,
        rhs_dilation=gaps,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=groups,
    )


def _attention(q, k, v):
    return jax.nn.softmax(jnp.einsum("hqd,hkd->hqk", q, k) / 8) @ v


def _over(axis, x):
    y = x - x.mean(axis, keepdims=True)
    return y * jax.lax.rsqrt((y * y).mean(axis, keepdims=True) + 1e-5)


CASES: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]], str]] = {
    "product": (
        lambda x, w, b: jax.nn.gelu(x @ w + b, approximate=False),
        [(67, 132), (132, 164), (164,)],
        "product_nn_each",
    ),
    "turned, a batch": (
        lambda x, w: jnp.einsum("bmk,bnk->bmn", x, w),
        [(3, 70, 52), (3, 132, 52)],
        "product_nt_each",
    ),
    "one row": (lambda x, w, b: x @ w + b, [(1, 1028), (1028, 1024), (1024,)], "product_nn_line"),
    "windows, strides, a residual": (
        lambda x, w, b, y: jax.nn.relu(_windows(x, w, 2) + b + y),
        [(2, 15, 17, 24), (3, 3, 24, 36), (36,), (2, 8, 9, 36)],
        "convolution_each",
    ),
    "three channels": (
        lambda x, w: jax.nn.silu(_windows(x, w, 1, 2)),
        [(1, 24, 22, 3), (5, 5, 3, 36)],
        "convolution_each",
    ),
    "windows with gaps": (
        lambda x, w, b: jax.nn.relu(_windows(x, w, 1, 3, gaps=(2, 3)) + b),
        [(1, 27, 30, 128), (3, 3, 128, 128), (128,)],
        "convolution_each",
    ),
    "windows with gaps, three channels": (
        lambda x, w: jax.nn.silu(_windows(x, w, 1, 2, gaps=(2, 3))),
        [(1, 24, 22, 3), (5, 3, 3, 100)],
        "convolution_each",
    ),
    "many windows of 3 x 3": (
        lambda x, w, b: jax.nn.relu(_windows(x, w) + b),
        [(1, 27, 30, 128), (3, 3, 128, 128), (128,)],
        "winograd_weights_f32",
    ),
    "by points": (
        lambda x, w, y: _windows(x, w, pad=0) + y,
        [(1, 14, 14, 96), (1, 1, 96, 72), (1, 14, 14, 72)],
        "convolution_each",
    ),
    "by channels": (
        lambda x, w, b: (lambda y: y * jax.nn.relu6(y + 3) / 6)(_windows(x, w, 2, groups=72) + b),
        [(1, 15, 14, 72), (3, 3, 1, 72), (72,)],
        "grouped",
    ),
    "attention": (_attention, [(3, 40, 64), (3, 77, 64), (3, 77, 64)], "attention_64"),
    "wide attention": (_attention, [(2, 19, 100), (2, 33, 100), (2, 33, 100)], "attention_128"),
    "layer norm": (
        lambda x, a, b: _over(-1, x) * a + b,
        [(19, 192), (192,), (192,)],
        "norm_row",
    ),
    "long norm": (lambda x: _over(-1, x), [(3, 9000)], "norm_long_half"),
    "norm of channels": (lambda x: _over(1, x), [(2, 48, 6, 12)], "norm_deep_half"),
}
"""By name: the function, what it takes, and the first words of the kernel that a phone gets."""


def arguments(dtype: str = "float32") -> list[_Array]:
    """What all cases take, one after the other."""
    random = np.random.default_rng(0)
    shapes = [shape for _, shapes, _ in CASES.values() for shape in shapes]
    return [random.standard_normal(shape).astype(dtype) for shape in shapes]


def every(*given: Any) -> dict[str, Any]:
    """What all cases give, by name."""
    rest = iter(given)
    return {name: f(*(next(rest) for _ in shapes)) for name, (f, shapes, _) in CASES.items()}
