"""A product of rows by weights that are kept as integers in blocks, as a program computes it.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from edgec.toolchain.ir.read import element_type, numbers_of, shape_of
from edgec.toolchain.kernels.spec import Work
from edgec.toolchain.match.blocks import Blocks, read_blocks
from edgec.toolchain.match.description import Array, Description, draw
from edgec.toolchain.match.rounded_rows import RoundedRows, read_rounded_rows

__all__ = ["BlockProduct", "read_block_product"]

_BYTES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2}


@dataclass(frozen=True, kw_only=True)
class BlockProduct(Description):
    """[rows, inner] times the transpose of weights of [outputs, inner], dense on both sides.

    Attributes:
        rows: of the left side, all its axes but the last together.
        left: the left side, whose last axis is summed.
        weights: the right side.
        value: the result.
        rounded: how the left side is rounded before it is multiplied; None for not at all.
    """

    rows: int
    left: Any
    weights: Blocks
    value: Any
    rounded: RoundedRows | None = None

    @property
    def elements(self) -> tuple[str, str]:
        """The types of the left side and of the result."""
        return str(element_type(self.left)), str(element_type(self.value))

    @property
    def work(self) -> Work:
        """What it computes, and what must be read and written."""
        weights = self.weights
        left, result = (_BYTES.get(kind, 4) for kind in self.elements)
        return Work(
            flops=2 * self.rows * weights.outputs * weights.inner,
            bytes=self.rows * (weights.inner * left + weights.outputs * result) + weights.size,
        )

    def __str__(self) -> str:
        """In a few words: `product: 1 x 576 by 576 x 1536, int4 in groups of 32`."""
        inner, outputs = self.weights.inner, self.weights.outputs
        left = "" if self.rounded is None else " rounded to bytes"
        return f"product: {self.rows} x {inner}{left} by {inner} x {outputs}, {self.weights}"

    @property
    def in_bytes(self) -> "BlockProduct | None":
        """The product with the rounding of its left side; None where that is of other groups."""
        found = read_rounded_rows(self.left)
        if found is None or found.group != self.weights.group:
            return None
        return replace(self, left=found.value, rounded=found)

    @property
    def operands(self) -> tuple[Any, ...]:
        """The values that it reads."""
        return (self.left, *self.weights.values)

    @property
    def results(self) -> tuple[Any, ...]:
        """The value that it computes."""
        return (self.value,)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """The numbers of the result from those of the left side and of what is in memory."""
        left, *memory = inputs
        if self.rounded is not None:
            left = self.rounded.reference(left)
        product = left.reshape(self.rows, -1) @ self.weights.reference(*memory).T
        return (product.reshape([size or 0 for size in shape_of(self.value)]),)

    def inputs(self, rng: np.random.Generator) -> tuple[Array, ...]:
        """Codes of every value that a byte has, scales and least values of either sign."""
        left, codes, *numbers = self.operands
        drawn = rng.integers(-128, 128, [size or 0 for size in shape_of(codes)])
        return (draw(left, rng), drawn.astype(np.int8), *(draw(each, rng) for each in numbers))


def read_block_product(op: Any) -> BlockProduct | None:
    """The product by weights in blocks that a `stablehlo.dot_general` is; None of any other."""
    left, right = op.operands
    (value,) = op.results
    if any(not size for each in (left, right, value) for size in shape_of(each)):
        return None
    numbers = numbers_of(op.attributes["dot_dimension_numbers"])
    if numbers.get("lhs_batching_dimensions") or len(shape_of(right)) != 2:
        return None
    summed = [numbers.get(f"{side}_contracting_dimensions", []) for side in ("lhs", "rhs")]
    if summed[0] != [len(shape_of(left)) - 1] or len(summed[1]) != 1:
        return None
    weights = read_blocks(right, 1 - summed[1][0], summed[1][0])
    if weights is None:
        return None
    rows = math.prod(size or 0 for size in shape_of(left)[:-1])
    return BlockProduct(rows=rows, left=left, weights=weights, value=value)
