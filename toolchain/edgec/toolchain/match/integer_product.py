"""A product of bytes, less a zero point, by a matrix of known integers, as a program computes it.

`(bytes - zero) x weights`, summed in i32: ONNX' `MatMulInteger` after `DynamicQuantizeLinear`, and
JAX' products of i8 with i32 results. Sums wrap, so that they are the same in any order.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.toolchain.ir.fold import Constants
from edgec.toolchain.ir.read import element_type, made_by, numbers_of, shape_of, unshaped
from edgec.toolchain.kernels.spec import Work
from edgec.toolchain.match.description import Array, Description

__all__ = ["IntegerProduct", "read_integer_product"]

_RANGES = {"i8": (-128, 127), "ui8": (0, 255)}


@dataclass(frozen=True, kw_only=True)
class IntegerProduct(Description):
    """[rows, inner] of bytes times [inner, outputs], dense on both sides.

    Attributes:
        rows: of the left side, all its axes but the last together.
        bytes: the left side's bytes, i8 or ui8, as many elements in the same order.
        zero: an i32 without axes that is taken from each byte; None for none.
        weights: the right side, integers of any type.
        value: the result, in i32.
    """

    rows: int
    bytes: Any
    zero: Any
    weights: Array
    value: Any

    @property
    def is_signed(self) -> bool:
        """Whether bytes go from -128 to 127, and not from 0 to 255."""
        return str(element_type(self.bytes)) == "i8"

    @property
    def work(self) -> Work:
        """What it computes, and what must be read and written."""
        inner, outputs = self.weights.shape
        return Work(
            flops=2 * self.rows * inner * outputs,
            bytes=self.rows * (inner + 4 * outputs) + inner * outputs,
        )

    def __str__(self) -> str:
        """In a few words: `product: 1 x 768 bytes by 768 x 3072 integers`."""
        inner, outputs = self.weights.shape
        return f"product: {self.rows} x {inner} bytes by {inner} x {outputs} integers"

    @property
    def operands(self) -> tuple[Any, ...]:
        """The bytes, and their zero point where there is one."""
        return (self.bytes,) if self.zero is None else (self.bytes, self.zero)

    @property
    def results(self) -> tuple[Any, ...]:
        """The sums."""
        return (self.value,)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """The sums of products, in i32."""
        left = inputs[0].astype(np.int64).reshape(self.rows, -1)
        if len(inputs) > 1:
            left = left - inputs[1].astype(np.int64)
        sums = left @ self.weights.astype(np.int64)
        return (sums.astype(np.int32).reshape([size or 0 for size in shape_of(self.value)]),)

    def inputs(self, rng: np.random.Generator) -> tuple[Array, ...]:
        """Every value that a byte has, and a zero point among them."""
        low, high = _RANGES[str(element_type(self.bytes))]
        kind = np.int8 if self.is_signed else np.uint8
        drawn = rng.integers(low, high + 1, [size or 0 for size in shape_of(self.bytes)])
        zero = np.asarray(rng.integers(low, high + 1), np.int32)
        return (drawn.astype(kind), zero)[: len(self.operands)]


def read_integer_product(op: Any, known: Constants) -> IntegerProduct | None:
    """The product of bytes that a `stablehlo.dot_general` is; None of any other."""
    left, right = op.operands
    (value,) = op.results
    if str(element_type(value)) != "i32" or len(shape_of(right)) != 2:
        return None
    if any(not size for each in (left, right, value) for size in shape_of(each)):
        return None
    numbers = numbers_of(op.attributes["dot_dimension_numbers"])
    summed = [numbers.get(f"{side}_contracting_dimensions", []) for side in ("lhs", "rhs")]
    if numbers.get("lhs_batching_dimensions") or len(summed[1]) != 1:
        return None
    if summed[0] != [len(shape_of(left)) - 1]:
        return None
    bytes_, zero = _bytes_and_zero(left)
    weights = known.of(right) if bytes_ is not None else None
    if weights is None:
        return None
    return IntegerProduct(
        rows=math.prod(size or 0 for size in shape_of(left)[:-1]),
        bytes=bytes_,
        zero=zero,
        weights=weights if summed[1] == [0] else weights.T,
        value=value,
    )


def _bytes_and_zero(value: Any) -> tuple[Any, Any]:
    """The bytes that a value is, and what is taken from each; (None, None) where it is none."""
    zero = None
    value = unshaped(value)
    difference = made_by(value, "subtract")
    if difference is not None:
        value, spread = unshaped(difference.operands[0]), difference.operands[1]
        wide = made_by(spread, "broadcast_in_dim")
        if wide is None or shape_of(wide.operands[0]):
            return None, None
        zero = wide.operands[0]
    widened = made_by(value, "convert")
    bytes_ = value if widened is None else widened.operands[0]
    if str(element_type(bytes_)) not in _RANGES:
        return None, None
    return bytes_, zero
