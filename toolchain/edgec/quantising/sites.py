"""Which convolutions and products of a program can be computed in bytes, and what their values are.

A module imported only by what rewrites programs; it needs the compiler.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from iree.compiler import ir

from edgec.quantising.layers import Kept
from edgec.toolchain.ir.fold import Constants
from edgec.toolchain.ir.functions import inside
from edgec.toolchain.ir.places import source_line
from edgec.toolchain.ir.read import (
    convolution_layout,
    element_type,
    integers,
    is_dynamic,
    numbers_of,
    shape_of,
)

__all__ = ["Site", "find_sites"]

_Array = np.ndarray[Any, np.dtype[Any]]
_MOVES = ("stablehlo.reshape", "stablehlo.transpose", "stablehlo.pad", "stablehlo.slice")
_LEAST = 4096
"""Weights of a product below which it stays as it is."""


@dataclass(frozen=True, kw_only=True)
class Site:
    """A convolution or product by weights that are constants.

    Attributes:
        number: which of the program's convolutions and products, from 0.
        op: the operation.
        where: the user's line.
        weights: as the operation takes them.
        axis: of the weights, which counts outputs.
        value: what its left side is moved from: the value that becomes bytes.
        layer: the same for all that are one in the model: the bodies of a loop through a batch
            multiply by the same weights for several examples and for one.
    """

    number: int
    op: Any
    where: str
    weights: _Array
    axis: int
    value: Any
    layer: Any

    @property
    def what(self) -> str:
        """In a few words: `3 x 3 x 16 x 32`."""
        return " x ".join(map(str, self.weights.shape))


def find_sites(module: Any) -> tuple[list[Site], list[Kept]]:
    """The sites of a module whose calls are inlined, in order, and what stays as it is."""
    known = Constants()
    sites: list[Site] = []
    kept: dict[tuple[str, str], Kept] = {}
    counts: dict[Any, int] = {}
    for number, op in enumerate(_operations(module)):
        where = source_line(op) or "a line that the framework did not keep"
        found = _weights_of(op, known)
        if isinstance(found, str):
            what = " by ".join(_sizes(operand) for operand in op.operands)
            kept.setdefault((where, what), Kept(where=where, what=what, reason=found))
            continue
        weights, axis = found
        value = moved_from(op.operands[0], known)
        twin = (op.parent, where, axis, weights.shape, hashlib.sha256(weights.tobytes()).digest())
        count = counts[twin] = counts.get(twin, -1) + 1
        sites.append(
            Site(
                number=number,
                op=op,
                where=where,
                weights=weights,
                axis=axis,
                value=value,
                layer=(*twin[1:], count),
            )
        )
    return sites, list(kept.values())


def _operations(module: Any) -> Iterator[Any]:
    names = ("stablehlo.convolution", "stablehlo.dot_general")
    return (op for op in inside(module.operation) if op.name in names)


def _weights_of(op: Any, known: Constants) -> tuple[_Array, int] | str:
    """An operation's weights and the axis of their outputs, or why it stays in floats."""
    left, right = op.operands
    kinds = {str(element_type(each)) for each in (left, right, *op.results)}
    if kinds != {"f32"}:
        return f"of {' and '.join(sorted(kinds))}"
    if is_dynamic(left):
        return "of a size chosen at each call, which no kernel reads in bytes"
    weights = known.of(right)
    if weights is None:
        if isinstance(moved_from(right, known).owner, ir.Block):
            return "weights that are no constants: kernels of bytes read those in the program"
        return "both sides are computed" if known.of(left) is None else "weights on its left side"
    if known.of(left) is not None:
        return "both sides are constants"
    if op.name == "stablehlo.dot_general":
        axis = _axis_of_product(op)
        if axis is None:
            return "a product of another form than rows by a matrix"
        return "fewer than 4,096 weights" if weights.size < _LEAST else (weights, axis)
    _, kernel, _ = convolution_layout(op)
    axis = kernel.index("o")
    groups = integers(op, "feature_group_count", (1,))[0]
    if groups > 1 and weights.shape[kernel.index("i")] != 1:
        return f"a convolution in {groups} groups: no kernel reads bytes there"
    return weights, axis


def _axis_of_product(op: Any) -> int | None:
    numbers = numbers_of(op.attributes["dot_dimension_numbers"])
    summed = [numbers.get(f"{side}_contracting_dimensions", []) for side in ("lhs", "rhs")]
    rank = len(shape_of(op.operands[0]))
    plain = summed[0] == [rank - 1] and len(summed[1]) == 1 and len(shape_of(op.operands[1])) == 2
    if numbers.get("lhs_batching_dimensions") or not plain:
        return None
    return 1 - summed[1][0]


def moved_from(value: Any, known: Constants) -> Any:
    """The value whose elements, and zeros around them, another's are."""
    while not isinstance(value.owner, ir.Block):
        op = value.owner.operation
        if op.name not in _MOVES or (op.name == "stablehlo.pad" and known.number(op.operands[1])):
            break
        value = op.operands[0]
    return value


def _sizes(value: Any) -> str:
    return " x ".join("?" if size is None else str(size) for size in shape_of(value))
