"""What follows a product element by element, where a kernel can do it before it stores.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from iree.compiler import ir

from edgec.toolchain.ir.fold import splat
from edgec.toolchain.ir.read import call_target, integers
from edgec.toolchain.ir.write import shape

__all__ = ["Tail", "find_tail", "row_of"]

_FLOATS = ("f16", "bf16", "f32")
_SPAN = 48


@dataclass(frozen=True, kw_only=True)
class Tail:
    """What a kernel does after its sum, in this order.

    Attributes:
        bias: one number a column, or None.
        gate: 0, or the number of a `gate` of the kernels.
        other: a tensor added after that, or None.
        relu: max(x, 0) at the end.
        last: the value that is stored; the product's own if nothing follows.
    """

    bias: Any = None
    gate: int = 0
    other: Any = None
    relu: bool = False
    last: Any

    @property
    def what(self) -> int:
        """The bits that tell the kernel; see `finish.py`."""
        wide = str(self.last.type.element_type) == "f32"
        return (
            (self.bias is not None)
            | (self.other is not None) << 1
            | wide << 2
            | self.relu << 3
            | self.gate << 8
        )


def find_tail(value: Any, element: Any, columns: int) -> Tail:
    """Follow a product's value as far as a kernel of `element` type can go along.

    Rounding in between is left out: the kernel keeps f32 until it stores.
    """
    tail = Tail(last=value)
    best = tail
    while True:
        following = _next(tail, columns, element)
        if following is None:
            return best
        tail = following
        if _is_widening(tail.last.owner.operation):
            continue  # Narrow values are cheaper to store, unless more follows.
        if str(tail.last.type.element_type) in (str(element), "f32"):
            best = tail


def _next(tail: Tail, columns: int, element: Any) -> Tail | None:
    """The tail with one more operation, or None."""
    if tail.relu:
        return None
    value = tail.last
    users = {use.owner.operation for use in value.uses}
    bias, gate, other = tail.bias, tail.gate, tail.other
    if len(users) == 1:
        (user,) = users
        if user.name == "stablehlo.reshape":
            return Tail(bias=bias, gate=gate, other=other, last=user.results[0])
        if user.name == "stablehlo.convert" and _is_float(user.results[0]):
            return Tail(bias=bias, gate=gate, other=other, last=user.results[0])
        if user.name == "stablehlo.add" and len(list(value.uses)) == 1:
            added = next(v for v in user.operands if v != value)
            row = row_of(added, columns)
            taken = row is not None and row.type.element_type == element
            if taken and bias is None and not gate:
                return Tail(bias=row, other=other, last=user.results[0])
            whole = _unrounded(added, element)
            if other is None and whole is not None and splat(added) is None:
                return Tail(bias=bias, gate=gate, other=whole, last=user.results[0])
    found = _activation(value)
    if found is None:
        return None
    number, last = found
    if number == 0:
        return Tail(bias=bias, gate=gate, other=other, relu=True, last=last)
    if gate or other is not None:
        return None
    return Tail(bias=bias, gate=number, last=last)


def _is_float(value: Any) -> bool:
    return str(value.type.element_type) in _FLOATS


def _unrounded(value: Any, element: Any) -> Any | None:
    """The value in the kernel's element type: itself, or what was widened to it."""
    if value.type.element_type == element:
        return value
    owner = value.owner
    if not isinstance(owner, ir.Block) and owner.operation.name == "stablehlo.convert":
        source = owner.operation.operands[0]
        return source if source.type.element_type == element else None
    return None


def row_of(value: Any, columns: int) -> Any | None:
    """The vector that a value repeats along its last axis, before it was widened, if it does."""
    while True:
        op: Any = None if isinstance(value.owner, ir.Block) else value.owner.operation
        name = "" if op is None else op.name
        if op is not None and _is_widening(op):
            value = op.operands[0]
        elif name == "stablehlo.broadcast_in_dim":
            axes = integers(op, "broadcast_dimensions")
            sizes = shape(op.operands[0])
            if axes[-1:] != [value.type.rank - 1] or math.prod(sizes) != columns:
                return None
            if sizes[-1:] != (columns,):
                return None
            value = op.operands[0]
        elif name == "stablehlo.reshape" and math.prod(shape(value)) == columns:
            value = op.operands[0]
        else:
            return value if shape(value) == (columns,) else None


def _is_widening(op: Any) -> bool:
    if op.name != "stablehlo.convert":
        return False
    before, after = (v.type.element_type for v in (op.operands[0], op.results[0]))
    return str(before) in ("f16", "bf16") and str(after) == "f32"


# Smooth activations are known by their values, not by how a framework wrote them. What has a corner
# is known by its operation alone: between any two points a corner could hide.

_SIZES = np.concatenate([np.linspace(1e-3, 12, 2400), np.logspace(-38, 38, 229)])
_POINTS = np.concatenate([-_SIZES[::-1], [0.0], _SIZES])
_CLOSE = 1e-6
_ERF = np.vectorize(math.erf)


def _gelu_tanh(x: np.ndarray, factor: float, cubic: float) -> np.ndarray:
    return np.asarray(0.5 * x * (1 + np.tanh(factor * (x + cubic * x**3))))


def _gelu_erf(x: np.ndarray, root: float) -> np.ndarray:
    return np.asarray(0.5 * x * (1 + _ERF(x * root)))


def _gates() -> list[tuple[int, np.ndarray]]:
    """Values of the kernels' gates by number, with constants as each type rounds them."""
    factor, cubic, root = math.sqrt(2 / math.pi), 0.044715, math.sqrt(2)
    with np.errstate(all="ignore"):
        found = [(3, _POINTS / (1 + np.exp(-_POINTS)))]
        for rounded in (float, _half, _brain):
            found.append((1, _gelu_tanh(_POINTS, rounded(factor), rounded(cubic))))
            found.append((2, _gelu_erf(_POINTS, rounded(1 / root))))
            found.append((2, _gelu_erf(_POINTS, 1 / rounded(root))))
    return found


def _half(number: float) -> float:
    return float(np.float16(number))


def _brain(number: float) -> float:
    """The nearest bf16: the upper half of an f32's bits."""
    bits = int(np.float32(number).view(np.uint32))
    return float(np.uint32(bits + 0x7FFF + (bits >> 16 & 1) & 0xFFFF0000).view(np.float32))


_FUNCTIONS: dict[str, Callable[..., np.ndarray]] = {
    "stablehlo.add": np.add,
    "stablehlo.subtract": np.subtract,
    "stablehlo.multiply": np.multiply,
    "stablehlo.divide": np.divide,
    "stablehlo.maximum": np.maximum,
    "stablehlo.minimum": np.minimum,
    "stablehlo.power": lambda x, y: np.where(np.floor(y) == y, np.power(x, y), np.nan),
    "stablehlo.tanh": np.tanh,
    "stablehlo.logistic": lambda x: 1 / (1 + np.exp(-x)),
    "stablehlo.exponential": np.exp,
    "stablehlo.negate": np.negative,
    "stablehlo.convert": lambda x: x,
    "chlo.erf": _ERF,
    "mhlo.erf": _ERF,
    "chlo.erfc": lambda x: 1 - _ERF(x),
    "mhlo.erfc": lambda x: 1 - _ERF(x),
}


def _activation(value: Any) -> tuple[int, Any] | None:
    """The activation that takes a value, and nothing else does: its number and its result."""
    known: dict[Any, np.ndarray] = {value: _POINTS}
    cone: set[Any] = set()
    waiting = [use.owner.operation for use in value.uses]
    best: tuple[int, Any] | None = None
    while waiting and len(cone) <= _SPAN:
        op = waiting.pop()
        values = None if op in cone else _evaluate(op, known)
        if values is None:
            continue
        (result,) = op.results
        known[result] = values
        cone.add(op)
        waiting.extend(use.owner.operation for use in result.uses)
        if op.name != "stablehlo.convert" and not _open(known, cone, result):
            number = _recognise(cone, values)
            if number is not None:
                best = (number, result)
    return best


def _evaluate(op: Any, known: dict[Any, np.ndarray]) -> np.ndarray | None:
    """An operation's values at the points, if its operands' are known and it is element-wise."""
    function = _FUNCTIONS.get(call_target(op) or op.name)
    if function is None or not _is_float(op.results[0]):
        return None
    operands = [known[v] if v in known else splat(v) for v in op.operands]
    if any(v is None for v in operands):
        return None
    with np.errstate(all="ignore"):
        return np.broadcast_to(function(*operands), _POINTS.shape)


def _open(known: dict[Any, np.ndarray], cone: set[Any], last: Any) -> bool:
    """Whether a value before the last is used by an operation outside of the cone."""
    return any(
        use.owner.operation not in cone for value in known if value != last for use in value.uses
    )


def _recognise(cone: Iterable[Any], values: np.ndarray) -> int | None:
    """The gate with these values at the points, or 0 for max(x, 0), which is no gate."""
    steps = [op for op in cone if op.name != "stablehlo.convert"]
    if any(op.name in _CORNERS for op in steps):
        if len(steps) != 1 or steps[0].name != "stablehlo.maximum":
            return None
        return 0 if 0.0 in [splat(v) for v in steps[0].operands] else None
    size = _CLOSE * (1 + np.abs(_POINTS))
    for number, wanted in _GATES:
        if bool((np.abs(values - wanted) <= size).all()):
            return number
    return None


_CORNERS = ("stablehlo.maximum", "stablehlo.minimum")
_GATES = _gates()
