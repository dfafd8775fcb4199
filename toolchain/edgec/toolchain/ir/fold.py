"""Values that follow from constants alone to their numbers.

An axis along which nothing changes is kept as one element that is repeated (a stride of zero), so
that the tables of a large image cost no more than their rows and columns.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from iree.compiler import ir

from edgec.toolchain.ir.elementwise import COMPARISONS, direction
from edgec.toolchain.ir.literal import NUMPY, attribute_of, literal
from edgec.toolchain.ir.read import element_type, integers, shape_of
from edgec.toolchain.ir.reductions import MOST_ELEMENTS, least, reduced, reduced_windows

__all__ = ["Constants", "least", "repeated", "splat"]

_Array = np.ndarray[Any, np.dtype[Any]]


class Constants:
    """Numbers worked out so far."""

    def __init__(self) -> None:
        self._known: dict[Any, _Array | None] = {}

    def of(self, value: Any) -> _Array | None:
        """The numbers of a value, or None where it depends on anything but constants."""
        waiting = [value]
        while waiting:
            last = waiting[-1]
            if last in self._known:
                waiting.pop()
                continue
            missing = [v for v in _needed(last) if v not in self._known]
            if missing and not any(self._known.get(v, self) is None for v in _needed(last)):
                waiting += missing[:1]
                continue
            self._known[last] = self._work_out(last)
        return self._known[value]

    def number(self, value: Any) -> float | None:
        """The one number that a value is made of, or None."""
        if isinstance(value.owner, ir.Block):
            return None
        op = value.owner.operation
        if op.name in ("stablehlo.broadcast_in_dim", "stablehlo.reshape"):
            return self.number(op.operands[0])
        array = self.of(value)
        if array is None or not array.size:
            return None
        few = least(array)
        return float(few.flat[0]) if not (few != few.flat[0]).any() else None

    def _work_out(self, value: Any) -> _Array | None:
        if isinstance(value.owner, ir.Block) or None in shape_of(value):
            return None
        op = value.owner.operation
        sizes = [size or 0 for size in shape_of(value)]
        if op.name == "stablehlo.constant":
            return literal(op)
        kind = NUMPY.get(str(value.type.element_type))
        if kind is None or 0 in sizes or issubclass(kind, np.complexfloating):
            return None
        if op.name in ("stablehlo.iota", "stablehlo.dynamic_iota"):
            (axis,) = integers(op, "iota_dimension")
            wide = [sizes[axis] if i == axis else 1 for i in range(len(sizes))]
            return np.broadcast_to(np.arange(sizes[axis]).astype(kind).reshape(wide), sizes)
        operands = [self._known.get(operand) for operand in _needed(value)]
        known = [operand for operand in operands if operand is not None]
        if not known or len(known) != len(operands):
            return None
        with np.errstate(all="ignore"):
            if op.name in _MOVES:
                return _MOVES[op.name](op, known, sizes, kind)
            return _each(op, known, sizes, kind)


def _needed(value: Any) -> list[Any]:
    """The operands of a value that follows from them; none of a constant or an unknown one."""
    if isinstance(value.owner, ir.Block):
        return []
    op = value.owner.operation
    known = op.name in _MOVES or op.name in _EACH or op.name in _SPECIAL
    return list(op.operands) if known else []


# Element by element


def _divide(left: _Array, right: _Array) -> _Array | None:
    """Integers are divided towards zero."""
    if not np.issubdtype(left.dtype, np.integer):
        return np.asarray(left / right)
    if not right.all():
        return None
    return np.asarray((left - np.fmod(left, right)) // right)


def _remainder(left: _Array, right: _Array) -> _Array | None:
    if np.issubdtype(left.dtype, np.integer) and not right.all():
        return None
    return np.asarray(np.fmod(left, right))


def _add(left: _Array, right: _Array) -> _Array:
    return np.asarray(np.logical_or(left, right) if left.dtype == np.bool_ else left + right)


def _multiply(left: _Array, right: _Array) -> _Array:
    return np.asarray(np.logical_and(left, right) if left.dtype == np.bool_ else left * right)


_EACH: dict[str, Callable[..., _Array | None]] = {
    "stablehlo.add": _add,
    "stablehlo.subtract": lambda left, right: np.asarray(left - right),
    "stablehlo.multiply": _multiply,
    "stablehlo.divide": _divide,
    "stablehlo.remainder": _remainder,
    "stablehlo.maximum": np.maximum,
    "stablehlo.minimum": np.minimum,
    "stablehlo.negate": np.negative,
    "stablehlo.abs": np.abs,
    "stablehlo.sign": np.sign,
    "stablehlo.floor": np.floor,
    "stablehlo.ceil": np.ceil,
    "stablehlo.sqrt": np.sqrt,
    "stablehlo.rsqrt": lambda x: np.asarray(1 / np.sqrt(x.astype(np.float64))),
    "stablehlo.and": np.bitwise_and,
    "stablehlo.or": np.bitwise_or,
    "stablehlo.xor": np.bitwise_xor,
    "stablehlo.not": np.invert,
    "stablehlo.round_nearest_even": np.rint,
    "stablehlo.select": np.where,
    "stablehlo.clamp": lambda low, x, high: np.asarray(np.minimum(np.maximum(x, low), high)),
}
_OF_ONE = ("stablehlo.negate", "stablehlo.rsqrt", "stablehlo.sqrt")
_SPECIAL = ("stablehlo.convert", "stablehlo.compare")


def _each(op: Any, operands: Sequence[_Array], sizes: Sequence[int], kind: Any) -> _Array | None:
    few = [least(operand) for operand in operands]
    if math.prod(np.broadcast_shapes(*(each.shape for each in few))) > MOST_ELEMENTS:
        return None
    if op.name == "stablehlo.convert":
        (source,) = few
        whole = np.issubdtype(source.dtype, np.floating) and np.issubdtype(kind, np.integer)
        if whole and not (np.isfinite(source).all() and (np.abs(source) < 2.0**62).all()):
            return None
        result: Any = source.astype(kind)
    elif op.name == "stablehlo.compare":
        if "TOTALORDER" in str(op.attributes.get("compare_type", "")):
            return None
        result = COMPARISONS[direction(op)](*few)
    else:
        result = _EACH[op.name](*few)
    if result is None:
        return None
    return np.broadcast_to(np.asarray(result).astype(kind), sizes)


# Moves


def _broadcast(op: Any, sources: Sequence[_Array], sizes: Sequence[int], _: Any) -> _Array:
    (source,) = sources
    wide: list[int] = [1] * len(sizes)
    few = least(source)
    for axis, size in zip(integers(op, "broadcast_dimensions"), few.shape, strict=True):
        wide[axis] = size
    places = integers(op, "broadcast_dimensions")
    order = sorted(range(len(places)), key=places.__getitem__)
    return np.broadcast_to(few.transpose(order).reshape(wide), sizes)


def _reshape(op: Any, sources: Sequence[_Array], sizes: Sequence[int], _: Any) -> _Array | None:
    """Sizes of one come and go without a copy."""
    (source,) = sources
    if [n for n in source.shape if n != 1] == [n for n in sizes if n != 1]:
        wide = iter(
            n for n, all_ in zip(least(source).shape, source.shape, strict=True) if all_ > 1
        )
        return np.broadcast_to(
            least(source).reshape([next(wide) if size != 1 else 1 for size in sizes]), sizes
        )
    return np.asarray(source.reshape(sizes)) if source.size <= MOST_ELEMENTS else None


def _slice(op: Any, sources: Sequence[_Array], sizes: Sequence[int], _: Any) -> _Array:
    (source,) = sources
    starts, limits = integers(op, "start_indices"), integers(op, "limit_indices")
    strides = integers(op, "strides", [1] * len(starts))
    cut = tuple(slice(*each) for each in zip(starts, limits, strides, strict=True))
    return np.asarray(source[cut])


def _concatenate(op: Any, sources: Sequence[_Array], sizes: Sequence[int], _: Any) -> _Array | None:
    (axis,) = integers(op, "dimension")
    same = [all(source.strides[i] == 0 for source in sources) for i in range(len(sizes))]
    cut = tuple(slice(0, 1) if each and i != axis else slice(None) for i, each in enumerate(same))
    few = [source[cut] for source in sources]
    if sum(each.size for each in few) > MOST_ELEMENTS:
        return None
    return np.broadcast_to(np.concatenate(few, axis), sizes)


def _bitcast(op: Any, sources: Sequence[_Array], sizes: Sequence[int], kind: Any) -> _Array:
    return np.asarray(np.ascontiguousarray(sources[0]).view(kind).reshape(sizes))


_MOVES: dict[str, Callable[[Any, Sequence[_Array], Sequence[int], Any], _Array | None]] = {
    "stablehlo.broadcast_in_dim": _broadcast,
    "stablehlo.reshape": _reshape,
    "stablehlo.slice": _slice,
    "stablehlo.concatenate": _concatenate,
    "stablehlo.transpose": lambda op, sources, sizes, kind: sources[0].transpose(
        integers(op, "permutation")
    ),
    "stablehlo.reverse": lambda op, sources, sizes, kind: np.flip(
        sources[0], tuple(integers(op, "dimensions"))
    ),
    "stablehlo.bitcast_convert": _bitcast,
    "stablehlo.real": lambda op, sources, sizes, kind: np.real(sources[0]).astype(kind),
    "stablehlo.imag": lambda op, sources, sizes, kind: np.imag(sources[0]).astype(kind),
    "stablehlo.reduce": reduced,
    "stablehlo.reduce_window": reduced_windows,
}


def repeated(value: Any) -> Any:
    """The attribute of the element that a constant repeats everywhere; None if it does not.

    Complex numbers have none.
    """
    while not isinstance(value.owner, ir.Block):
        op = value.owner.operation
        if op.name in ("stablehlo.broadcast_in_dim", "stablehlo.reshape", "stablehlo.convert"):
            value = op.operands[0]
            continue
        if op.name != "stablehlo.constant":
            return None
        attribute = attribute_of(op)
        return None if attribute is None or not attribute.is_splat else attribute.get_splat_value()
    return None


def splat(value: Any) -> float | None:
    """The number that a constant of floats or integers repeats everywhere, if it is such a one."""
    number = repeated(value)
    if isinstance(number, ir.FloatAttr | ir.IntegerAttr | ir.BoolAttr):
        return float(number.value)
    return _of_number(value)


def _of_number(value: Any) -> float | None:
    """A function of one such constant, rounded to its type: `rsqrt` of 2, as PyTorch writes it."""
    if isinstance(value.owner, ir.Block):
        return None
    op = value.owner.operation
    function = _EACH[op.name] if op.name in _OF_ONE else None
    kind = NUMPY.get(str(element_type(value)))
    number = splat(op.operands[0]) if function is not None and kind is not None else None
    if function is None or number is None:
        return None
    with np.errstate(all="ignore"):
        return float(np.asarray(function(np.asarray(number, np.float64))).astype(kind))
