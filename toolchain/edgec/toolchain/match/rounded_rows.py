"""Rows that are rounded to bytes at every call, each group with a scale of its own, in a program.

`round(x / scale) * scale`, where a group's scale is its largest size through 127: what
`ir/write_rounded.py` writes and `edgec quantise --activations=int8` puts before products by blocks.

A module imported only by a pass that runs; it needs the compiler.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.toolchain.ir.fold import splat
from edgec.toolchain.ir.read import integers, made_by, shape_of, unshaped
from edgec.toolchain.match.expression import Array

__all__ = ["LARGEST", "SMALLEST", "RoundedRows", "read_rounded_rows"]

LARGEST = 127
"""Bytes go from -127 to this."""

SMALLEST = 1e-30
"""A group's largest size counts for no less, so that zeros have a scale, too."""

_CLOSE = 1e-6


@dataclass(frozen=True, kw_only=True)
class RoundedRows:
    """A value whose last axis is rounded in groups.

    Attributes:
        value: what is rounded; its elements lie as those of what was read, in other sizes.
        group: neighbours that share a scale.
    """

    value: Any
    group: int

    def reference(self, numbers: Array) -> Array:
        """What is left of the value's numbers."""
        grouped = numbers.reshape(*numbers.shape[:-1], -1, self.group)
        most = np.maximum(np.abs(grouped).max(-1, keepdims=True), SMALLEST)
        scale = most * np.float32(1 / LARGEST)
        return np.asarray((np.rint(grouped / scale) * scale).reshape(numbers.shape))


def read_rounded_rows(value: Any) -> RoundedRows | None:
    """What a value is the rounded numbers of; None where it is something else."""
    product = made_by(unshaped(value), "multiply")
    if product is None:
        return None
    steps, spread = product.operands
    rounded = made_by(steps, "round_nearest_even")
    parts = None if rounded is None else made_by(rounded.operands[0], "divide")
    if parts is None or parts.operands[1] != spread:
        return None
    grouped = parts.operands[0]
    sizes = [size or 0 for size in shape_of(grouped)]
    if len(sizes) < 2 or 0 in sizes or not _is_scale(spread, grouped, len(sizes) - 1):
        return None
    return RoundedRows(value=grouped, group=sizes[-1])


def _is_scale(spread: Any, grouped: Any, last: int) -> bool:
    """Whether a value is each group's largest size through 127, for all of the group."""
    wide = made_by(spread, "broadcast_in_dim")
    if wide is None or integers(wide, "broadcast_dimensions") != list(range(last)):
        return False
    scale = made_by(unshaped(wide.operands[0]), "multiply")
    if scale is None or not _is_about(splat(scale.operands[1]), 1 / LARGEST):
        return False
    most = made_by(scale.operands[0], "maximum")
    if most is None or not _is_about(splat(most.operands[1]), SMALLEST):
        return False
    reduced = made_by(unshaped(most.operands[0]), "reduce")
    if reduced is None or integers(reduced, "dimensions") != [last]:
        return False
    first = splat(reduced.operands[1])
    inner = [op.operation.name for op in reduced.regions[0].blocks[0].operations]
    if first is None or first > 0 or inner != ["stablehlo.maximum", "stablehlo.return"]:
        return False
    sizes = made_by(reduced.operands[0], "abs")
    return sizes is not None and sizes.operands[0] == grouped


def _is_about(number: float | None, wanted: float) -> bool:
    return number is not None and abs(number - wanted) <= _CLOSE * wanted
