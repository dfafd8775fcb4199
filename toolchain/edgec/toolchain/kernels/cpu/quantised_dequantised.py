"""Which f32 values are bytes times a scale, and which weights are bytes times a scale a channel.

A module imported only by a pass that runs; it needs the compiler.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from iree.compiler import ir

from edgec.toolchain.ir.fold import Constants
from edgec.toolchain.ir.read import element_type, integers, shape_of

__all__ = ["Bytes", "Dequantised", "Weights", "as_bytes", "dequantised", "is_of_bytes", "weights"]

_MOVES = ("stablehlo.reshape", "stablehlo.transpose", "stablehlo.pad", "stablehlo.slice")
_ROUNDED = "stablehlo.round_nearest_even"


@dataclass(frozen=True, kw_only=True)
class Bytes:
    """An f32 value that holds whole numbers from `low` to `high`, at most 255 apart."""

    value: Any
    low: int
    high: int


@dataclass(frozen=True, kw_only=True)
class Dequantised:
    """`(bytes - zero) * scale`, its elements moved about by `moves`, the last one first."""

    bytes: Bytes
    scale: float
    zero: int
    moves: tuple[Any, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Weights:
    """`bytes * scale`: the numbers of a convolution's or product's weights.

    Attributes:
        bytes: i8, the output channels last.
        scale: f32, one for each output channel.
    """

    bytes: np.ndarray[Any, np.dtype[np.int8]]
    scale: np.ndarray[Any, np.dtype[np.float32]]


def as_bytes(value: Any, known: Constants) -> Bytes | None:
    """A value that is clamped to a byte's range after it was rounded, or widened from bytes."""
    op = _owner(value)
    if op is None or not isinstance(element_type(value), ir.F32Type):
        return None
    if op.name == "stablehlo.convert":
        kind = str(op.operands[0].type.element_type)
        bounds = {"i8": (-128, 127), "ui8": (0, 255)}.get(kind)
        return None if bounds is None else Bytes(value=value, low=bounds[0], high=bounds[1])
    if op.name != "stablehlo.clamp":
        return None
    ends = [known.number(op.operands[i]) for i in (0, 2)]
    if None in ends or any(not float(end).is_integer() for end in ends if end is not None):
        return None
    low, high = (int(end) for end in ends if end is not None)
    if not 0 <= high - low <= 255 or not _is_whole(op.operands[1], known):
        return None
    return Bytes(value=value, low=low, high=high)


def _is_whole(value: Any, known: Constants) -> bool:
    op = _owner(value)
    if op is None:
        return False
    if op.name == _ROUNDED:
        return True
    if op.name not in ("stablehlo.add", "stablehlo.subtract"):
        return False
    number = known.number(op.operands[1])
    return number is not None and number == round(number) and _is_whole(op.operands[0], known)


def dequantised(value: Any, known: Constants) -> Dequantised | None:
    """What a value is in bytes; moves of its elements are looked through."""
    moves = []
    while (op := _owner(value)) is not None and op.name in _MOVES:
        if op.name == "stablehlo.pad" and not _is_border(op, known):
            return None
        moves.append(op)
        value = op.operands[0]
    scale, zero = 1.0, 0.0
    if op is not None and op.name in ("stablehlo.multiply", "stablehlo.divide"):
        number = known.number(op.operands[1])
        if not number:
            return None
        scale = number if op.name == "stablehlo.multiply" else 1 / number
        value = op.operands[0]
        op = _owner(value)
    if op is not None and op.name in ("stablehlo.subtract", "stablehlo.add"):
        number = known.number(op.operands[1])
        found = as_bytes(op.operands[0], known)
        if number is not None and found is not None and number == round(number):
            zero = number if op.name == "stablehlo.subtract" else -number
            value = op.operands[0]
    found = as_bytes(value, known)
    if found is None or not found.low <= zero <= found.high or scale <= 0:
        return None
    return Dequantised(bytes=found, scale=scale, zero=int(zero), moves=tuple(moves))


def is_of_bytes(op: Any, known: Constants) -> bool:
    """Whether both sides of a convolution or product are bytes times scales."""
    if dequantised(op.operands[0], known) is None:
        return False
    return any(weights(op.operands[1], known, turned) is not None for turned in (False, True))


def _is_border(op: Any, known: Constants) -> bool:
    """Whether a pad puts zeros around a value."""
    widths = integers(op, "edge_padding_low") + integers(op, "edge_padding_high")
    plain = min(widths) >= 0 and not any(integers(op, "interior_padding"))
    return plain and known.number(op.operands[1]) == 0


def weights(value: Any, known: Constants, turned: bool = False) -> Weights | None:
    """Weights whose every output channel is bytes times one number.

    The channels are the last axis, or the first of a matrix if that is `turned`.
    """
    turns: list[Any] = []
    while (op := _owner(value)) is not None and op.name in _TURNS:
        turns.append(op)
        value = op.operands[0]
    if op is None:
        return None
    if op.name == "stablehlo.multiply":
        parts = [known.of(operand) for operand in op.operands]
    else:  # whole numbers, whose sum is scaled
        whole = known.of(value)
        parts = [whole, None if whole is None else np.ones_like(whole)]
    if parts[0] is None or parts[1] is None:
        return None
    for one, other in ((parts[0], parts[1]), (parts[1], parts[0])):
        if (one == np.rint(one)).all() and one.min() >= -128 and one.max() <= 127:
            whole, scale = (_turned(array, turns) for array in (one, other))
            if turned:
                whole, scale = whole.T, scale.T
            flat = scale.reshape(-1, scale.shape[-1])
            if (flat == flat[0]).all() and (flat[0] > 0).all():
                return Weights(bytes=whole.astype(np.int8), scale=flat[0].astype(np.float32))
    return None


_TURNS = ("stablehlo.reshape", "stablehlo.transpose")


def _turned(array: Any, turns: Sequence[Any]) -> Any:
    for op in reversed(turns):
        if op.name == "stablehlo.transpose":
            array = array.transpose(integers(op, "permutation"))
        else:
            array = array.reshape([size or 0 for size in shape_of(op.results[0])])
    return array


def _owner(value: Any) -> Any:
    """The operation that makes a value; None for a block's argument."""
    owner = value.owner
    return None if isinstance(owner, ir.Block) else owner.operation
