"""Slices and paddings that begin between vectors, in kernels of their own, for GPUs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["SeparateSlices"]

_READ = ("stablehlo.slice", "stablehlo.dynamic_slice")
_WRITTEN = ("stablehlo.pad", "stablehlo.dynamic_update_slice", "stablehlo.concatenate")
_BYTES = 16
"""What a thread reads and writes at once at most, unless four elements are more."""


@dataclass(frozen=True, kw_only=True)
class SeparateSlices:
    """A slice, or what is padded, that begins between two vectors has a kernel of its own.

    Where an array's rows are whole vectors of 2 or 4 elements, iree-compile 3.13 lets a SPIR-V
    kernel that computes with a slice of it read vectors, and rounds the slice's beginning down to
    one of them: `sin(x[:, 2:66])` of rows of 72 is the sine of `x[:, 0:64]`. It writes likewise
    what is computed and then padded (`pad(relu(x), 2)` of rows of 64) or put into another array,
    and rounds beginnings that only the call knows. A barrier behind such a slice, or before such a
    padding, makes it a kernel that copies, which is right; one that begins with a whole vector
    stays where it is used. A slice that is put into its own array is one, too: the compiler would
    read and write that in one kernel, which it refuses of bytes ("hal.interface.binding.subspan").

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
        return cls() if situation.operations & {*_READ, *_WRITTEN} else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many values were fenced."""
        from edgec.toolchain.ir import write as graph

        with module.context:
            found = list(graph.inside(module.operation))
            written = sum(_write(op) for op in found if op.name in _WRITTEN)
            return written + sum(_read(op) for op in found if op.name in _READ)


def _write(op: Any) -> int:
    """Put what is padded, or put into another array, aside where it needs it; how many values."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    (result,) = op.results
    if op.name == "stablehlo.pad":
        places = [(0, list[int | None](graph.integers(op, "edge_padding_low")))]
    elif op.name == "stablehlo.dynamic_update_slice":
        places = [(1, [_known(value) for value in op.operands[2:]])]
    else:
        places = _joined(op)
    count = 0
    for number, starts in places:
        value = op.operands[number]
        if not _is_of(op, value) and (_is_whole(result, value, starts) or _is_given(value)):
            continue
        with op.location, ir.InsertionPoint(op):
            piece = _is_piece(result, value)
            op.operands[number] = _aside(value) if piece else graph.fence(value)
        count += 1
    return count


def _is_of(update: Any, value: Any) -> bool:
    """Whether what is put into an array is a slice of that."""
    from iree.compiler import ir

    if update.name != "stablehlo.dynamic_update_slice":
        return False
    while not isinstance(value.owner, ir.Block):
        op = value.owner.operation
        if op.name in _READ:
            return bool(op.operands[0] == update.operands[0])
        if op.name != "stablehlo.reshape":
            break
        value = op.operands[0]
    return False


def _joined(op: Any) -> list[tuple[int, list[int | None]]]:
    """Where each value begins in what they are joined to."""
    from iree.compiler import ir

    axis = ir.IntegerAttr(op.attributes["dimension"]).value
    rank = ir.RankedTensorType(op.results[0].type).rank
    found, start = list[tuple[int, list[int | None]]](), 0
    for number, value in enumerate(op.operands):
        starts: list[int | None] = [0] * rank
        starts[axis] = start
        found.append((number, starts))
        start += _sizes(value)[axis]
    return found


def _aside(value: Any) -> Any:
    """A value in memory that is a little larger, and therefore copied from there.

    What is one piece of memory in another array, the compiler lets its kernel write there.
    """
    from edgec.toolchain.ir import write as graph

    sizes = graph.shape(value)
    more = [0] * len(sizes)
    more[_first(sizes)] = 1
    zero = graph.fill(0, (), graph.element(value))
    larger = graph.fence(graph.pad(value, zero, [0] * len(sizes), more))
    return graph.slice_(larger, [0] * len(sizes), sizes)


def _read(op: Any) -> bool:
    """Put a barrier behind a slice, if it needs one."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    if op.name == "stablehlo.slice":
        starts = list[int | None](graph.integers(op, "start_indices"))
    else:
        starts = [_known(value) for value in op.operands[1:]]
    (result,) = op.results
    whole = op.operands[0]
    copied = _is_piece(whole, result) and None not in starts
    if copied or _is_whole(whole, result, starts) or _is_returned(result):
        return False
    with op.location, ir.InsertionPoint(op):
        fenced = graph.fence(op.clone().results[0])
    result.replace_all_uses_with(fenced)
    op.erase()
    return True


def _is_whole(around: Any, inside: Any, starts: Sequence[int | None]) -> bool:
    """Whether a part of an array lies in it vector by vector, however wide these are.

    Of one piece it does not matter how large the array is: its kernel sees that piece alone.
    """
    outer, inner = (_sizes(value) for value in (around, inside))
    piece = _is_piece(around, inside)
    most = max(4, _BYTES // _width(around))
    for axis, start in enumerate(starts):
        row = math.prod(outer[axis + 1 :])
        width = most
        while width > 1:
            ends = inner[axis] * row % width == 0 and (piece or outer[axis] * row % width == 0)
            if ends and start != 0 and (row if start is None else start * row) % width:
                return False
            width //= 2
    return True


def _is_piece(around: Any, inside: Any) -> bool:
    """Whether a part of an array is one piece of its memory: all of each of its rows."""
    outer, inner = (_sizes(value) for value in (around, inside))
    first = _first(inner)
    return outer[first + 1 :] == inner[first + 1 :]


def _first(sizes: Sequence[int]) -> int:
    """The outermost axis of more than one element; the innermost where there is none."""
    return next((axis for axis, size in enumerate(sizes) if size != 1), len(sizes) - 1)


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
    from edgec.toolchain.ir.fold import splat

    number = splat(value)
    return None if number is None else int(number)


def _is_given(value: Any) -> bool:
    """Whether a value is an argument, which no kernel of this block makes."""
    from iree.compiler import ir

    return isinstance(value.owner, ir.Block)


def _is_returned(value: Any) -> bool:
    """Whether nothing computes with a value."""
    return all(use.owner.name.endswith(".return") for use in value.uses)
