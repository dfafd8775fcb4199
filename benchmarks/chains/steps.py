"""What a chain of operations is made of: what it begins with, and what may follow."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["BEGINNINGS", "LONG", "SIZES", "STEPS", "Drawing", "Shape", "Step"]

Shape = tuple[int, ...]

SIZES = (1, 2, 3, 5, 7, 8, 10, 12, 17, 32, 33, 50, 64, 68, 72, 100, 128)
LONG = (1, 2, 3, 7, 8, 31, 32, 33, 48, 64, 96, 100, 128, 160, 197, 224, 256, 333, 384, 500, 577)
LONG += (640, 768, 1000, 1024, 1500, 2048, 3001)
"""Sizes of what a device shares among threads that go in step, and among workgroups."""

_LONGEST = 1 << 17
"""Elements of an array of such sizes, or products to add up: as many as are carried elsewhere."""

_MOST = 1 << 18
"""Elements of a value."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """An operation that was drawn.

    Attributes:
        label: what it is, in a word.
        shape: of its result.
        function: from the value before it and all arguments to its result.
    """

    label: str
    shape: Shape
    function: Callable[[Any, Sequence[Any]], Any]


@dataclass(kw_only=True)
class Drawing:
    """Draws numbers, and keeps the arguments that operations ask for.

    Attributes:
        random: where from.
        dtype: of the arguments.
        choices: sizes that arrays may have, in order.
        arguments: those so far.
    """

    random: np.random.Generator
    dtype: np.dtype
    choices: Sequence[int] = SIZES
    arguments: list[np.ndarray] = field(default_factory=list)

    def size(self) -> int:
        """One of the sizes that arrays have."""
        return int(self.random.choice(self.choices))

    def sizes(self, count: int) -> list[int]:
        """Several of an array, or of what is multiplied; long ones shorter where all are long."""
        found = [self.size() for _ in range(count)]
        while max(self.choices) > max(SIZES) and math.prod(found) > _LONGEST:
            at = found.index(max(found))
            found[at] = self.choices[self.choices.index(found[at]) - 1]
        return found

    def axis(self, shape: Shape) -> int:
        """One of an array's axes."""
        return int(self.random.integers(len(shape)))

    def argument(self, *shape: int) -> int:
        """Another argument, normally distributed; its number."""
        self.arguments.append(self.random.normal(size=shape).astype(self.dtype))
        return len(self.arguments) - 1


def _product(draw: Drawing) -> Step:
    rows, inner, columns = draw.sizes(3)
    a, b = draw.argument(rows, inner), draw.argument(inner, columns)
    return Step(label="product", shape=(rows, columns), function=lambda _, x: x[a] @ x[b])


def _turned_product(draw: Drawing) -> Step:
    rows, inner, columns = draw.sizes(3)
    a, b = draw.argument(inner, rows), draw.argument(columns, inner)
    return Step(
        label="product-turned",
        shape=(rows, columns),
        function=lambda _, x: jnp.einsum("km,nk->mn", x[a], x[b]),
    )


def _batch_product(draw: Drawing) -> Step:
    batch, rows, inner, columns = int(draw.random.integers(1, 4)), *draw.sizes(3)
    a, b = draw.argument(batch, rows, inner), draw.argument(batch, inner, columns)
    return Step(label="products", shape=(batch, rows, columns), function=lambda _, x: x[a] @ x[b])


def _heads(draw: Drawing) -> Step:
    batch, rows, inner = int(draw.random.integers(1, 4)), *draw.sizes(2)
    a, b = draw.argument(batch, rows, 3, inner), draw.argument(batch, 4, inner)
    return Step(
        label="heads",
        shape=(batch, rows, 3, 4),
        function=lambda _, x: jnp.einsum("bmhk,bnk->bmhn", x[a], x[b]),
    )


def _vector_product(draw: Drawing) -> Step:
    rows, inner = draw.sizes(2)
    a, b = draw.argument(rows, inner), draw.argument(inner)
    return Step(label="vector", shape=(rows,), function=lambda _, x: x[a] @ x[b])


def _convolution(draw: Drawing) -> Step:
    high, wide = draw.sizes(2)
    image, kernel = draw.argument(1, high, wide, 4), draw.argument(3, 3, 4, 8)
    return Step(
        label="convolution",
        shape=(1, high, wide, 8),
        function=lambda _, x: jax.lax.conv_general_dilated(
            x[image], x[kernel], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        ),
    )


def _sum_of(draw: Drawing) -> Step:
    rows, inner, columns = draw.sizes(3)
    a = draw.argument(rows, inner, columns)
    return Step(label="sum", shape=(rows, columns), function=lambda _, x: x[a].sum(1))


def _given(draw: Drawing) -> Step:
    shape = tuple(draw.sizes(int(draw.random.integers(1, 4))))
    while math.prod(shape) > _MOST:
        shape = shape[1:]
    a = draw.argument(*shape)
    return Step(label="given", shape=shape, function=lambda _, x: x[a])


BEGINNINGS = (
    *(_product, _turned_product, _batch_product, _heads, _vector_product),
    *(_convolution, _sum_of, _given),
)


def _transposed(draw: Drawing, shape: Shape) -> Step:
    order = tuple(int(axis) for axis in draw.random.permutation(len(shape)))
    return Step(
        label="T" + "".join(map(str, order)),
        shape=tuple(shape[axis] for axis in order),
        function=lambda v, _: v.transpose(order),
    )


def _with_another(draw: Drawing, shape: Shape) -> Step:
    other = draw.argument(*shape)
    number = int(draw.random.integers(5))
    function = (
        lambda v, x: v + x[other],
        lambda v, x: v - x[other] * x[other],
        lambda v, x: jnp.tanh(v) * x[other] + x[other],
        lambda v, x: jnp.maximum(v, x[other]),
        lambda v, x: jnp.sin(v) * x[other] + v,
    )[number]
    return Step(label=f"with{number}", shape=shape, function=function)


def _function(draw: Drawing, shape: Shape) -> Step:
    number = int(draw.random.integers(4))
    function = (jnp.abs, jnp.tanh, jax.nn.gelu, lambda v: jnp.exp(-v * v))[number]
    label = ("abs", "tanh", "gelu", "exp")[number]
    return Step(label=label, shape=shape, function=lambda v, _: function(v))


def _spread(draw: Drawing, shape: Shape) -> Step | None:
    at, size = int(draw.random.integers(len(shape) + 1)), int(draw.random.choice((2, 5, 8)))
    wide = (*shape[:at], size, *shape[at:])
    if len(shape) > 3 or math.prod(wide) > _MOST:
        return None
    other = draw.argument(*wide)
    return Step(
        label=f"spread{at}",
        shape=wide,
        function=lambda v, x: jnp.expand_dims(v, at) * x[other] - x[other],
    )


def _flat(draw: Drawing, shape: Shape) -> Step:
    flat = (math.prod(shape),)
    other = draw.argument(*flat)
    return Step(label="flat", shape=flat, function=lambda v, x: v.reshape(flat) + x[other])


def _over_its_sum(draw: Drawing, shape: Shape) -> Step:
    axis = draw.axis(shape)
    return Step(
        label=f"oversum{axis}",
        shape=shape,
        function=lambda v, _: v / (1 + abs(v).sum(axis, keepdims=True)),
    )


def _softmax(draw: Drawing, shape: Shape) -> Step:
    axis = draw.axis(shape)
    return Step(
        label=f"softmax{axis}", shape=shape, function=lambda v, _: jax.nn.softmax(v, axis) + v
    )


def _norm(draw: Drawing, shape: Shape) -> Step:
    axis = draw.axis(shape)

    def function(v: Any, _: Any) -> Any:
        apart = v - v.mean(axis, keepdims=True)
        return apart * jax.lax.rsqrt((apart * apart).mean(axis, keepdims=True) + 1e-1)

    return Step(label=f"norm{axis}", shape=shape, function=function)


def _summed(draw: Drawing, shape: Shape) -> Step | None:
    if len(shape) < 2:
        return None
    axis = draw.axis(shape)
    kept = (*shape[:axis], *shape[axis + 1 :])
    return Step(label=f"sum{axis}", shape=kept, function=lambda v, _: v.sum(axis))


def _sliced(draw: Drawing, shape: Shape) -> Step:
    starts = [int(draw.random.integers(0, size // 3 + 1)) for size in shape]
    ends = [
        int(draw.random.integers(start + 1, size + 1))
        for start, size in zip(starts, shape, strict=True)
    ]
    pieces = tuple(slice(start, end) for start, end in zip(starts, ends, strict=True))
    return Step(
        label="slice",
        shape=tuple(end - start for start, end in zip(starts, ends, strict=True)),
        function=lambda v, _: jnp.sin(v[pieces]),
    )


def _sliced_where_the_data_say(draw: Drawing, shape: Shape) -> Step:
    sizes = tuple(max(1, size - int(draw.random.integers(0, 4))) for size in shape)

    def function(v: Any, _: Any) -> Any:
        one = (jnp.isfinite(v.ravel()[0])).astype(jnp.int32)
        return jax.lax.dynamic_slice(v, [one] * v.ndim, sizes) * 1.5

    return Step(label="dynamic-slice", shape=sizes, function=function)


def _padded(draw: Drawing, shape: Shape) -> Step:
    widths = [tuple(int(n) for n in draw.random.integers(0, 4, 2)) for _ in shape]
    return Step(
        label="pad",
        shape=tuple(low + size + high for size, (low, high) in zip(shape, widths, strict=True)),
        function=lambda v, _: jnp.pad(jnp.abs(v), widths, constant_values=1.5),
    )


def _joined(draw: Drawing, shape: Shape) -> Step:
    axis = draw.axis(shape)
    other = draw.argument(*shape)
    return Step(
        label=f"join{axis}",
        shape=(*shape[:axis], 2 * shape[axis], *shape[axis + 1 :]),
        function=lambda v, x: jnp.concatenate([jnp.sin(v), x[other]], axis),
    )


def _rolled(draw: Drawing, shape: Shape) -> Step:
    axis = draw.axis(shape)
    return Step(label=f"roll{axis}", shape=shape, function=lambda v, _: jnp.roll(v, 1, axis) + v)


def _reversed(draw: Drawing, shape: Shape) -> Step:
    axis = draw.axis(shape)
    return Step(label=f"reverse{axis}", shape=shape, function=lambda v, _: jnp.flip(v, axis) - v)


def _taken(draw: Drawing, shape: Shape) -> Step:
    rows = jnp.asarray(draw.random.integers(0, shape[0], 5))
    return Step(label="take", shape=(5, *shape[1:]), function=lambda v, _: v[rows])


def _scattered(draw: Drawing, shape: Shape) -> Step:
    rows = jnp.asarray(draw.random.integers(0, shape[0], 3))
    other = draw.argument(3, *shape[1:])
    return Step(label="scatter", shape=shape, function=lambda v, x: v.at[rows].add(x[other]))


def _updated(draw: Drawing, shape: Shape) -> Step:
    sizes = tuple(max(1, size // 2) for size in shape)
    starts = [int(draw.random.integers(0, n - m + 1)) for n, m in zip(shape, sizes, strict=True)]
    other = draw.argument(*sizes)
    return Step(
        label="update",
        shape=shape,
        function=lambda v, x: jax.lax.dynamic_update_slice(v, jnp.cos(x[other]), starts),
    )


def _cumulative(draw: Drawing, shape: Shape) -> Step:
    axis = draw.axis(shape)
    return Step(label=f"cumsum{axis}", shape=shape, function=lambda v, _: jnp.cumsum(v, axis) * 0.1)


def _pooled(draw: Drawing, shape: Shape) -> Step | None:
    if len(shape) != 2:
        return None
    return Step(
        label="pool",
        shape=shape,
        function=lambda v, _: jax.lax.reduce_window(
            v, -jnp.inf, jax.lax.max, (2, 2), (1, 1), "SAME"
        ),
    )


def _multiplied(draw: Drawing, shape: Shape) -> Step | None:
    if len(shape) != 2:
        return None
    other = draw.argument(shape[1], 6)
    return Step(label="product6", shape=(shape[0], 6), function=lambda v, x: v @ x[other])


def _by_itself(draw: Drawing, shape: Shape) -> Step | None:
    if len(shape) != 2:
        return None
    return Step(
        label="gram", shape=(shape[1], shape[1]), function=lambda v, _: v.T @ v / v.shape[0]
    )


def _beside_itself_turned(draw: Drawing, shape: Shape) -> Step | None:
    if len(shape) != 2 or shape[0] != shape[1]:
        return None
    return Step(label="symmetric", shape=shape, function=lambda v, _: v + 2 * v.T)


def _looped(draw: Drawing, shape: Shape) -> Step:
    other = draw.argument(*shape)
    return Step(
        label="loop",
        shape=shape,
        function=lambda v, x: jax.lax.fori_loop(0, 3, lambda _, c: jnp.sin(c) * x[other] + v, v),
    )


def _branched(draw: Drawing, shape: Shape) -> Step:
    return Step(
        label="branch",
        shape=shape,
        function=lambda v, _: jax.lax.cond(v.ravel()[0] > 0, jnp.sin, lambda w: w * 0.5, v),
    )


def _chosen(draw: Drawing, shape: Shape) -> Step:
    other = draw.argument(shape[-1])
    return Step(label="where", shape=shape, function=lambda v, x: jnp.where(x[other] > 0, v, -v))


STEPS = (
    *(_transposed, _transposed, _with_another, _with_another, _function, _spread, _spread, _flat),
    *(_over_its_sum, _softmax, _norm, _summed, _sliced, _sliced, _sliced_where_the_data_say),
    *(_padded, _joined, _rolled, _reversed, _taken, _scattered, _updated, _cumulative, _pooled),
    *(_multiplied, _by_itself, _beside_itself_turned, _looped, _branched, _chosen),
)
