"""The axes along which a value may differ, where what it is made of was repeated along others.

A module imported only by a pass that runs; it needs the compiler.
"""

from collections.abc import Collection
from typing import Any

from edgec.toolchain.ir.elementwise import ELEMENTWISE
from edgec.toolchain.ir.read import integers, maker, shape_of

__all__ = ["long_axes", "moved_back", "varying_axes"]

_BROADCASTS = ("stablehlo.broadcast_in_dim", "stablehlo.dynamic_broadcast_in_dim")
_PLAIN = frozenset({"stablehlo.convert", *(f"stablehlo.{name}" for name in ELEMENTWISE)})
_DEEPEST = 6
"""Operations that are followed from a value back to what is repeated."""


def long_axes(value: Any) -> frozenset[int]:
    """The axes of a tensor that have more than one element, or a size that only a call knows."""
    return frozenset(axis for axis, size in enumerate(shape_of(value)) if size != 1)


def varying_axes(value: Any, depth: int = _DEEPEST) -> frozenset[int]:
    """The axes of a tensor along which its elements may differ.

    Args:
        value: an `ir.Value` of a tensor type; one that is no broadcast, nor computed element by
            element of such ones, may differ along all of its axes.
        depth: how many operations may be followed.
    """
    whole = long_axes(value)
    name = maker(value)
    if not depth or not (name in _PLAIN or name in _BROADCASTS or name == "stablehlo.transpose"):
        return whole
    op = value.owner.operation
    inner = varying_axes(op.operands[0], depth - 1)
    if name in _BROADCASTS:
        places = integers(op, "broadcast_dimensions")
        return frozenset(places[axis] for axis in inner) & whole
    if name == "stablehlo.transpose":
        order = integers(op, "permutation")
        return frozenset(place for place, axis in enumerate(order) if axis in inner)
    for other in list(op.operands)[1:]:
        if inner == whole:
            break
        inner |= varying_axes(other, depth - 1)
    return inner & whole


def moved_back(op: Any, axes: Collection[int]) -> frozenset[int] | None:
    """The axes of what an operation moves that become these of its result; None if not told.

    Args:
        op: a conversion, a transpose, a reshape, or a broadcast that may only add axes.
        axes: some of the result's long axes.
    """
    (value,), (result,) = op.operands, op.results
    if op.name == "stablehlo.transpose":
        order = integers(op, "permutation")
        return frozenset(order[axis] for axis in axes)
    if op.name == "stablehlo.convert":
        return frozenset(axes)
    before, after = sorted(long_axes(value)), sorted(long_axes(result))
    if op.name == "stablehlo.broadcast_in_dim":
        places = integers(op, "broadcast_dimensions")
        if sorted(places[axis] for axis in before) != after:
            return None
        return frozenset(axis for axis in before if places[axis] in axes)
    if set(axes) == set(after):
        return frozenset(before)
    sizes, others = shape_of(value), shape_of(result)
    if [sizes[axis] for axis in before] != [others[axis] for axis in after]:
        return None
    return frozenset(before[after.index(axis)] for axis in axes)
