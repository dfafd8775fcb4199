"""Rotary position embeddings: pairs of neighbours half a row apart, turned by an angle for each.

Frameworks write them in two ways, with x split into halves a and b: x * cos + [-b, a] * sin, as
`transformers` does, and [a * cos - b * sin, b * cos + a * sin], as JAX's models do.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.toolchain.ir.read import element_type, integers, is_dynamic, made_by, shape_of
from edgec.toolchain.ir.views import Strided, before, identity
from edgec.toolchain.match.description import Array, Description

__all__ = ["ROTARY_ENDS", "Rotary", "in_order", "read_rotary"]

ROTARY_ENDS = ("stablehlo.add", "stablehlo.concatenate")
"""The operations that a rotary embedding ends with."""
_FLOATS = ("f16", "bf16", "f32")


@dataclass(frozen=True, kw_only=True)
class Rotary(Description):
    """Rows of `width` elements whose i-th and (i + width / 2)-th are turned together.

    Attributes:
        value: the turned rows.
        source: the rows, in the order of memory of `value`.
        cosine, sine: factors by row and element; they begin anew where they end.
        factors: of a row, among them: `width`, or half of it where both of a pair have the same.
    """

    value: Any
    source: Any
    cosine: Any
    sine: Any
    width: int
    factors: int

    @property
    def size(self) -> int:
        """Elements in all."""
        return _count(self.value)

    @property
    def span(self) -> int:
        """Factors after which they begin anew."""
        return _count(self.cosine)

    @property
    def operands(self) -> tuple[Any, ...]:
        """What is turned, and by what."""
        return (self.source, self.cosine, self.sine)

    @property
    def results(self) -> tuple[Any, ...]:
        """The turned rows."""
        return (self.value,)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """x * cos + [-b, a] * sin for the halves a and b of each row x."""
        x = inputs[0].reshape(-1, self.width)
        parts = self.width // self.factors
        cosine, sine = (
            np.tile(np.resize(each.reshape(-1), x.size // parts).reshape(-1, self.factors), parts)
            for each in inputs[1:]
        )
        a, b = np.split(x, 2, axis=1)
        turned = x * cosine + np.concatenate([-b, a], 1) * sine
        return (turned.reshape([size or 0 for size in shape_of(self.value)]),)


def read_rotary(op: Any) -> Rotary | None:
    """The rotary embedding that an operation of `ROTARY_ENDS` ends; None where it ends none."""
    (value,) = op.results
    sizes = shape_of(value)
    if is_dynamic(value) or not sizes or str(element_type(value)) not in _FLOATS:
        return None
    if (sizes[-1] or 0) < 2 or (sizes[-1] or 0) % 2:
        return None
    found = _summed(op) if op.name == "stablehlo.add" else _joined(op)
    if found is None:
        return None
    source, cosine, sine, factors = found
    source, cosine, sine = in_order(source), _repeated(cosine), _repeated(sine)
    kinds = {str(element_type(each)) for each in (value, source, cosine, sine)}
    if _count(source) != _count(value) or _count(cosine) != _count(sine) or len(kinds) > 1:
        return None
    if _count(cosine) % factors:
        return None
    width = int(sizes[-1] or 0)
    return Rotary(
        value=value, source=source, cosine=cosine, sine=sine, width=width, factors=factors
    )


def in_order(value: Any) -> Any:
    """The earliest value with the same elements in the same order of memory."""
    return _earliest(value, repeats=False)


def _repeated(value: Any) -> Any:
    """The earliest value whose elements, in order and over and over, are those of `value`."""
    return _earliest(value, repeats=True)


def _earliest(value: Any, *, repeats: bool) -> Any:
    view = identity(value)
    while (further := before(view)) is not None:
        view = further
        if _is_dense(view, repeats=repeats):
            value = view.value
    return value


def _is_dense(view: Strided, *, repeats: bool) -> bool:
    """Whether a view is its whole memory in order; or that time after time."""
    digits = [digit for axis in view.axes for digit in axis if digit.size > 1]
    while repeats and digits and digits[0].step == 0:
        digits.pop(0)
    step = 1
    for digit in reversed(digits):
        if digit.step != step:
            return False
        step *= digit.size
    return view.start == 0 and view.scale == 1.0 and not view.rolls and step == _count(view.value)


def _summed(op: Any) -> tuple[Any, Any, Any, int] | None:
    """Source, factors and their number of x * cos + [-b, a] * sin."""
    left, right = (made_by(each, "multiply") for each in op.operands)
    if left is None or right is None:
        return None
    for plain, other in ((left, right), (right, left)):
        for crossed, sine in _both_ways(other):
            source = _crossed(crossed)
            if source is None:
                continue
            for x, cosine in _both_ways(plain):
                if in_order(x) == in_order(source):
                    return x, cosine, sine, int(shape_of(x)[-1] or 0)
    return None


def _crossed(value: Any) -> Any | None:
    """What [-b, a] is made of, of the halves a and b of its rows."""
    join = made_by(value, "concatenate")
    if join is None or len(join.operands) != 2 or not _is_last(join, value):
        return None
    negated = made_by(join.operands[0], "negate")
    if negated is None:
        return None
    first, second = _half(join.operands[1]), _half(negated.operands[0])
    if first is None or second is None or (first[1], second[1]) != (0, 1):
        return None
    return first[0] if first[0] == second[0] else None


def _joined(op: Any) -> tuple[Any, Any, Any, int] | None:
    """Source, factors and their number of [a * cos - b * sin, b * cos + a * sin]."""
    if len(op.operands) != 2 or not _is_last(op, op.results[0]):
        return None
    less, more = made_by(op.operands[0], "subtract"), made_by(op.operands[1], "add")
    if less is None or more is None:
        return None
    inner = [made_by(each, "multiply") for each in (*less.operands, *more.operands)]
    products = [each for each in inner if each is not None]
    if len(products) < len(inner):
        return None
    given = [{_key(each) for each in product.operands} for product in products[2:]]
    for a, cosine in _both_ways(products[0]):
        for b, sine in _both_ways(products[1]):
            first, second = _half(a), _half(b)
            if first is None or second is None or first[0] != second[0]:
                continue
            wanted = [{_key(b), _key(cosine)}, {_key(a), _key(sine)}]
            if (first[1], second[1]) == (0, 1) and given in (wanted, wanted[::-1]):
                return first[0], cosine, sine, int(shape_of(a)[-1] or 0)
    return None


def _key(value: Any) -> Any:
    """What two values that hold the same elements in order have in common."""
    half = _half(value)
    return (half[0], half[1]) if half is not None else (_repeated(value), -1)


def _half(value: Any) -> tuple[Any, int] | None:
    """The value of whose rows this is a half, and which one; None where it is none."""
    cut = made_by(value, "slice")
    if cut is None:
        return None
    source = cut.operands[0]
    sizes, halves = shape_of(source), shape_of(value)
    starts, strides = integers(cut, "start_indices"), integers(cut, "strides")
    half = halves[-1] or 0
    if sizes[:-1] != halves[:-1] or sizes[-1] != 2 * half or any(step != 1 for step in strides):
        return None
    if any(starts[:-1]) or starts[-1] not in (0, half):
        return None
    return source, starts[-1] // half


def _both_ways(product: Any) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    left, right = product.operands
    return (left, right), (right, left)


def _is_last(join: Any, value: Any) -> bool:
    """Whether a concatenation is along the last axis."""
    return integers(join, "dimension")[0] == len(shape_of(value)) - 1


def _count(value: Any) -> int:
    return math.prod(size or 0 for size in shape_of(value))
