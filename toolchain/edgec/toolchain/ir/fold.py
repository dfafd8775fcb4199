"""Values that follow from constants alone to their numbers.

A module imported only by a pass that runs; it needs the compiler.
"""

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from iree.compiler import ir

from edgec.toolchain.ir.read import integers, shape_of

__all__ = ["Constants", "repeated", "splat"]

_Array = np.ndarray[Any, np.dtype[Any]]
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "stablehlo.add": operator.add,
    "stablehlo.subtract": operator.sub,
    "stablehlo.multiply": operator.mul,
    "stablehlo.divide": operator.truediv,
}
_KINDS = {
    "f32": np.float32,
    "f64": np.float64,
    "i8": np.int8,
    "ui8": np.uint8,
    "i16": np.int16,
    "i32": np.int32,
}


class Constants:
    """Numbers worked out so far."""

    def __init__(self) -> None:
        self._known: dict[Any, _Array | None] = {}

    def of(self, value: Any) -> _Array | None:
        """The numbers of a value, or None where it depends on anything but constants."""
        if value not in self._known:
            self._known[value] = self._work_out(value)
        return self._known[value]

    def number(self, value: Any) -> float | None:
        """The one number that a value is made of, or None."""
        if isinstance(value.owner, ir.Block):
            return None
        op = value.owner.operation
        if op.name in ("stablehlo.broadcast_in_dim", "stablehlo.reshape"):
            return self.number(op.operands[0])
        array = self.of(value)
        if array is None or not array.size or (array != array.flat[0]).any():
            return None
        return float(array.flat[0])

    def _work_out(self, value: Any) -> _Array | None:
        if isinstance(value.owner, ir.Block) or None in shape_of(value):
            return None
        op = value.owner.operation
        if op.name == "stablehlo.constant":
            return _literal(op.attributes["value"], value.type)
        kind = _KINDS.get(str(value.type.element_type))
        if kind is None or op.name not in (*_BINARY, *_MOVES, "stablehlo.convert"):
            return None
        operands = []
        for operand in op.operands:
            operands.append(self.of(operand))
            if operands[-1] is None:
                return None
        if op.name in _BINARY:
            return np.asarray(_BINARY[op.name](*operands), kind)
        if op.name == "stablehlo.convert":
            return np.asarray(operands[0]).astype(kind)
        return _MOVES[op.name](op, operands[0], [size or 0 for size in shape_of(value)], kind)


def _literal(attribute: Any, kind: Any) -> _Array | None:
    wanted = _KINDS.get(str(kind.element_type))
    if wanted is None or not isinstance(attribute, ir.DenseElementsAttr):
        return None
    sizes = list(kind.shape)
    if attribute.is_splat:
        value = attribute.get_splat_value().value
        return np.broadcast_to(np.array(value).astype(wanted), sizes)
    return np.array(attribute).astype(wanted).reshape(sizes)


def _broadcast(op: Any, source: Any, sizes: Sequence[int], _: Any) -> _Array:
    wide = [1] * len(sizes)
    for axis, size in zip(integers(op, "broadcast_dimensions"), source.shape, strict=True):
        wide[axis] = size
    return np.broadcast_to(source.reshape(wide), sizes)


_MOVES: dict[str, Callable[[Any, Any, Sequence[int], Any], _Array]] = {
    "stablehlo.broadcast_in_dim": _broadcast,
    "stablehlo.reshape": lambda op, source, sizes, kind: source.reshape(sizes),
    "stablehlo.transpose": lambda op, source, sizes, kind: source.transpose(
        integers(op, "permutation")
    ),
    "stablehlo.reverse": lambda op, source, sizes, kind: np.flip(
        source, tuple(integers(op, "dimensions"))
    ),
    "stablehlo.bitcast_convert": lambda op, source, sizes, kind: (
        np.ascontiguousarray(source).view(kind).reshape(sizes)
    ),
}


def repeated(value: Any) -> Any:
    """The attribute of the element that a constant repeats everywhere; None if it does not."""
    while not isinstance(value.owner, ir.Block):
        op = value.owner.operation
        if op.name in ("stablehlo.broadcast_in_dim", "stablehlo.reshape", "stablehlo.convert"):
            value = op.operands[0]
            continue
        if op.name != "stablehlo.constant":
            return None
        attribute = op.attributes["value"]
        is_splat = isinstance(attribute, ir.DenseElementsAttr) and attribute.is_splat
        return attribute.get_splat_value() if is_splat else None
    return None


def splat(value: Any) -> float | None:
    """The number that a constant of floats or integers repeats everywhere, if it is such a one."""
    number = repeated(value)
    if isinstance(number, ir.FloatAttr | ir.IntegerAttr | ir.BoolAttr):
        return float(number.value)
    return None
