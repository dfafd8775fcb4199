"""`stablehlo.gather` and `stablehlo.scatter` in NumPy.

A module imported only by what runs it; it needs the compiler.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from edgec.toolchain.ir.evaluate import NotEvaluated
from edgec.toolchain.ir.read import integers, numbers_of

__all__ = ["gathered", "scattered"]

_Array = np.ndarray[Any, np.dtype[Any]]


def gathered(op: Any, operand: _Array, indices: _Array, given: _Array | None = None) -> _Array:
    """Slices of an operand where indices say; those that would leave it are moved inside.

    Args:
        op: the operation.
        operand: what is read.
        indices: where.
        given: the sizes of a slice, where they are no attribute.
    """
    numbers = numbers_of(op.attributes["dimension_numbers"])
    sizes = integers(op, "slice_sizes") if given is None else given.tolist()
    offsets = numbers.get("offset_dims", [])
    places = _places(
        operand.shape,
        indices,
        sizes,
        axis=numbers.get("index_vector_dim", [0])[0],
        where=numbers.get("start_index_map", []),
        batching=(
            numbers.get("operand_batching_dims", []),
            numbers.get("start_indices_batching_dims", []),
        ),
        clamp=True,
    )
    result = operand[tuple(places)]
    batch = result.ndim - len(sizes)
    dropped = [*numbers.get("collapsed_slice_dims", []), *numbers.get("operand_batching_dims", [])]
    result = result.squeeze(tuple(batch + axis for axis in dropped))
    order = [axis for axis in range(result.ndim) if axis not in offsets]
    wanted = np.empty(result.ndim, int)
    wanted[order] = range(batch)
    wanted[offsets] = range(batch, result.ndim)
    return result.transpose(wanted)


def scattered(
    op: Any, operands: Sequence[_Array], combine: Callable[[list[_Array]], list[_Array]]
) -> list[_Array]:
    """An operand with updates where indices say; what would leave it is left out.

    Args:
        op: the operation.
        operands: what is updated, indices, updates.
        combine: from what was there and an update to what is there then, for many places at once.
    """
    if len(operands) != 3:
        raise NotEvaluated("a scatter of several tensors")
    operand, indices, updates = operands
    numbers = numbers_of(op.attributes["scatter_dimension_numbers"])
    windows = numbers.get("update_window_dims", [])
    inserted = numbers.get("inserted_window_dims", [])
    batching = numbers.get("input_batching_dims", [])
    kept = [axis for axis in range(operand.ndim) if axis not in (*inserted, *batching)]
    sizes = [1] * operand.ndim
    for axis, window in zip(kept, windows, strict=True):
        sizes[axis] = updates.shape[window]
    places = _places(
        operand.shape,
        indices,
        sizes,
        axis=numbers.get("index_vector_dim", [0])[0],
        where=numbers.get("scatter_dims_to_operand_dims", []),
        batching=(batching, numbers.get("scatter_indices_batching_dims", [])),
        clamp=False,
    )
    outer = [axis for axis in range(updates.ndim) if axis not in windows]
    whole = updates.transpose([*outer, *windows])
    shape = np.broadcast_shapes(*(each.shape for each in places))
    whole = whole.reshape(shape)
    flat = [np.broadcast_to(each, shape).reshape(-1) for each in places]
    inside = np.all(
        [(each >= 0) & (each < size) for each, size in zip(flat, operand.shape, strict=True)], 0
    )
    result = operand.copy()
    values = whole.reshape(-1)[inside]
    at = np.ravel_multi_index([each[inside] for each in flat], operand.shape)
    target = result.reshape(-1)
    # Places that come more than once are updated one after the other, round by round.
    while at.size:
        first = np.unique(at, return_index=True)[1]
        (target[at[first]],) = combine([target[at[first]], values[first]])
        rest = np.ones(at.size, bool)
        rest[first] = False
        at, values = at[rest], values[rest]
    return [result]


def _places(
    shape: Sequence[int],
    indices: _Array,
    sizes: Sequence[int],
    *,
    axis: int,
    where: Sequence[int],
    batching: tuple[Sequence[int], Sequence[int]],
    clamp: bool,
) -> list[_Array]:
    """For each axis of an operand, which of it each element of the slices is.

    The arrays broadcast against each other: axes of the indices, then the axes of a slice.
    """
    if axis == indices.ndim:
        indices = indices[..., None]
    starts = np.moveaxis(indices, axis, -1).astype(np.int64)
    batch = starts.shape[:-1]
    found = []
    for number, (size, whole) in enumerate(zip(sizes, shape, strict=True)):
        start = np.zeros(batch, np.int64)
        if number in where:
            start = starts[..., where.index(number)]
            if clamp:
                start = np.clip(start, 0, whole - size)
        elif number in batching[0]:
            # Which axis of the indices, once the one of the vectors is gone.
            own = batching[1][batching[0].index(number)]
            own -= own > axis
            start = start + np.arange(batch[own]).reshape(
                [-1 if each == own else 1 for each in range(len(batch))]
            )
        along = [1] * len(sizes)
        along[number] = size
        found.append(start.reshape(*batch, *[1] * len(sizes)) + np.arange(size).reshape(along))
    return found
