"""Element-wise operations by one name each, and what they give, in NumPy.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from iree.compiler import ir

from edgec.toolchain.ir.read import call_target

__all__ = ["COMPARISONS", "ELEMENTWISE", "computed_from", "direction", "elementwise", "has_corner"]

_Array = np.ndarray[Any, np.dtype[Any]]


def _divide(x: _Array, y: _Array) -> _Array:
    """The quotient; of integers its whole part."""
    if np.issubdtype(np.asarray(x).dtype, np.integer):
        return np.asarray(np.trunc(x / np.where(y == 0, 1, y)), np.asarray(x).dtype)
    return np.asarray(np.divide(x, y))


def _logistic(x: _Array) -> _Array:
    return np.asarray(np.exp(-np.logaddexp(0.0, -x)))


def _nearest_away(x: _Array) -> _Array:
    return np.asarray(np.copysign(np.floor(np.abs(x) + 0.5), x))


ELEMENTWISE: Mapping[str, Callable[..., Any]] = {
    "abs": np.abs,
    "add": np.add,
    "and": np.bitwise_and,
    "atan2": np.arctan2,
    "cbrt": np.cbrt,
    "ceil": np.ceil,
    "clamp": lambda low, x, high: np.minimum(np.maximum(x, low), high),
    "cosine": np.cos,
    "divide": _divide,
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "erfc": np.vectorize(math.erfc, otypes=[np.float64]),
    "exponential": np.exp,
    "exponential_minus_one": np.expm1,
    "floor": np.floor,
    "is_finite": np.isfinite,
    "log": np.log,
    "log_plus_one": np.log1p,
    "logistic": _logistic,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "multiply": np.multiply,
    "negate": np.negative,
    "not": np.invert,
    "or": np.bitwise_or,
    "power": np.power,
    "remainder": np.fmod,
    "round_nearest_afz": _nearest_away,
    "round_nearest_even": np.rint,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "select": lambda test, x, y: np.where(test, x, y),
    "sign": np.sign,
    "sine": np.sin,
    "sqrt": np.sqrt,
    "subtract": np.subtract,
    "tan": np.tan,
    "tanh": np.tanh,
    "xor": np.bitwise_xor,
}
"""By name without dialect; `compare` and `convert` have attributes and stand apart."""

_MOVES = ("stablehlo.broadcast_in_dim", "stablehlo.reshape", "stablehlo.transpose")
_BITS = tuple(
    f"stablehlo.{name}"
    for name in ("bitcast_convert", "shift_left", "shift_right_arithmetic", "shift_right_logical")
)
COMPARISONS: Mapping[str, Callable[..., Any]] = {
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
    "EQ": np.equal,
    "NE": np.not_equal,
}
"""What a `stablehlo.compare` asks, by `direction`."""

_CORNERS = frozenset(
    {
        *("abs", "ceil", "clamp", "compare", "floor", "maximum", "minimum", "remainder"),
        *("round_nearest_afz", "round_nearest_even", "select", "sign"),
    }
)


def elementwise(op: Any) -> str | None:
    """An operation's name without its dialect, if it is element-wise; also of calls of `erf`."""
    name = str(call_target(op) or op.name)
    dialect, _, word = name.partition(".")
    if dialect not in ("stablehlo", "chlo", "mhlo"):
        return None
    return word if word in ELEMENTWISE or word in ("compare", "convert") else None


def computed_from(value: Any) -> Iterator[Any]:
    """A value and all those that it is computed from element by element, seen through moves."""
    seen = set()
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if each in seen:
            continue
        seen.add(each)
        yield each
        if isinstance(each.owner, ir.Block):
            continue
        op = each.owner.operation
        if elementwise(op) is not None or op.name in (*_MOVES, *_BITS):
            waiting += op.operands


def has_corner(name: str) -> bool:
    """Whether an element-wise operation is not smooth: samples of it prove nothing."""
    return name in _CORNERS


def direction(op: Any) -> str:
    """What a `stablehlo.compare` asks: LT, LE, GT, GE, EQ or NE."""
    text = str(op.attributes["comparison_direction"])
    found = re.search(r"\b(EQ|NE|LT|LE|GT|GE)\b", text)
    if found is None:
        raise ValueError(f"unreadable comparison: {text}")
    return found[1]
