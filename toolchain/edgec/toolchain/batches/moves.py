"""What operations do with examples that only make values or move them: rules as in `rules`.

A module imported only where it is needed; it takes the compiler's bindings.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from edgec.toolchain.batches.marked import Marked
from edgec.toolchain.batches.marks import Mark
from edgec.toolchain.ir.literal import literal
from edgec.toolchain.ir.read import numbers_of

__all__ = [
    "broadcast",
    "constant",
    "dynamic_slice",
    "dynamic_update",
    "gather",
    "iota",
    "pad",
    "reshape",
    "reshaped",
    "slice_",
    "transpose",
]


def constant(marked: Marked) -> bool:
    """The same for each example, whatever their number."""
    (mark,) = marked.results
    here, there = literal(marked.op), literal(marked.other)
    if mark is None or here is None or there is None or here.dtype.kind == "V":
        return False

    def by_example(numbers: np.ndarray) -> np.ndarray:
        shape = list(numbers.shape)
        shape[mark.axis : mark.axis + 1] = [-1, mark.each]
        return np.moveaxis(numbers.reshape(shape), mark.axis, 0)

    first = by_example(here)[0]
    return all(
        np.array_equal(each, first, equal_nan=each.dtype.kind in "fc")
        for numbers in (here, there)
        for each in by_example(numbers)
    )


def iota(marked: Marked) -> bool:
    """Counted along another axis."""
    (mark,) = marked.results
    return mark is not None and marked.numbers("iota_dimension") != [mark.axis]


def broadcast(marked: Marked) -> bool:
    """Repeated for each example, or by example where it was."""
    (result,), (operand,) = marked.results, marked.operands
    axes = marked.numbers("broadcast_dimensions")
    if result is None:
        return False
    if operand is not None:
        return replace(operand, axis=axes[operand.axis]) == result
    return result.axis not in axes or marked.shape(0)[axes.index(result.axis)] == 1


def reshape(marked: Marked) -> bool:
    """What lies before an example in memory stays before it."""
    (result,), (operand,) = marked.results, marked.operands
    return (
        result is not None
        and operand is not None
        and result == reshaped(marked.op, operand, result)
    )


def reshaped(op: Any, operand: Mark, result: Mark) -> Mark | None:
    """How a reshape's result counts examples: the same in memory; None where no axis does.

    Args:
        op: the operation.
        operand: how what it reads counts them.
        result: the axis of the result that grows with them.
    """
    shapes = [list(value.type.shape) for value in (op.operands[0], op.results[0])]
    outer, now = (
        math.prod(shape[: mark.axis]) for shape, mark in zip(shapes, (operand, result), strict=True)
    )
    before, rest = divmod(outer * operand.before, now)
    return None if rest or not before or result.total % before else result.going_through(before)


def transpose(marked: Marked) -> bool:
    """The axis goes where it is said to go."""
    (result,), (operand,) = marked.results, marked.operands
    if result is None or operand is None:
        return False
    source = marked.numbers("permutation")[result.axis]
    return source == operand.axis and replace(operand, axis=result.axis) == result


def slice_(marked: Marked) -> bool:
    """All examples, each cut alike."""
    (result,), (operand,) = marked.results, marked.operands
    if result is None or result != operand:
        return False
    axis = result.axis
    return marked.numbers("start_indices")[axis] == 0 and marked.numbers("strides")[axis] == 1


def pad(marked: Marked) -> bool:
    """Nothing before, between or behind examples."""
    (result,), (operand, filling) = marked.results, marked.operands
    if result is None or result != operand or filling is not None:
        return False
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    return not any(marked.numbers(name)[result.axis] for name in names)


def gather(marked: Marked) -> bool:
    """Looked up by each example's own numbers, or in each example's own table."""
    (result,), (table, indices) = marked.results, marked.operands
    if result is None:
        return False
    numbers = numbers_of(marked.op.attributes["dimension_numbers"])
    sizes = marked.numbers("slice_sizes")
    offsets = numbers.get("offset_dims", [])
    rank = len(marked.op.results[0].type.shape)
    own = [axis for axis in range(rank) if axis not in offsets]
    along = next(iter(numbers.get("index_vector_dim", [])), 0)
    by_index = [axis for axis in range(len(marked.shape(1))) if axis != along]
    tables, places = (
        numbers.get(name, []) for name in ("operand_batching_dims", "start_indices_batching_dims")
    )
    if table is None:
        return (
            indices is not None
            and indices.axis in by_index
            and result == replace(indices, axis=own[by_index.index(indices.axis)])
        )
    if indices is None:
        gone = {*numbers.get("collapsed_slice_dims", []), *tables}
        kept = [axis for axis in range(len(sizes)) if axis not in gone]
        return (
            table.axis in kept
            and sizes[table.axis] == marked.shape(0)[table.axis]
            and result == replace(table, axis=offsets[kept.index(table.axis)])
        )
    paired = (table.axis, indices.axis) in zip(tables, places, strict=True)
    return (
        paired
        and replace(table, axis=indices.axis) == indices
        and result == replace(indices, axis=own[by_index.index(indices.axis)])
    )


def dynamic_slice(marked: Marked) -> bool:
    """All examples, each cut alike at one place."""
    (result,), (operand, *starts) = marked.results, marked.operands
    return result is not None and result == operand and not any(starts)


def dynamic_update(marked: Marked) -> bool:
    """Written into each example alike at one place."""
    (result,), (operand, update, *starts) = marked.results, marked.operands
    return result is not None and result == operand == update and not any(starts)
