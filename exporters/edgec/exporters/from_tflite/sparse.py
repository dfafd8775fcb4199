"""A sparse constant of TensorFlow Lite, to all its numbers.

Its axes, and those of blocks inside them, are levels of a tree in some order. A level is dense, or
says for each node above it which places are there, as the rows of a compressed matrix do; leaves
are the values that the file holds. What is not there is 0.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["dense"]

_DENSE, _COMPRESSED = 0, 1


def dense(values: np.ndarray, shape: Sequence[int], sparsity: Any) -> np.ndarray:
    """All numbers of a constant.

    Args:
        values: those that the file holds, in order.
        shape: the constant's.
        sparsity: the file's `SparsityParametersT`.

    Raises:
        ValueError: the parts do not fit together.
    """
    order = [int(axis) for axis in sparsity.traversalOrder]
    blocks = [] if sparsity.blockMap is None else [int(axis) for axis in sparsity.blockMap]
    levels = list(sparsity.dimMetadata)
    if sorted(order) != list(range(len(shape) + len(blocks))) or len(levels) != len(order):
        raise ValueError("a sparse tensor has other axes than its shape")
    places = np.zeros((1, 0), np.int64)  # of each node, one at each level above it
    for level in levels:
        parents, here = _children(level, len(places))
        places = np.column_stack([places[parents], here])
    sizes = {order[at]: int(level.denseSize) for at, level in enumerate(levels)}
    columns = {axis: places[:, at] for at, axis in enumerate(order)}
    found = []
    for axis, size in enumerate(shape):
        index, step = columns[axis], 1
        # Blocks of an axis in their order, the innermost last.
        for number, of in enumerate(blocks, len(shape)):
            if of == axis:
                index, step = index * sizes[number] + columns[number], step * sizes[number]
        if size % step or np.any(index < 0) or np.any(index >= size):
            raise ValueError("a sparse tensor has places outside of its shape")
        found.append(index)
    if len(values) != len(places):
        raise ValueError(f"a sparse tensor has {len(values)} values for {len(places)} places")
    flat = np.zeros(math.prod(shape), values.dtype)
    flat[np.ravel_multi_index(found, tuple(shape))] = values
    return flat.reshape(tuple(shape))


def _children(level: Any, parents: int) -> tuple[np.ndarray, np.ndarray]:
    """The nodes of a level: whose child each is, and its place on the level's axis."""
    if int(level.format) == _DENSE:
        size = int(level.denseSize)
        return np.repeat(np.arange(parents), size), np.tile(np.arange(size), parents)
    if int(level.format) != _COMPRESSED:
        raise ValueError("a sparse tensor has a level of an unknown kind")
    ends = np.asarray(level.arraySegments.values, np.int64)
    here = np.asarray(level.arrayIndices.values, np.int64)
    counts = np.diff(ends)
    if len(ends) != parents + 1 or ends[0] or np.any(counts < 0) or ends[-1] != len(here):
        raise ValueError("a sparse tensor has segments that do not fit")
    return np.repeat(np.arange(parents), counts), here
