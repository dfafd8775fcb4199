"""The networks of the CUDA benchmark, in JAX: weights are arguments, drawn at random."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["MODELS", "Network"]


@dataclass(frozen=True, kw_only=True)
class Network:
    """A function of (input, weights) and what to call it with.

    Attributes:
        name: how the tables call it.
        function: takes the input and the list of weights, gives one array.
        exact: the same in f32.
        draw: from a seed to the input and the list of weights, NumPy arrays.
    """

    name: str
    function: Callable[[Any, list[Any]], Any]
    exact: Callable[[Any, list[Any]], Any]
    draw: Callable[[int], tuple[np.ndarray, list[np.ndarray]]]


def _bert(layers: int, width: int, heads: int, tokens: int, dtype: str) -> Network:
    """An encoder like BERT: post-norm layers with biases, GELU by tanh; f32 norms and softmax."""
    import jax
    import jax.numpy as jnp

    inner = 4 * width
    shapes = [
        (width, 3 * width), (3 * width,), (width, width), (width,), (width,), (width,),
        (width, inner), (inner,), (inner, width), (width,), (width,), (width,),
    ]  # fmt: skip

    def norm(x: Any, scale: Any, shift: Any) -> Any:
        x = x.astype(jnp.float32)
        mean = x.mean(-1, keepdims=True)
        variance = ((x - mean) ** 2).mean(-1, keepdims=True)
        y = (x - mean) * jax.lax.rsqrt(variance + 1e-5)
        return (y * scale.astype(jnp.float32) + shift.astype(jnp.float32)).astype(scale.dtype)

    def split(x: Any) -> Any:
        return x.reshape(tokens, heads, width // heads).transpose(1, 0, 2)

    def function(x: Any, weights: list[Any]) -> Any:
        for start in range(0, len(weights), len(shapes)):
            qkv, qkv_b, out, out_b, s1, b1, up, up_b, down, down_b, s2, b2 = weights[
                start : start + len(shapes)
            ]
            q, k, v = (split(part) for part in jnp.split(x @ qkv + qkv_b, 3, axis=-1))
            scores = jnp.einsum("hqd,hkd->hqk", q, k).astype(jnp.float32)
            share = jax.nn.softmax(scores / (width // heads) ** 0.5).astype(x.dtype)
            mixed = jnp.einsum("hqk,hkd->hqd", share, v).transpose(1, 0, 2).reshape(tokens, width)
            x = norm(x + mixed @ out + out_b, s1, b1)
            x = norm(x + jax.nn.gelu(x @ up + up_b) @ down + down_b, s2, b2)
        return x

    def draw(seed: int) -> tuple[np.ndarray, list[np.ndarray]]:
        kind = jnp.dtype(dtype)
        rng = np.random.default_rng(seed)
        weights = [
            (rng.standard_normal(shape) * (0.02 if len(shape) == 2 else 0.1)).astype(kind)
            for _ in range(layers)
            for shape in shapes
        ]
        return rng.standard_normal((tokens, width)).astype(kind), weights

    return Network(name=f"bert-base-{dtype}", function=function, exact=function, draw=draw)


def _resnet50(dtype: str, layout: str = "NHWC") -> Network:
    """ResNet-50 v1.5 without batch norms; each convolution has a bias, as after folding."""
    import jax
    import jax.numpy as jnp

    plan = [(64, 256, 3, 1), (128, 512, 4, 2), (256, 1024, 6, 2), (512, 2048, 3, 2)]

    def shapes() -> list[tuple[int, ...]]:
        found: list[tuple[int, ...]] = [(7, 7, 3, 64), (64,)]
        wide = 64
        for inner, outer, blocks, _ in plan:
            for block in range(blocks):
                found += [(1, 1, wide, inner), (inner,), (3, 3, inner, inner), (inner,)]
                found += [(1, 1, inner, outer), (outer,)]
                if block == 0:
                    found += [(1, 1, wide, outer), (outer,)]
                wide = outer
        return [*found, (2048, 1000), (1000,)]

    def conv(x: Any, weight: Any, bias: Any, stride: int = 1) -> Any:
        kernel = "HWIO" if layout == "NHWC" else "OIHW"
        size = weight.shape[kernel.index("H")] // 2
        return jax.lax.conv_general_dilated(
            x,
            weight,
            (stride, stride),
            [(size, size), (size, size)],
            dimension_numbers=(layout, kernel, layout),
        ) + (bias if layout == "NHWC" else bias[:, None, None])

    def function(x: Any, weights: list[Any]) -> Any:
        pairs = iter(zip(weights[0::2], weights[1::2], strict=True))
        relu = jax.nn.relu
        x = relu(conv(x, *next(pairs), stride=2))
        x = jax.lax.reduce_window(
            x,
            jnp.array(-jnp.inf, x.dtype),
            jax.lax.max,
            *(tuple(size if c in "HW" else 1 for c in layout) for size in (3, 2)),
            [(1, 1) if c in "HW" else (0, 0) for c in layout],
        )
        for _, _, blocks, first in plan:
            for block in range(blocks):
                stride = first if block == 0 else 1
                y = relu(conv(x, *next(pairs)))
                y = relu(conv(y, *next(pairs), stride=stride))
                y = conv(y, *next(pairs))
                x = relu(y + (conv(x, *next(pairs), stride=stride) if block == 0 else x))
        pooled = x.astype(jnp.float32).mean(tuple(layout.index(c) for c in "HW")).astype(x.dtype)
        weight, bias = next(pairs)
        return pooled @ weight + bias

    def draw(seed: int) -> tuple[np.ndarray, list[np.ndarray]]:
        kind = jnp.dtype(dtype)
        rng = np.random.default_rng(seed)
        weights = []
        for shape in shapes():
            fan = int(np.prod(shape[:-1])) if len(shape) > 1 else 100
            values = (rng.standard_normal(shape) * fan**-0.5).astype(kind)
            turn = layout == "NCHW" and len(shape) == 4
            weights.append(np.ascontiguousarray(values.transpose(3, 2, 0, 1)) if turn else values)
        sizes = [{"N": 1, "C": 3}.get(c, 224) for c in layout]
        return rng.standard_normal(sizes).astype(kind), weights

    name = f"resnet50-{dtype}" if layout == "NHWC" else f"resnet50-{layout.lower()}-{dtype}"
    return Network(name=name, function=function, exact=function, draw=draw)


def _product(size: int, dtype: str) -> Network:
    import jax.numpy as jnp

    kind = jnp.dtype(dtype)

    def draw(seed: int) -> tuple[np.ndarray, list[np.ndarray]]:
        rng = np.random.default_rng(seed)
        a, b = (rng.standard_normal((size, size), dtype=np.float32).astype(kind) for _ in range(2))
        return a, [b]

    def function(x: Any, weights: list[Any]) -> Any:
        return x @ weights[0]

    return Network(name=f"product{size}-{dtype}", function=function, exact=function, draw=draw)


MODELS: dict[str, Callable[[], Network]] = {
    "bert-base-float16": lambda: _bert(12, 768, 12, 128, "float16"),
    "bert-base-bfloat16": lambda: _bert(12, 768, 12, 128, "bfloat16"),
    "resnet50-float16": lambda: _resnet50("float16"),
    "resnet50-nchw-float16": lambda: _resnet50("float16", "NCHW"),
    "resnet50-float32": lambda: _resnet50("float32"),
    "bert-base-float32": lambda: _bert(12, 768, 12, 128, "float32"),
    "product2048-float32": lambda: _product(2048, "float32"),
    "product8192-float16": lambda: _product(8192, "float16"),
    "product8192-bfloat16": lambda: _product(8192, "bfloat16"),
    "product2048-float16": lambda: _product(2048, "float16"),
}
"""The networks by name; each is made when called, since that imports JAX."""
