"""An operation of which some operand or result counts examples."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgec.toolchain.batches.marks import Mark
from edgec.toolchain.ir.read import integers

__all__ = ["SIZES", "Marked"]

Marks = Sequence[Mark | None]

SIZES = {
    "stablehlo.constant": ("value",),
    "stablehlo.slice": ("limit_indices",),
    "stablehlo.gather": ("slice_sizes",),
    "stablehlo.dynamic_slice": ("slice_sizes",),
}
"""The attributes that say sizes of a value, and so may differ along the examples' axis."""


@dataclass(frozen=True, kw_only=True)
class Marked:
    """An operation, and which axes of its operands and results count examples.

    Attributes:
        op: the operation.
        other: the same one in the program for another size.
        operands: the mark of each operand.
        results: the mark of each result.
    """

    op: Any
    other: Any
    operands: Marks
    results: Marks

    def shape(self, number: int) -> list[int]:
        """The shape of an operand."""
        return list(self.op.operands[number].type.shape)

    def numbers(self, name: str) -> list[int]:
        """An attribute of integers."""
        return integers(self.op, name)
