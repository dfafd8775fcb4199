"""A value that is rounded to bytes whose scale and zero point span it, as a program computes it.

ONNX' `DynamicQuantizeLinear`, written out: the least and the largest number, zero among them, are
255 steps apart; zero is a whole step, and so is every number.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from iree.compiler import ir

from edgec.toolchain.ir.elementwise import direction
from edgec.toolchain.ir.fold import splat
from edgec.toolchain.ir.read import element_type, made_by, shape_of
from edgec.toolchain.kernels.spec import Work
from edgec.toolchain.match.description import Array, Description

__all__ = ["LARGEST", "ByteRounding", "read_byte_rounding"]

LARGEST = 255
"""Bytes go from 0 to this."""


@dataclass(frozen=True, kw_only=True)
class ByteRounding(Description):
    """`x` to bytes: `clip(round(x / scale) + zero, 0, 255)`.

    Attributes:
        value: what is rounded, f32.
        bytes: the result, ui8.
        scale: of a step, an f32 without axes.
        zero: the byte that means zero, a ui8 without axes.
    """

    value: Any
    bytes: Any
    scale: Any
    zero: Any

    @property
    def size(self) -> int:
        """How many elements are rounded."""
        return math.prod(size or 0 for size in shape_of(self.value))

    @property
    def work(self) -> Work:
        """What it computes, and what must be read and written."""
        return Work(flops=6 * self.size, bytes=5 * self.size)

    def __str__(self) -> str:
        """In a few words: `rounding: 768 numbers to bytes`."""
        return f"rounding: {self.size} numbers to bytes"

    @property
    def operands(self) -> tuple[Any, ...]:
        """The value."""
        return (self.value,)

    @property
    def results(self) -> tuple[Any, ...]:
        """Bytes, scale and zero point."""
        return (self.bytes, self.scale, self.zero)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """The bytes, the scale and the zero point."""
        (value,) = inputs
        low, high = min(value.min(), 0.0), max(value.max(), 0.0)
        scale = (high - low) / LARGEST or 1.0
        zero = np.rint(np.clip(-low / scale, 0, LARGEST))
        whole = np.clip(np.rint(value / scale) + zero, 0, LARGEST)
        return (whole.astype(np.uint8), np.asarray(scale), np.asarray(zero, np.uint8))


def read_byte_rounding(op: Any) -> ByteRounding | None:
    """The rounding that a `stablehlo.convert` to ui8 ends; None of any other."""
    (bytes_,) = op.results
    held = made_by(op.operands[0], "clamp")
    if held is None or str(element_type(bytes_)) != "ui8" or not _is_held(held):
        return None
    if len(list(held.results[0].uses)) != 1 or None in shape_of(bytes_):
        return None
    total = made_by(held.operands[1], "add")
    rounded = None if total is None else made_by(total.operands[0], "round_nearest_even")
    steps = None if rounded is None else made_by(rounded.operands[0], "divide")
    if total is None or steps is None:
        return None
    value = steps.operands[0]
    scale, shift = _spread(steps.operands[1]), _spread(total.operands[1])
    widened = None if shift is None else made_by(shift, "convert")
    if scale is None or widened is None or not isinstance(element_type(value), ir.F32Type):
        return None
    zero = _as_it_is(widened.operands[0])
    low = _low_of(scale, value)
    if low is None or not _is_zero_point(zero, low, scale):
        return None
    return ByteRounding(value=value, bytes=bytes_, scale=scale, zero=zero)


def _low_of(scale: Any, value: Any) -> Any:
    """The least number of a value, if the scale is what its range is through 255; else None."""
    chosen = made_by(scale, "select")
    if chosen is None or splat(chosen.operands[1]) != 1.0:
        return None
    step, test = made_by(chosen.operands[2], "divide"), made_by(chosen.operands[0], "compare")
    if step is None or test is None or splat(step.operands[1]) != LARGEST:
        return None
    span = made_by(step.operands[0], "subtract")
    alike = direction(test) == "EQ" and test.operands[0] == step.operands[0]
    if span is None or not alike or splat(test.operands[1]) != 0.0:
        return None
    high, low = span.operands
    ends = _is_end(high, value, "maximum") and _is_end(low, value, "minimum")
    return low if ends else None


def _is_end(end: Any, value: Any, name: str) -> bool:
    """Whether a number is the largest or least of a value and zero."""
    op = made_by(end, name)
    if op is None or splat(op.operands[1]) != 0.0:
        return False
    found = op.operands[0]
    while found != value:
        reduced = made_by(found, "reduce")
        if reduced is None or len(reduced.results) != 1:
            return False
        first = splat(reduced.operands[1])
        inner = [op.operation.name for op in reduced.regions[0].blocks[0].operations]
        beyond = -math.inf if name == "maximum" else math.inf
        if first != beyond or inner != [f"stablehlo.{name}", "stablehlo.return"]:
            return False
        found = reduced.operands[0]
    return not shape_of(op.operands[0])


def _is_zero_point(zero: Any, low: Any, scale: Any) -> bool:
    """Whether a byte is what the least number is below zero, in steps."""
    narrow = made_by(zero, "convert")
    rounded = None if narrow is None else made_by(narrow.operands[0], "round_nearest_even")
    held = None if rounded is None else made_by(rounded.operands[0], "clamp")
    if str(element_type(zero)) != "ui8" or held is None or not _is_held(held):
        return False
    turned = made_by(held.operands[1], "negate")
    below = None if turned is None else made_by(turned.operands[0], "divide")
    return below is not None and list(below.operands) == [low, scale]


def _is_held(clamp: Any) -> bool:
    """Whether a clamp is to a byte's range."""
    return [splat(clamp.operands[place]) for place in (0, 2)] == [0, LARGEST]


def _spread(value: Any) -> Any:
    """The number without axes that a value repeats; None of any other."""
    op = made_by(value, "broadcast_in_dim")
    if op is None:
        return None if shape_of(value) else value
    return None if shape_of(op.operands[0]) else op.operands[0]


def _as_it_is(value: Any) -> Any:
    """A value before it was called signless, and unsigned again."""
    while (op := made_by(value, "bitcast_convert")) is not None:
        value = op.operands[0]
    return value
