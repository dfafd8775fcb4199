"""A scatter that writes one window of its operand, each element once: where the window begins.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from iree.compiler import ir

from edgec.toolchain.ir.literal import literal
from edgec.toolchain.ir.read import element_type, integers, is_unsigned, shape_of

__all__ = ["Window", "find_window"]

_Array = np.ndarray[Any, np.dtype[np.int64]]
_MOST = 1 << 24
"""Elements of indices that are worked out."""


@dataclass(frozen=True, kw_only=True)
class Window:
    """`operand[start + offset + i] = update[i]` for all `i` in each dimension.

    Attributes:
        starts: for each dimension of the operand a number that is known at run time, or None.
        offsets: what is added to it; the sum is never out of bounds.
        axes: the axis of the update that lies along each dimension; None for a size of one.
        sizes: of the window.
    """

    starts: tuple[Any | None, ...]
    offsets: tuple[int, ...]
    axes: tuple[int | None, ...]
    sizes: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class _Places:
    """Whole numbers that are known but for one number added to all of them."""

    table: _Array
    start: Any | None = None


def find_window(op: Any) -> Window | None:
    """The window that a `stablehlo.scatter` writes; None where that is not known."""
    if len(op.operands) != 3 or not _sets(op):
        return None
    operand, indices, update = op.operands
    own, given = _sizes(operand), _sizes(update)
    if not own or 0 in own or 0 in given or len(own) * math.prod(given) > _MOST:
        return None
    columns = _columns(op, indices, own, given)
    if columns is None:
        return None
    starts, offsets, axes, sizes = [], [], [], []
    for dimension, places in enumerate(columns):
        along = _along(places.table)
        if along is None:
            return None
        axis, offset = along
        size = 1 if axis is None else given[axis]
        low, high = (0, 0) if places.start is None else _bounds(places.start)
        if low + offset < 0 or high + offset + size > own[dimension]:
            return None
        starts.append(places.start)
        offsets.append(offset)
        axes.append(axis)
        sizes.append(size)
    used = [axis for axis in axes if axis is not None]
    spread = [axis for axis, size in enumerate(given) if size > 1]
    if len(set(used)) != len(used) or set(used) != set(spread):
        return None
    return Window(
        starts=tuple(starts), offsets=tuple(offsets), axes=tuple(axes), sizes=tuple(sizes)
    )


def _sets(op: Any) -> bool:
    """Whether the new value takes the place of the old one."""
    (block,) = op.regions[0].blocks
    only = [each.operation for each in block.operations]
    return len(only) == 1 and list(only[0].operands) == [block.arguments[1]]


def _sizes(value: Any) -> list[int]:
    return [size or 0 for size in shape_of(value)]


def _columns(
    op: Any, indices: Any, own: Sequence[int], given: Sequence[int]
) -> list[_Places] | None:
    """For each dimension of the operand, where each element of the update goes."""
    from edgec.toolchain.ir.read import numbers_of

    numbers = numbers_of(op.attributes["scatter_dimension_numbers"])
    if numbers.get("input_batching_dims") or numbers.get("scatter_indices_batching_dims"):
        return None
    (vector,) = numbers.get("index_vector_dim") or [0]
    window = numbers.get("update_window_dims", [])
    kept = [d for d in range(len(own)) if d not in numbers.get("inserted_window_dims", [])]
    batch = [axis for axis in range(len(given)) if axis not in window]
    found = [_Places(table=np.zeros(given, np.int64)) for _ in own]
    for dimension, axis in zip(kept, window, strict=True):
        turned = [1] * len(given)
        turned[axis] = given[axis]
        rows = np.arange(given[axis]).reshape(turned)
        found[dimension] = _Places(table=found[dimension].table + rows)
    parts = _parts(indices, vector)
    scattered = numbers.get("scatter_dims_to_operand_dims", [])
    if parts is None or len(parts) != len(scattered):
        return None
    for dimension, places in zip(scattered, parts, strict=True):
        turned = [given[axis] if axis in batch else 1 for axis in range(len(given))]
        table = found[dimension].table + places.table.reshape(turned)
        found[dimension] = _Places(table=table, start=places.start)
    return found


def _parts(indices: Any, vector: int) -> list[_Places] | None:
    """The indices one by one: the columns of a concatenation, or of what is known as a whole."""
    sizes = _sizes(indices)
    if vector == len(sizes):
        whole = _read(indices)
        return None if whole is None else [whole]
    joined = _operation(indices)
    if joined is not None and joined.name == "stablehlo.concatenate":
        if integers(joined, "dimension") != [vector]:
            return None
        parts = [_read(operand) for operand in joined.operands]
        if any(part is None or part.table.shape[vector] != 1 for part in parts):
            return None
        return [part for part in parts if part is not None]
    whole = _read(indices)
    if whole is None:
        return None
    return [
        _Places(table=np.asarray(whole.table.take(column, vector)), start=whole.start)
        for column in range(sizes[vector])
    ]


def _along(table: _Array) -> tuple[int | None, int] | None:
    """The one axis along which a table counts up by one, and its first number."""
    offset = int(table.flat[0])
    if (table == offset).all():
        return None, offset
    for axis, size in enumerate(table.shape):
        turned = [1] * table.ndim
        turned[axis] = size
        if size > 1 and (table == offset + np.arange(size).reshape(turned)).all():
            return axis, offset
    return None


def _operation(value: Any) -> Any | None:
    owner = value.owner
    return owner.operation if isinstance(owner, ir.Operation | ir.OpView) else None


def _read(value: Any) -> _Places | None:
    """A value of whole numbers, but for one number."""
    sizes = _sizes(value)
    op = _operation(value)
    name = "" if op is None else op.name.removeprefix("stablehlo.")
    if op is not None and name == "constant":
        known = literal(op)
        if known is None or known.dtype.kind not in "iu":
            return None
        return _Places(table=known.astype(np.int64))
    if not sizes:
        return _Places(table=np.zeros((), np.int64), start=value)
    if op is None or name not in _READERS or 0 in sizes:
        return None
    operands = [] if name in _COUNTERS else [_read(operand) for operand in op.operands]
    known_operands = [each for each in operands if each is not None]
    if len(known_operands) != len(operands):
        return None
    return _combined(op, name, known_operands, sizes)


_COUNTERS = ("iota", "dynamic_iota")
_READERS = (*_COUNTERS, "add", "multiply", "convert", "reshape", "broadcast_in_dim", "transpose")


def _combined(
    op: Any, name: str, operands: Sequence[_Places], sizes: Sequence[int]
) -> _Places | None:
    """What one operation makes of whole numbers."""
    if name in _COUNTERS:
        turned = [1] * len(sizes)
        (axis,) = integers(op, "iota_dimension")
        turned[axis] = sizes[axis]
        return _Places(table=np.broadcast_to(np.arange(sizes[axis]).reshape(turned), sizes))
    first, *others = operands
    if name in ("add", "multiply"):
        (second,) = others
        if name == "multiply":
            if first.start is not None or second.start is not None:
                return None
            return _unwrapped(_Places(table=first.table * second.table), op.results[0])
        if first.start is not None and second.start is not None:
            return None
        start = second.start if first.start is None else first.start
        return _unwrapped(_Places(table=first.table + second.table, start=start), op.results[0])
    if name == "convert":
        # A narrower type could wrap.
        if not _holds(op.results[0], op.operands[0]):
            return None
        return first
    if name == "reshape":
        return _Places(table=first.table.reshape(sizes), start=first.start)
    if name == "transpose":
        order = integers(op, "permutation")
        return _Places(table=first.table.transpose(order), start=first.start)
    turned = [1] * len(sizes)
    for axis, size in zip(integers(op, "broadcast_dimensions"), first.table.shape, strict=True):
        turned[axis] = size
    return _Places(table=np.broadcast_to(first.table.reshape(turned), sizes), start=first.start)


def _unwrapped(places: _Places, value: Any) -> _Places | None:
    """What was computed, if the type of its value holds all of it."""
    low, high = (0, 0) if places.start is None else _bounds(places.start)
    least, most = _range(value)
    if least <= low + int(places.table.min()) and high + int(places.table.max()) <= most:
        return places
    return None


def _range(value: Any) -> tuple[int, int]:
    """The least and the largest number of a value's type."""
    kind = ir.IntegerType(element_type(value))
    if is_unsigned(kind):
        return 0, (1 << kind.width) - 1
    return -(1 << (kind.width - 1)), (1 << (kind.width - 1)) - 1


def _holds(wide: Any, narrow: Any) -> bool:
    """Whether a type of whole numbers holds all of another."""
    one, other = element_type(wide), element_type(narrow)
    if not isinstance(one, ir.IntegerType) or not isinstance(other, ir.IntegerType):
        return False
    if other.width == 1:
        return False
    return one.width > other.width or (
        one.width == other.width and is_unsigned(one) == is_unsigned(other)
    )


def _bounds(value: Any) -> tuple[int, int]:
    """Between which numbers a number lies, by the operations that made it and its type."""
    whole = _range(value)
    op = _operation(value)
    if op is None:
        return whole
    name = op.name.removeprefix("stablehlo.")
    if name == "constant":
        known = literal(op)
        return whole if known is None else (int(known.reshape(-1)[0]),) * 2
    if name == "clamp":
        low, middle, high = (_bounds(operand) for operand in op.operands)
        return max(low[0], min(middle[0], high[0])), min(high[1], max(middle[1], low[1]))
    if name in ("minimum", "maximum"):
        one, other = (_bounds(operand) for operand in op.operands)
        choose = min if name == "minimum" else max
        return choose(one[0], other[0]), choose(one[1], other[1])
    if name == "reshape" and math.prod(_sizes(op.operands[0])) == 1:
        return _bounds(op.operands[0])
    if name == "convert" and _holds(value, op.operands[0]):
        return _bounds(op.operands[0])
    return whole
