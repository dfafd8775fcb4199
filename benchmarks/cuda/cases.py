"""Small programs that meet every kernel for CUDA: sizes that fit no tile, parts, batches, tails."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Case", "cases"]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A JAX function of arrays drawn at random, each about 1 in size.

    Attributes:
        name: also the name of its module.
        function: what is compiled; computed in f32 it is the reference.
        shapes: of its arguments.
        dtype: of its arguments.
        f32: how f32 is multiplied, as `--f32` takes it.
    """

    name: str
    function: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    dtype: str = "float16"
    f32: str = "full"


def cases() -> Iterator[Case]:
    """Every case."""
    yield from _products()
    yield from _convolutions()
    yield from _known()
    yield from _groups()
    yield from _attentions()
    yield from _norms()


def _products() -> Iterator[Case]:
    import jax
    import jax.numpy as jnp

    def plain(a: Any, b: Any) -> Any:
        return a @ b / a.shape[-1] ** 0.5

    def turned(a: Any, b: Any) -> Any:
        return jnp.einsum("...mk,...nk->...mn", a, b) / a.shape[-1] ** 0.5

    def wide(a: Any, b: Any) -> Any:
        return jnp.matmul(a, b, preferred_element_type=jnp.float32)

    for dtype in ("float16", "bfloat16", "float32"):
        for m, n, k in (
            *((128, 768, 768), (128, 768, 3072), (100, 72, 2048), (1, 1000, 2048), (33, 8, 4096)),
            *((4096, 4096, 1024), (3000, 4000, 520), (1025, 2056, 712), (2048, 2048, 2048)),
        ):
            size = f"{m}_{n}_{k}_{dtype}"
            yield Case(name=f"nn_{size}", function=plain, shapes=((m, k), (k, n)), dtype=dtype)
            yield Case(name=f"nt_{size}", function=turned, shapes=((m, k), (n, k)), dtype=dtype)
        yield Case(
            name=f"batch_{dtype}", function=plain, shapes=((6, 100, 64), (6, 64, 136)), dtype=dtype
        )
        yield Case(
            name=f"batch_nt_{dtype}",
            function=turned,
            shapes=((2, 3, 100, 64), (2, 3, 136, 64)),
            dtype=dtype,
        )
        yield Case(
            name=f"to_f32_{dtype}", function=wide, shapes=((70, 512), (512, 264)), dtype=dtype
        )
    for dtype in ("float16", "float32"):
        for m, n, k in ((99, 133, 251), (1, 1000, 768), (197, 197, 65), (513, 1030, 2049)):
            size = f"{m}_{n}_{k}_{dtype}"
            yield Case(name=f"odd_{size}", function=plain, shapes=((m, k), (k, n)), dtype=dtype)
            yield Case(name=f"odd_t_{size}", function=turned, shapes=((m, k), (n, k)), dtype=dtype)
        yield Case(
            name=f"vector_{dtype}", function=plain, shapes=((1000, 777), (777,)), dtype=dtype
        )
        yield Case(
            name=f"heads_{dtype}",
            function=_heads,
            shapes=((2, 197, 768), (2, 197, 768)),
            dtype=dtype,
        )
    tails: dict[str, Callable[..., Any]] = {
        "bias": lambda x, b, r: x + b,
        "relu": lambda x, b, r: jax.nn.relu(x),
        "gelu": lambda x, b, r: jax.nn.gelu(x + b),
        "gelu_erf": lambda x, b, r: jax.nn.gelu(x + b, approximate=False),
        "silu": lambda x, b, r: jax.nn.silu(x + b),
        "residual": lambda x, b, r: x + b + r,
        "residual_relu": lambda x, b, r: jax.nn.relu(x + b + r),
        "gelu_residual": lambda x, b, r: r + jax.nn.gelu(x + b),
        "scaled": lambda x, b, r: (x + b) * b,
        "clip": lambda x, b, r: jnp.clip(x + b, -0.5, 0.75) + r,
        "leaky": lambda x, b, r: jax.nn.leaky_relu(x + b, 0.25),
        "tanh": lambda x, b, r: jnp.tanh(x + b) + r,
        "hard_swish": lambda x, b, r: jax.nn.hard_swish(x + b),
        "twice": lambda x, b, r: jax.nn.relu(x + b) + x,
    }
    for m, n, k in ((128, 768, 3072), (200, 264, 72), (4000, 4104, 512)):
        for word, tail in tails.items():

            def function(a: Any, b: Any, bias: Any, other: Any, tail: Any = tail) -> Any:
                return tail(a @ b / a.shape[-1] ** 0.5, bias, other)

            def folded(a: Any, b: Any, bias: Any, other: Any, tail: Any = tail) -> Any:
                return tail(a @ (b / a.shape[-1] ** 0.5), bias, other)

            shapes = ((m, k), (k, n), (n,), (m, n))
            yield Case(name=f"tail_{word}_{m}", function=folded, shapes=shapes)
            if m == 200:
                yield Case(name=f"late_{word}_{m}", function=function, shapes=shapes)


def _heads(q: Any, k: Any) -> Any:
    """Scores of 12 heads that lie side by side in rows, as networks have them."""
    import jax.numpy as jnp

    q, k = (v.reshape(2, 197, 12, 64).transpose(0, 2, 1, 3) for v in (q, k))
    return jnp.einsum("bhqd,bhkd->bhqk", q, k) / 8


def _convolutions() -> Iterator[Case]:
    import jax

    def function(stride: int, pad: int, gaps: tuple[int, int]) -> Callable[..., Any]:
        def convolution(x: Any, w: Any, bias: Any) -> Any:
            scale = (w.shape[0] * w.shape[1] * w.shape[2]) ** -0.5
            y = jax.lax.conv_general_dilated(
                x,
                w * scale,
                (stride, stride),
                [(pad, pad), (pad, pad)],
                rhs_dilation=gaps,
                dimension_numbers=("NHWC", "HWIO", "NHWC"),
            )
            return jax.nn.relu(y + bias)

        return convolution

    for dtype in ("float16", "float32"):
        for images, size, inputs, outputs, taps, stride, pad, *gaps in (
            *((1, 56, 64, 64, 3, 1, 1), (1, 7, 512, 512, 3, 1, 1), (2, 30, 72, 40, 3, 2, 1)),
            *((1, 28, 256, 512, 1, 2, 0), (1, 64, 3, 64, 7, 2, 3), (1, 33, 12, 24, 5, 1, 0)),
            *((4, 56, 128, 128, 3, 1, 1), (1, 14, 1024, 256, 1, 1, 0)),
            *((1, 33, 256, 256, 3, 1, 6, 6, 6), (2, 30, 72, 40, 3, 2, 3, 2, 3)),
            (1, 33, 12, 24, 5, 1, 0, 3, 2),
        ):
            far, near = gaps or (1, 1)
            apart = f"_{far}x{near}" if gaps else ""
            yield Case(
                name=f"conv_{images}_{size}_{inputs}_{outputs}_{taps}_{stride}{apart}_{dtype}",
                function=function(stride, pad, (far, near)),
                shapes=((images, size, size, inputs), (taps, taps, inputs, outputs), (outputs,)),
                dtype=dtype,
            )


def _known() -> Iterator[Case]:
    """Weights that lie in the module, which may be turned before the first call."""
    import jax
    import jax.numpy as jnp

    def drawn(*sizes: int) -> Any:
        return np.random.default_rng(7).standard_normal(sizes, np.float32)

    def product(weights: Any) -> Callable[..., Any]:
        return lambda x: jax.nn.gelu(x @ jnp.asarray(weights, x.dtype) / weights.shape[0] ** 0.5)

    def convolution(weights: Any, stride: int) -> Callable[..., Any]:
        def function(x: Any) -> Any:
            layout = ("NHWC", "HWIO", "NHWC")
            w = jnp.asarray(weights / weights[..., 0].size ** 0.5, x.dtype)
            pads = [(1, 1)] * 2
            return jax.lax.conv_general_dilated(
                x, w, (stride, stride), pads, dimension_numbers=layout
            )

        return function

    for dtype in ("float16", "float32"):
        for m, n, k in ((128, 768, 768), (2048, 512, 512), (33, 136, 1030), (1, 1000, 512)):
            yield Case(
                name=f"known_{m}_{n}_{k}_{dtype}",
                function=product(drawn(k, n)),
                shapes=((m, k),),
                dtype=dtype,
            )
        for size, inputs, outputs, stride in ((56, 64, 64, 1), (7, 256, 256, 1), (30, 3, 40, 2)):
            yield Case(
                name=f"known_conv_{size}_{inputs}_{outputs}_{stride}_{dtype}",
                function=convolution(drawn(3, 3, inputs, outputs), stride),
                shapes=((2, size, size, inputs),),
                dtype=dtype,
            )


def _groups() -> Iterator[Case]:
    import jax

    def function(groups: int, stride: int) -> Callable[..., Any]:
        def convolution(x: Any, w: Any, bias: Any) -> Any:
            y = jax.lax.conv_general_dilated(
                x,
                w * (w.shape[0] * w.shape[1] * w.shape[2]) ** -0.5,
                (stride, stride),
                [(w.shape[0] // 2,) * 2] * 2,
                dimension_numbers=("NHWC", "HWIO", "NHWC"),
                feature_group_count=groups,
            )
            return jax.nn.hard_swish(y + bias)

        return convolution

    for dtype in ("float16", "bfloat16", "float32"):
        for size, inner, each, groups, taps, stride in (
            *((56, 1, 1, 72, 3, 2), (14, 1, 1, 672, 5, 1), (56, 1, 1, 96, 7, 1)),
            *((7, 1, 2, 33, 3, 1), (28, 24, 24, 7, 3, 2), (7, 24, 24, 38, 3, 1)),
            *((14, 4, 4, 32, 3, 1), (13, 5, 6, 7, 3, 1), (9, 128, 96, 2, 3, 1)),
        ):
            inputs, outputs = inner * groups, each * groups
            yield Case(
                name=f"groups_{size}_{inner}_{each}_{groups}_{taps}_{stride}_{dtype}",
                function=function(groups, stride),
                shapes=((2, size, size, inputs), (taps, taps, inner, outputs), (outputs,)),
                dtype=dtype,
            )


def _attentions() -> Iterator[Case]:
    import jax
    import jax.numpy as jnp

    def plain(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("...qd,...kd->...qk", q, k).astype(jnp.float32)
        share = jax.nn.softmax(scores / q.shape[-1] ** 0.5).astype(v.dtype)
        return jnp.einsum("...qk,...kd->...qd", share, v)

    def packed(x: Any) -> Any:
        batch, rows, width = x.shape
        parts = jnp.split(x, 3, -1)
        q, k, v = (p.reshape(batch, rows, -1, 64).transpose(0, 2, 1, 3) for p in parts)
        return plain(q, k, v).transpose(0, 2, 1, 3).reshape(batch, rows, width // 3)

    for dtype in ("float16", "bfloat16", "float32"):
        for heads, queries, keys, wide in (
            *((12, 128, 128, 64), (3, 100, 77, 32), (5, 1, 300, 128), (40, 512, 512, 64)),
        ):
            shapes = ((heads, queries, wide), (heads, keys, wide), (heads, keys, wide))
            yield Case(
                name=f"attention_{heads}_{queries}_{keys}_{wide}_{dtype}",
                function=plain,
                shapes=shapes,
                dtype=dtype,
            )
        yield Case(
            name=f"attention_packed_{dtype}",
            function=packed,
            shapes=((2, 96, 3 * 256),),
            dtype=dtype,
        )
    yield Case(
        name="attention_tf32",
        function=plain,
        shapes=((12, 100, 64), (12, 128, 64), (12, 128, 64)),
        dtype="float32",
        f32="tf32",
    )


def _norms() -> Iterator[Case]:
    import jax
    import jax.numpy as jnp

    def layer(x: Any, scale: Any, shift: Any) -> Any:
        y = x.astype(jnp.float32)
        mean = y.mean(-1, keepdims=True)
        y = (y - mean) * jax.lax.rsqrt(((y - mean) ** 2).mean(-1, keepdims=True) + 1e-5)
        return (y * scale + shift).astype(x.dtype)

    def quick(x: Any, scale: Any, shift: Any) -> Any:
        y = x.astype(jnp.float32)
        mean = y.mean(-1, keepdims=True)
        variance = jnp.maximum((y * y).mean(-1, keepdims=True) - mean * mean, 0)
        return ((y - mean) * (jax.lax.rsqrt(variance + 1e-6) * scale) + shift).astype(x.dtype)

    def root(x: Any, scale: Any, shift: Any) -> Any:
        y = x.astype(jnp.float32)
        y = y * jax.lax.rsqrt((y * y).mean(-1, keepdims=True) + 1e-6)
        return y.astype(x.dtype) * scale

    for dtype in ("float16", "float32"):
        for word, function in (("layer", layer), ("quick", quick), ("root", root)):
            for rows, width in ((128, 768), (5, 4096), (7, 1032)):
                yield Case(
                    name=f"norm_{word}_{width}_{dtype}",
                    function=function,
                    shapes=((2, rows, width), (width,), (width,)),
                    dtype=dtype,
                )
