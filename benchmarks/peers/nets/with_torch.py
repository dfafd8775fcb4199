"""The words of models in PyTorch, run eagerly: channels first, torch's own layers."""

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - the name everybody knows

from benchmarks.peers.nets.net import Net, Value

__all__ = ["TorchNet"]

_ACTIVATIONS = {
    "relu": F.relu,
    "relu6": F.relu6,
    "silu": F.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "hard_sigmoid": F.hardsigmoid,
    "hard_swish": F.hardswish,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
}


class TorchNet(Net):
    """Values are tensors of `dtype`; weights are converted at their first use and kept."""

    channels_first = True

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        self._dtype = dtype
        self._kept: dict[tuple[int, str], tuple[np.ndarray, Value]] = {}

    def _w(self, array: np.ndarray, how: str = "") -> torch.Tensor:
        key = (id(array), how)
        if key not in self._kept:
            form = array
            if how == "kernel":
                form = np.moveaxis(array, (-1, -2), (0, 1))
            elif how == "transposed":
                # torch's transposed convolution turns the kernel round, JAX's does not.
                form = np.moveaxis(array[::-1, ::-1], (-2, -1), (0, 1))
            elif how == "matrix":
                form = array.T
            tensor = torch.from_numpy(np.ascontiguousarray(form)).to(self._dtype)
            self._kept[key] = (array, tensor)
        return self._kept[key][1]

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
        call = F.conv1d if kernel.ndim == 3 else F.conv2d
        return call(
            x,
            self._w(kernel, "kernel"),
            self._w(bias),
            stride=stride,
            padding=pad,
            groups=groups,
        )

    def up_conv(self, x: Value, kernel: np.ndarray, bias: np.ndarray) -> Value:
        return F.conv_transpose2d(x, self._w(kernel, "transposed"), self._w(bias), stride=2)

    def max_pool(self, x: Value, *, size: int, stride: int, pad: int = 0, space: int = 2) -> Value:
        call = F.max_pool1d if space == 1 else F.max_pool2d
        return call(x, size, stride, pad)

    def mean_space(self, x: Value) -> Value:
        return x.mean(dim=tuple(range(2, x.ndim)), keepdim=True)

    def join_channels(self, x: Value, y: Value) -> Value:
        return torch.cat([x, y], dim=1)

    def vector(self, x: Value, channels: int) -> Value:
        return x.reshape(1, channels)

    def tokens(self, x: Value, points: int, channels: int) -> Value:
        return x.flatten(2).transpose(1, 2)

    def image(self, x: Value) -> Value:
        return torch.movedim(x, 1, -1)

    def _other(self, y: Value | float) -> Value | float:
        return self._w(y) if isinstance(y, np.ndarray) else y

    def add(self, x: Value, y: Value | float) -> Value:
        return x + self._other(y)

    def mul(self, x: Value, y: Value | float) -> Value:
        return x * self._other(y)

    def div(self, x: Value, y: Value) -> Value:
        return x / y

    def sqrt(self, x: Value) -> Value:
        return torch.sqrt(x)

    def activate(self, x: Value, kind: str) -> Value:
        return _ACTIVATIONS[kind](x)

    def to_float(self, x: Value) -> Value:
        return x.to(self._dtype)

    def dense(self, x: Value, kernel: np.ndarray, bias: np.ndarray | None) -> Value:
        return F.linear(x, self._w(kernel, "matrix"), None if bias is None else self._w(bias))

    def matmul(self, x: Value, y: Value) -> Value:
        return torch.matmul(x, y)

    def softmax(self, x: Value) -> Value:
        return torch.softmax(x, dim=-1)

    def layer_norm(self, x: Value, scale: np.ndarray, bias: np.ndarray, epsilon: float) -> Value:
        return F.layer_norm(x, scale.shape, self._w(scale), self._w(bias), epsilon)

    def take(self, table: np.ndarray, ids: Value) -> Value:
        return F.embedding(ids, self._w(table))

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        return x.reshape(tuple(shape))

    def transpose(self, x: Value, axes: Sequence[int]) -> Value:
        return x.permute(tuple(axes))

    def concat(self, values: Sequence[Value | np.ndarray], axis: int) -> Value:
        return torch.cat([self._other(v) for v in values], dim=axis)

    def part(self, x: Value, axis: int, begin: int, end: int) -> Value:
        return x.narrow(axis, begin, end - begin)

    def total(self, x: Value, axis: int) -> Value:
        return x.sum(dim=axis, keepdim=True)

    def lstm(self, x: Value, kernel: np.ndarray, recurrent: np.ndarray, bias: np.ndarray) -> Value:
        width = recurrent.shape[0]
        zeros = torch.zeros(1, 1, width, dtype=x.dtype)
        weights = [self._w(kernel, "matrix"), self._w(recurrent, "matrix")]
        key = (id(bias), "none")
        if key not in self._kept:
            self._kept[key] = (bias, torch.zeros(4 * width, dtype=self._dtype))
        weights += [self._w(bias), self._kept[key][1]]
        states, _, _ = torch.lstm(x, (zeros, zeros), weights, True, 1, 0.0, False, False, True)
        return states
