"""The words of models in JAX: channels last, loops as `scan`."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.peers.nets.net import Net, Value

__all__ = ["JaxNet"]

_ORDERS = {3: ("NWC", "WIO", "NWC"), 4: ("NHWC", "HWIO", "NHWC")}
_ACTIVATIONS = {
    "relu": jax.nn.relu,
    "relu6": jax.nn.relu6,
    "silu": jax.nn.silu,
    "sigmoid": jax.nn.sigmoid,
    "tanh": jnp.tanh,
    "hard_sigmoid": jax.nn.hard_sigmoid,
    "hard_swish": jax.nn.hard_swish,
    "gelu": lambda x: jax.nn.gelu(x, approximate=False),
    "gelu_tanh": lambda x: jax.nn.gelu(x, approximate=True),
}


class JaxNet(Net):
    """Values are JAX arrays; `dtype` is what weights are cast to."""

    def __init__(self, dtype: str = "float32") -> None:
        self._dtype = jnp.dtype(dtype)

    def _w(self, array: np.ndarray) -> np.ndarray:
        return array.astype(self._dtype, copy=False) if array.dtype == np.float32 else array

    def conv(
        self,
        x: Value,
        kernel: np.ndarray,
        bias: np.ndarray,
        *,
        stride: int = 1,
        pad: int = 0,
        groups: int = 1,
    ) -> Value:
        rank = kernel.ndim
        y = jax.lax.conv_general_dilated(
            x,
            self._w(kernel),
            (stride,) * (rank - 2),
            ((pad, pad),) * (rank - 2),
            dimension_numbers=_ORDERS[rank],
            feature_group_count=groups,
        )
        return y + self._w(bias)

    def up_conv(self, x: Value, kernel: np.ndarray, bias: np.ndarray) -> Value:
        y = jax.lax.conv_transpose(
            x, self._w(kernel), (2, 2), "VALID", dimension_numbers=_ORDERS[4]
        )
        return y + self._w(bias)

    def max_pool(self, x: Value, *, size: int, stride: int, pad: int = 0, space: int = 2) -> Value:
        return jax.lax.reduce_window(
            x,
            jnp.asarray(-jnp.inf, x.dtype),
            jax.lax.max,
            (1, *(size,) * space, 1),
            (1, *(stride,) * space, 1),
            ((0, 0), *((pad, pad),) * space, (0, 0)),
        )

    def mean_space(self, x: Value) -> Value:
        return jnp.mean(x, axis=tuple(range(1, x.ndim - 1)), keepdims=True)

    def join_channels(self, x: Value, y: Value) -> Value:
        return jnp.concatenate([x, y], axis=-1)

    def vector(self, x: Value, channels: int) -> Value:
        return x.reshape(1, channels)

    def tokens(self, x: Value, points: int, channels: int) -> Value:
        return x.reshape(1, points, channels)

    def image(self, x: Value) -> Value:
        return x

    def _other(self, y: Value | float) -> Value | float:
        return self._w(y) if isinstance(y, np.ndarray) else y

    def add(self, x: Value, y: Value | float) -> Value:
        return x + self._other(y)

    def mul(self, x: Value, y: Value | float) -> Value:
        return x * self._other(y)

    def div(self, x: Value, y: Value) -> Value:
        return x / y

    def sqrt(self, x: Value) -> Value:
        return jnp.sqrt(x)

    def activate(self, x: Value, kind: str) -> Value:
        return _ACTIVATIONS[kind](x)

    def to_float(self, x: Value) -> Value:
        return x.astype(self._dtype)

    def dense(self, x: Value, kernel: np.ndarray, bias: np.ndarray | None) -> Value:
        y = jnp.matmul(x, self._w(kernel))
        return y if bias is None else y + self._w(bias)

    def matmul(self, x: Value, y: Value) -> Value:
        return jnp.matmul(x, y)

    def softmax(self, x: Value) -> Value:
        return jax.nn.softmax(x, axis=-1)

    def layer_norm(self, x: Value, scale: np.ndarray, bias: np.ndarray, epsilon: float) -> Value:
        mean = x.mean(-1, keepdims=True)
        centred = x - mean
        variance = (centred * centred).mean(-1, keepdims=True)
        return centred * jax.lax.rsqrt(variance + epsilon) * self._w(scale) + self._w(bias)

    def take(self, table: np.ndarray, ids: Value) -> Value:
        return jnp.take(self._w(table), ids, axis=0, mode="clip")

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        return x.reshape(tuple(shape))

    def transpose(self, x: Value, axes: Sequence[int]) -> Value:
        return jnp.transpose(x, tuple(axes))

    def concat(self, values: Sequence[Value | np.ndarray], axis: int) -> Value:
        return jnp.concatenate([self._other(v) for v in values], axis=axis)

    def part(self, x: Value, axis: int, begin: int, end: int) -> Value:
        return jax.lax.slice_in_dim(x, begin, end, axis=axis)

    def total(self, x: Value, axis: int) -> Value:
        return jnp.sum(x, axis=axis, keepdims=True)

    def lstm(self, x: Value, kernel: np.ndarray, recurrent: np.ndarray, bias: np.ndarray) -> Value:
        # The inputs' share of all steps is one product, as in Flax's OptimizedLSTMCell and Keras.
        shares = (jnp.matmul(x, self._w(kernel)) + self._w(bias))[0]
        width = recurrent.shape[0]
        zeros = jnp.zeros((1, width), x.dtype)

        def step(carry: tuple[Value, Value], share: Value) -> tuple[tuple[Value, Value], Value]:
            hidden, cell = carry
            gates = share[None] + jnp.matmul(hidden, self._w(recurrent))
            i, f, g, o = jnp.split(gates, 4, axis=-1)
            cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
            hidden = jax.nn.sigmoid(o) * jnp.tanh(cell)
            return (hidden, cell), hidden[0]

        _, states = jax.lax.scan(step, (zeros, zeros), shares)
        return states[None]

    def constants(self, values: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Arrays as this net's weights."""
        return [self._w(v) for v in values]
