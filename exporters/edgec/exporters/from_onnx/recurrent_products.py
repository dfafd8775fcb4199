"""What a recurrent layer multiplies by its weights: as floats, or as bytes quantised on the spot.

ONNX Runtime's quantised layers (`com.microsoft.DynamicQuantizeLSTM`, which its dynamic quantisation
writes) round each left side to u8 whose scale and zero point span the values there are, all steps
of the input at once and the state step by step, and add products of bytes in i32. (With several
threads it rounds parts of a batch of states by themselves, as many as threads; here, as with one,
the batch is rounded together.)
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Weights"]

Write = Callable[[str, Sequence[str], int, Mapping[str, Any]], Sequence[str]]
"""Writes an operation: kind, inputs, how many outputs, attributes; the outputs."""

_F32 = 1
"""ONNX' number of f32."""


@dataclass(frozen=True, kw_only=True)
class Weights:
    """The right side of products.

    Attributes:
        value: the matrix, [width, columns].
        scale: where it holds bytes, what a step of them is, one number or one a column; or empty.
        zero: the byte that means zero, likewise; or empty.
    """

    value: str
    scale: str = ""
    zero: str = ""

    def times(self, write: Write, left: str) -> str:
        """The product of a value, [..., width], with the weights."""
        if not self.scale:
            (product,) = write("MatMul", [left, self.value], 1, {})
            return product
        rounded, step, middle = write("DynamicQuantizeLinear", [left], 3, {})
        operands = [rounded, self.value, middle, *([self.zero] if self.zero else [])]
        (whole,) = write("MatMulInteger", operands, 1, {})
        (wide,) = write("Cast", [whole], 1, {"to": _F32})
        (both,) = write("Mul", [step, self.scale], 1, {})
        (product,) = write("Mul", [wide, both], 1, {})
        return product
