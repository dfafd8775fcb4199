"""Slices and paddings that begin between vectors, in kernels of their own, for GPUs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["SeparateSlices"]

_NAMES = ("stablehlo.slice", "stablehlo.dynamic_slice", "stablehlo.pad")
_BYTES = 16
"""What a thread reads and writes at once at most, unless four elements are more."""


@dataclass(frozen=True, kw_only=True)
class SeparateSlices:
    """A slice, or what is padded, that begins between two vectors has a kernel of its own.

    Where an array's rows are whole vectors of 2 or 4 elements, iree-compile 3.13 lets a SPIR-V
    kernel that computes with a slice of it read vectors, and rounds the slice's beginning down to
    one of them: `sin(x[:, 2:66])` of rows of 72 is the sine of `x[:, 0:64]`. It writes likewise
    what is computed and then padded (`pad(relu(x), 2)` of rows of 64), and rounds beginnings that
    only the call knows. A barrier behind such a slice, or before such a padding, makes it a kernel
    that copies, which is right; one that begins with a whole vector stays where it is used.

    Measured on llvmpipe: of 240 slices, paddings and joins of random sizes, each with a function or
    a product, 7 are wrong without it and none with it.
    """

    name = "separate-slices"
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "SeparateSlices | None":
        """For programs in StableHLO with slices or paddings that become SPIR-V."""
        if not situation.target.is_spirv:
            return None
        return cls() if situation.operations & {*_NAMES} else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many values were fenced."""
        from edgec.toolchain.ir import write as graph

        with module.context:
            found = [op for op in graph.inside(module.operation) if op.name in _NAMES]
            return sum(_separate(op) for op in found)


def _separate(op: Any) -> bool:
    """Put a barrier where one is needed; whether it was."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    (result,) = op.results
    with op.location:
        if op.name == "stablehlo.pad":
            value = op.operands[0]
            low = graph.integers(op, "edge_padding_low")
            if _is_whole(result, value, low) or _is_given(value):
                return False
            with ir.InsertionPoint(op):
                op.operands[0] = graph.fence(value)
            return True
        if op.name == "stablehlo.slice":
            starts: Sequence[int | None] = graph.integers(op, "start_indices")
        else:
            starts = [_known(value) for value in op.operands[1:]]
        if _is_whole(op.operands[0], result, starts) or _is_returned(result):
            return False
        with ir.InsertionPoint(op):
            copy = op.clone()
            fenced = graph.fence(copy.results[0])
        result.replace_all_uses_with(fenced)
    op.erase()
    return True


def _is_whole(around: Any, inside: Any, starts: Sequence[int | None]) -> bool:
    """Whether a part of an array lies in it vector by vector, however wide these are."""
    outer, inner = (_sizes(value) for value in (around, inside))
    first = next((axis for axis, size in enumerate(outer) if size != 1), len(outer))
    if outer[first + 1 :] == inner[first + 1 :] and None not in starts:
        # All of each row: one piece of memory, which the compiler does not compute in.
        return True
    most = max(4, _BYTES // _width(around))
    for axis, start in enumerate(starts):
        row = math.prod(outer[axis + 1 :])
        width = most
        while width > 1:
            ends = outer[axis] * row % width == 0 and inner[axis] * row % width == 0
            if ends and start != 0 and (row if start is None else start * row) % width:
                return False
            width //= 2
    return True


def _sizes(value: Any) -> list[int]:
    """The sizes of an array; 0, of which every width is a divisor, for those that are open."""
    from iree.compiler import ir

    type_ = ir.RankedTensorType(value.type)
    return [
        0 if type_.is_dynamic_dim(axis) else type_.get_dim_size(axis) for axis in range(type_.rank)
    ]


def _width(value: Any) -> int:
    """Bytes of an element, at least one."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    kind = graph.element(value)
    bits = 2 * kind.element_type.width if isinstance(kind, ir.ComplexType) else kind.width
    return max(int(bits) // 8, 1)


def _known(value: Any) -> int | None:
    """The number that a start is, if the program says it."""
    from iree.compiler import ir

    op = value.owner
    if isinstance(op, ir.Block) or op.name != "stablehlo.constant":
        return None
    return int(ir.DenseIntElementsAttr(op.attributes["value"])[0])


def _is_given(value: Any) -> bool:
    """Whether a value is an argument, which no kernel of this block makes."""
    from iree.compiler import ir

    return isinstance(value.owner, ir.Block)


def _is_returned(value: Any) -> bool:
    """Whether nothing computes with a value."""
    return all(use.owner.name.endswith(".return") for use in value.uses)
