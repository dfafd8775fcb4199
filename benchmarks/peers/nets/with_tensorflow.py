"""The words of models in TensorFlow, for LiteRT: channels last, in operations that LiteRT has."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from benchmarks.peers.nets.net import Net, Value

__all__ = ["TensorFlowNet"]

_ACTIVATIONS = {
    "relu": tf.nn.relu,
    "relu6": tf.nn.relu6,
    "silu": lambda x: x * tf.sigmoid(x),
    "sigmoid": tf.sigmoid,
    "tanh": tf.tanh,
    "hard_sigmoid": lambda x: tf.nn.relu6(x + 3.0) * (1 / 6),
    "hard_swish": lambda x: x * tf.nn.relu6(x + 3.0) * (1 / 6),
    "gelu": lambda x: tf.nn.gelu(x, approximate=False),
    "gelu_tanh": lambda x: tf.nn.gelu(x, approximate=True),
}


class TensorFlowNet(Net):
    """Values are tensors of a `tf.function`; weights are constants."""

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
        space = kernel.ndim - 2
        # "SAME" pads alike on both sides only at stride 1.
        same = stride == 1 and all(2 * pad == k - 1 for k in kernel.shape[:space])
        if pad and not same:
            x = tf.pad(x, [[0, 0], *[[pad, pad]] * space, [0, 0]])
        padding = "SAME" if same else "VALID"
        if groups == 1:
            call = tf.nn.conv1d if space == 1 else tf.nn.conv2d
            return tf.nn.bias_add(call(x, kernel, stride, padding), bias)
        if space != 2 or kernel.shape[2] != 1:
            raise NotImplementedError("LiteRT has no grouped convolution of this kind")
        depthwise = np.swapaxes(kernel, 2, 3)
        y = tf.nn.depthwise_conv2d(x, depthwise, [1, stride, stride, 1], padding)
        return tf.nn.bias_add(y, bias)

    def up_conv(self, x: Value, kernel: np.ndarray, bias: np.ndarray) -> Value:
        # TensorFlow's kernel has axes (height, width, out, in) and is turned round.
        turned = np.swapaxes(kernel[::-1, ::-1], 2, 3)
        shape = [1, 2 * x.shape[1], 2 * x.shape[2], kernel.shape[3]]
        return tf.nn.bias_add(tf.nn.conv2d_transpose(x, turned, shape, 2, "VALID"), bias)

    def max_pool(self, x: Value, *, size: int, stride: int, pad: int = 0, space: int = 2) -> Value:
        if pad:
            x = tf.pad(x, [[0, 0], *[[pad, pad]] * space, [0, 0]])
        call = tf.nn.max_pool1d if space == 1 else tf.nn.max_pool2d
        return call(x, size, stride, "VALID")

    def mean_space(self, x: Value) -> Value:
        return tf.reduce_mean(x, axis=list(range(1, len(x.shape) - 1)), keepdims=True)

    def join_channels(self, x: Value, y: Value) -> Value:
        return tf.concat([x, y], axis=-1)

    def vector(self, x: Value, channels: int) -> Value:
        return tf.reshape(x, [1, channels])

    def tokens(self, x: Value, points: int, channels: int) -> Value:
        return tf.reshape(x, [1, points, channels])

    def image(self, x: Value) -> Value:
        return x

    def add(self, x: Value, y: Value | float) -> Value:
        return x + y

    def mul(self, x: Value, y: Value | float) -> Value:
        return x * y

    def div(self, x: Value, y: Value) -> Value:
        return x / y

    def sqrt(self, x: Value) -> Value:
        return tf.sqrt(x)

    def activate(self, x: Value, kind: str) -> Value:
        return _ACTIVATIONS[kind](x)

    def to_float(self, x: Value) -> Value:
        return tf.cast(x, tf.float32)

    def dense(self, x: Value, kernel: np.ndarray, bias: np.ndarray | None) -> Value:
        # LiteRT's fully connected operation has two axes and takes the bias with it.
        shape = x.shape.as_list()
        y = tf.matmul(tf.reshape(x, [-1, shape[-1]]) if len(shape) != 2 else x, kernel)
        y = y if bias is None else tf.nn.bias_add(y, bias)
        return tf.reshape(y, [*shape[:-1], kernel.shape[1]]) if len(shape) != 2 else y

    def matmul(self, x: Value, y: Value) -> Value:
        return tf.matmul(x, y)

    def softmax(self, x: Value) -> Value:
        return tf.nn.softmax(x)

    def layer_norm(self, x: Value, scale: np.ndarray, bias: np.ndarray, epsilon: float) -> Value:
        mean = tf.reduce_mean(x, axis=-1, keepdims=True)
        centred = x - mean
        variance = tf.reduce_mean(tf.square(centred), axis=-1, keepdims=True)
        return centred * tf.math.rsqrt(variance + epsilon) * scale + bias

    def take(self, table: np.ndarray, ids: Value) -> Value:
        return tf.gather(table, ids)

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        return tf.reshape(x, list(shape))

    def transpose(self, x: Value, axes: Sequence[int]) -> Value:
        return tf.transpose(x, list(axes))

    def concat(self, values: Sequence[Value | np.ndarray], axis: int) -> Value:
        return tf.concat([tf.convert_to_tensor(v) for v in values], axis=axis)

    def part(self, x: Value, axis: int, begin: int, end: int) -> Value:
        start, size = [0] * len(x.shape), x.shape.as_list()
        start[axis], size[axis] = begin, end - begin
        return tf.slice(x, start, size)

    def total(self, x: Value, axis: int) -> Value:
        return tf.reduce_sum(x, axis=axis, keepdims=True)

    def lstm(self, x: Value, kernel: np.ndarray, recurrent: np.ndarray, bias: np.ndarray) -> Value:
        # Written out step by step: LiteRT runs that faster than its while loop.
        shares = self.dense(x, kernel, bias)
        hidden = cell = tf.zeros([1, recurrent.shape[0]])
        states: list[Value] = []
        for step in range(x.shape[1]):
            gates = shares[:, step] + tf.matmul(hidden, recurrent)
            i, f, g, o = tf.split(gates, 4, axis=-1)
            cell = tf.sigmoid(f) * cell + tf.sigmoid(i) * tf.tanh(g)
            hidden = tf.sigmoid(o) * tf.tanh(cell)
            states.append(hidden)
        return tf.stack(states, axis=1)
