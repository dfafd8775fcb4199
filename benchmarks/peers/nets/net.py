"""The words that models are written in; each framework says them in its own best way.

A model is one function over a `Net`. A `Net` decides how images lie in memory (channels last or
first), which of its operations says a word, and how weights are stored, so that every engine gets
the model in the form its users would write, and all compute the same function.

*Images* are feature maps (with 2 spatial axes) and signals (with 1); their axes are touched by
words for images only. All other values have the axes that the model gives them.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Input", "Net", "Value"]

Value = Any
"""What flows between operations: a tensor or the name of one, as the framework has it."""


@dataclass(frozen=True, kw_only=True)
class Input:
    """An input of a model.

    Attributes:
        name: unique in the model.
        shape: of images with the channels last.
        dtype: `float32` or `int32`.
        image: whether it is an image, which a framework may want with the channels first.
        below: for integers, the first number that is not drawn.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str = "float32"
    image: bool = False
    below: int = 2


class Net(ABC):
    """The words. Weights are NumPy arrays: kernels have axes (spatial..., in, out)."""

    channels_first = False
    """Whether images lie with their channels first."""

    def arrange(self, spec: Input, array: np.ndarray) -> np.ndarray:
        """An input as this framework wants it."""
        if spec.image and self.channels_first:
            return np.ascontiguousarray(np.moveaxis(array, -1, 1))
        return array

    # Images.

    @abstractmethod
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
        """Convolution of an image with 1 or 2 spatial axes, padded by `pad` on every side."""

    @abstractmethod
    def up_conv(self, x: Value, kernel: np.ndarray, bias: np.ndarray) -> Value:
        """Twice the size: transposed convolution with a kernel of 2 by 2 and stride 2."""

    @abstractmethod
    def max_pool(self, x: Value, *, size: int, stride: int, pad: int = 0, space: int = 2) -> Value:
        """Largest values of windows over `space` axes.

        Where there is padding, `x` is 0 or more, so zeros outside of the image count for nothing.
        """

    @abstractmethod
    def mean_space(self, x: Value) -> Value:
        """The mean over space, as an image of one point."""

    @abstractmethod
    def join_channels(self, x: Value, y: Value) -> Value:
        """Two images, one's channels after the other's."""

    @abstractmethod
    def vector(self, x: Value, channels: int) -> Value:
        """An image of one point as [1, channels]."""

    @abstractmethod
    def tokens(self, x: Value, points: int, channels: int) -> Value:
        """An image as a sequence [1, points, channels], row by row."""

    @abstractmethod
    def image(self, x: Value) -> Value:
        """An output that is an image."""

    # Elementwise.

    @abstractmethod
    def add(self, x: Value, y: Value | float) -> Value:
        """Sum, with broadcasting; `y` may be a number or an array."""

    @abstractmethod
    def mul(self, x: Value, y: Value | float) -> Value:
        """Product, with broadcasting; `y` may be a number or an array."""

    @abstractmethod
    def div(self, x: Value, y: Value) -> Value:
        """Quotient, with broadcasting."""

    @abstractmethod
    def sqrt(self, x: Value) -> Value:
        """Square root."""

    @abstractmethod
    def activate(self, x: Value, kind: str) -> Value:
        """One of relu, relu6, silu, sigmoid, tanh, hard_sigmoid, hard_swish, gelu, gelu_tanh."""

    @abstractmethod
    def to_float(self, x: Value) -> Value:
        """Integers as floats."""

    # Sequences.

    @abstractmethod
    def dense(self, x: Value, kernel: np.ndarray, bias: np.ndarray | None) -> Value:
        """The last axis times a matrix [in, out], and a bias."""

    @abstractmethod
    def matmul(self, x: Value, y: Value) -> Value:
        """Product of the last two axes."""

    @abstractmethod
    def softmax(self, x: Value) -> Value:
        """Over the last axis."""

    @abstractmethod
    def layer_norm(self, x: Value, scale: np.ndarray, bias: np.ndarray, epsilon: float) -> Value:
        """Over the last axis."""

    @abstractmethod
    def take(self, table: np.ndarray, ids: Value) -> Value:
        """Rows of a table."""

    @abstractmethod
    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        """The same values in row-major order."""

    @abstractmethod
    def transpose(self, x: Value, axes: Sequence[int]) -> Value:
        """Axis i of the result is axis axes[i]."""

    @abstractmethod
    def concat(self, values: Sequence[Value | np.ndarray], axis: int) -> Value:
        """One after the other along an axis."""

    @abstractmethod
    def part(self, x: Value, axis: int, begin: int, end: int) -> Value:
        """A slice of one axis."""

    @abstractmethod
    def total(self, x: Value, axis: int) -> Value:
        """The sum over an axis, which stays with size 1."""

    @abstractmethod
    def lstm(self, x: Value, kernel: np.ndarray, recurrent: np.ndarray, bias: np.ndarray) -> Value:
        """All hidden states [1, steps, width] of a sequence [1, steps, in], from zeros.

        Gates lie in the order input, forget, cell, output along the last axis of each array.
        """
