"""A softmax that a program computes by itself: all of a tensor, along one axis.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from edgec.toolchain.ir.evaluate import between
from edgec.toolchain.ir.read import shape_of
from edgec.toolchain.ir.uses import only_user
from edgec.toolchain.ir.views import identity
from edgec.toolchain.kernels.spec import Work
from edgec.toolchain.match.description import Array, Description
from edgec.toolchain.match.softmax import plain, read_softmax

__all__ = ["SoftmaxAlong", "read_softmax_along"]


@dataclass(frozen=True, kw_only=True)
class SoftmaxAlong(Description):
    """`exp(x) / sum(exp(x))` along one axis, as if from large numbers no infinity came.

    Attributes:
        source: the scores.
        axis: along which shares sum to 1.
        safe: where all scores along it are minus infinity the result is 0, not NaN.
        value: the result, of the same shape.
    """

    source: Any
    axis: int
    safe: bool
    value: Any

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Elements before the axis, along it, and after it."""
        sizes = [size or 0 for size in shape_of(self.value)]
        first, last = sizes[: self.axis], sizes[self.axis + 1 :]
        return math.prod(first), sizes[self.axis], math.prod(last)

    @property
    def operands(self) -> tuple[Any, ...]:
        """The scores."""
        return (self.source,)

    @property
    def results(self) -> tuple[Any, ...]:
        """What a kernel stores."""
        return (self.value,)

    @property
    def operations(self) -> list[Any]:
        """What computes it in the program."""
        return between(self.results, self.operands)

    @property
    def work(self) -> Work:
        """The largest, a difference, a power, the sum and the share of each element."""
        count = math.prod(self.sizes)
        width = int(self.source.type.element_type.width) // 8
        return Work(flops=5 * count, bytes=2 * count * width)

    def __str__(self) -> str:
        """In a few words: `softmax: 784 x 196 x 1`."""
        return f"softmax: {' x '.join(map(str, self.sizes))}"

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """The shares."""
        (scores,) = inputs
        powers = np.exp(scores - scores.max(self.axis, keepdims=True))
        shares = powers / powers.sum(self.axis, keepdims=True)
        if self.safe:
            shares = np.where(np.isneginf(scores).all(self.axis, keepdims=True), 0.0, shares)
        return (shares,)


def read_softmax_along(divide: Any) -> SoftmaxAlong | None:
    """The softmax that a `stablehlo.divide` ends, or the choice of zeros after it."""
    shares = divide.results[0]
    sizes = shape_of(shares)
    if not all(sizes):
        return None
    values = [shares]
    user = only_user(shares)
    if user is not None and user.name == "stablehlo.select":
        values.insert(0, user.results[0])
    for value in values:
        for axis in range(len(sizes)):
            found = read_softmax(identity(value), axis) if (sizes[axis] or 0) > 1 else None
            if found is None or found.chosen is not None or found.source.type != value.type:
                continue
            if plain(replace(identity(value), value=found.source)) == found.scores:
                return SoftmaxAlong(source=found.source, axis=axis, safe=found.safe, value=value)
    return None
