"""What is computed from a tensor, its mean and its deviation, as a polynomial in these.

However a framework writes a norm (a variance in one pass or two, `x / sqrt(v)`, `power(v, -0.5)`,
a scale multiplied into the factor first), its polynomial is the same: `x r s - m r s + t`.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir.elementwise import elementwise
from edgec.toolchain.ir.fold import splat
from edgec.toolchain.ir.read import integers
from edgec.toolchain.ir.rows import is_widening
from edgec.toolchain.ir.views import Digit, Strided, before, dense, joined
from edgec.toolchain.ir.write import shape

__all__ = ["CLOSE", "Moments", "Polynomial", "Spread", "Term", "Variance", "term", "unmoved"]

X = "x"
MEAN = "mean"
SQUARES = "mean of squares"
FACTOR = "1 / deviation"
CLOSE = 1e-5
"""What rounding 1 / count to f32 may change in a coefficient."""
_DEEPEST = 100
"""Operations in a row that are read; what comes before them is taken as it is."""


@dataclass(frozen=True)
class Spread:
    """A value that does not follow from the tensor in a way known here, repeated over it.

    Attributes:
        value: the value.
        digits: by the tensor's elements in order, where each one's number lies in it.
    """

    value: Any
    digits: tuple[Digit, ...]


@dataclass(frozen=True, kw_only=True)
class Variance:
    """What a deviation is the root of.

    Attributes:
        mean: whether the mean is taken from the tensor first.
        epsilon: what is added.
    """

    mean: bool
    epsilon: float


Atom = str | Spread
Term = frozenset[tuple[Atom, int]]
Polynomial = Mapping[Term, float]
_ONE: Term = frozenset()


def term(**powers: int) -> Term:
    """A term of the tensor's own moments, by the names of this module's constants."""
    names = {"x": X, "mean": MEAN, "squares": SQUARES, "factor": FACTOR}
    return frozenset((names[name], power) for name, power in powers.items())


class Moments:
    """Reads values as polynomials in one tensor's moments over some of its axes.

    Attributes:
        source: the tensor, as it was before other shapes and wider types.
        repeated: by the tensor's elements in order, where each one's mean lies; None until the
            first mean was read.
        variance: what deviations are the root of; None until the first was read.
        reason: why a root was not taken for a deviation.
    """

    def __init__(self, source: Any) -> None:
        self.source = unmoved(source)
        self.size = math.prod(shape(source))
        self.repeated: tuple[Digit, ...] | None = None
        self.variance: Variance | None = None
        self.reason = ""
        self._whole = (Digit(size=self.size, step=1),)
        self._known: dict[tuple[Any, tuple[Digit, ...]], Polynomial] = {}
        self._depth = 0

    def read(self, value: Any) -> Polynomial:
        """The polynomial of a value of as many elements as the tensor, in the same order."""
        return self._at(Strided(value=value, start=0, axes=(self._whole,)))

    def follows(self, value: Any) -> bool:
        """Whether a value of as many elements follows from the tensor in a way known here."""
        return not _is_free(self.read(value))

    def _at(self, view: Strided) -> Polynomial:
        key = (view.value, view.axes[0])
        if key not in self._known:
            self._depth += 1
            self._known[key] = self._read(view)
            self._depth -= 1
        return self._known[key]

    def _read(self, view: Strided) -> Polynomial:
        value, digits = view.value, view.axes[0]
        if digits == self._whole and unmoved(value) == self.source:
            return {term(x=1): 1.0}
        number = splat(value)
        if number is not None:
            return {_ONE: number} if number else {}
        itself: Polynomial = {frozenset({(Spread(value, digits), 1)}): 1.0}
        if isinstance(value.owner, ir.Block):
            return itself
        op = value.owner.operation
        if op.name == "stablehlo.slice" or self._depth > _DEEPEST:
            return itself
        moved = before(view, converts=True)
        if moved is not None:
            found = self._at(_flat(moved))
            turned = op.name == "stablehlo.transpose" and _is_free(found)
            return itself if turned else found
        is_sum = op.name == "stablehlo.reduce"
        made = self._mean(op, digits) if is_sum else self._of(op, digits)
        return itself if made is None or _is_free(made) else made

    def _of(self, op: Any, digits: tuple[Digit, ...]) -> Polynomial | None:
        """An element-wise operation's polynomial, if it is one."""
        name = elementwise(op)
        if name not in _READ:
            return None
        operands = [
            self._at(Strided(value=operand, start=0, axes=(digits,))) for operand in op.operands
        ]
        if all(_is_free(each) for each in operands):
            return None
        match name:
            case "add":
                return _sum(*operands)
            case "subtract":
                return _sum(operands[0], _scaled(operands[1], -1.0))
            case "negate":
                return _scaled(operands[0], -1.0)
            case "multiply":
                return _product(*operands)
            case "divide":
                below = _power(operands[1], -1)
                return None if below is None else _product(operands[0], below)
            case "maximum":
                return self._kept(*operands)
            case "sqrt":
                return self._deviation(operands[0], -1)
            case "rsqrt":
                return self._deviation(operands[0], 1)
            case _:
                return self._raised(*operands)

    def _raised(self, base: Polynomial, exponent: Polynomial) -> Polynomial | None:
        number = _number(exponent)
        match number:
            case 0.5 | -0.5:
                return self._deviation(base, -1 if number > 0 else 1)
            case 2.0:
                return _product(base, base)
            case -1.0:
                return _power(base, -1)
        return None

    def _kept(self, one: Polynomial, other: Polynomial) -> Polynomial | None:
        """A variance that is kept from below what it never is below, but for rounding."""
        for value, bound in ((one, other), (other, one)):
            number = _number(bound)
            known = _variance(value)
            if known is not None and number is not None and number <= known.epsilon:
                return value
        return None

    def _deviation(self, value: Polynomial, power: int) -> Polynomial | None:
        found = _variance(value)
        if found is None:
            if term(squares=1) in value and not self.reason:
                self.reason = "a root of more than the mean of squares"
            return None
        if self.variance is None:
            self.variance = found
        return {term(factor=power): 1.0} if found == self.variance else None

    def _mean(self, op: Any, digits: tuple[Digit, ...]) -> Polynomial | None:
        """The sum of a polynomial over the axes that all means are over."""
        if len(op.operands) != 2 or math.prod(shape(op.operands[0])) != self.size:
            return None
        whole, start = op.operands
        inner = [each.operation.name for each in op.regions[0].blocks[0].operations]
        if inner != ["stablehlo.add", "stablehlo.return"] or splat(start) != 0:
            return None
        if digits != _repeated(op):
            return None
        if self.repeated is None:
            self.repeated = digits
        count = math.prod(shape(whole)) // math.prod(shape(op.results[0]))
        total: dict[Term, float] = {}
        if digits != self.repeated:
            return None
        for each, factor in self.read(whole).items():
            powers = dict(each)
            degree = powers.pop(X, 0)
            if degree not in _MOMENTS or any(isinstance(atom, Spread) for atom in powers):
                return None
            fixed: Polynomial = {frozenset(powers.items()): factor * count}
            total = dict(_sum(total, _product(fixed, _MOMENTS[degree])))
        return total


_READ = frozenset(
    {
        *("add", "subtract", "negate", "multiply", "divide", "maximum"),
        *("sqrt", "rsqrt", "power"),
    }
)
_MOMENTS: Mapping[int, Polynomial] = {
    0: {_ONE: 1.0},
    1: {term(mean=1): 1.0},
    2: {term(squares=1): 1.0},
}
"""The mean of a power of the tensor."""


def unmoved(value: Any) -> Any:
    """The value of the same numbers in the same order, before other shapes and wider types."""
    while not isinstance(value.owner, ir.Block):
        op = value.owner.operation
        if op.name != "stablehlo.reshape" and not is_widening(op):
            break
        value = op.operands[0]
    return value


def _flat(view: Strided) -> Strided:
    (digits,) = view.axes
    return Strided(value=view.value, start=view.start, axes=(joined(digits),))


def _repeated(op: Any) -> tuple[Digit, ...]:
    """By the elements of what is reduced, where each one's result lies."""
    gone = integers(op, "dimensions")
    steps = iter(dense(shape(op.results[0])))
    digits = [
        Digit(size=size, step=0 if axis in gone else next(steps))
        for axis, size in enumerate(shape(op.operands[0]))
    ]
    return joined([digit for digit in digits if digit.size > 1])


def _is_free(value: Polynomial) -> bool:
    """Whether the tensor does not occur in it."""
    return all(isinstance(atom, Spread) for each in value for atom, _ in each)


def _number(value: Polynomial) -> float | None:
    if not value:
        return 0.0
    return value[_ONE] if len(value) == 1 and _ONE in value else None


def _scaled(value: Polynomial, factor: float) -> Polynomial:
    return {each: number * factor for each, number in value.items()}


def _sum(one: Polynomial, other: Polynomial) -> Polynomial:
    total = dict(one)
    for each, number in other.items():
        before_ = total.pop(each, 0.0)
        together = before_ + number
        # What is left of two that cancel is rounding.
        if abs(together) > CLOSE * max(abs(before_), abs(number)):
            total[each] = together
    return total


def _product(one: Polynomial, other: Polynomial) -> Polynomial:
    total: Polynomial = {}
    for left, a in one.items():
        for right, b in other.items():
            powers = dict(left)
            for atom, power in right:
                powers[atom] = powers.get(atom, 0) + power
            both = frozenset((atom, power) for atom, power in powers.items() if power)
            total = _sum(total, {both: a * b})
    return total


def _power(value: Polynomial, power: int) -> Polynomial | None:
    """A power of one term of deviations alone, which are never zero."""
    if len(value) != 1:
        return None
    ((only, number),) = value.items()
    if not number or any(atom != FACTOR for atom, _ in only):
        return None
    return {frozenset((atom, each * power) for atom, each in only): number**power}


def _variance(value: Polynomial) -> Variance | None:
    """A polynomial as a variance and a constant, if it is that."""
    rest = dict(value)
    epsilon = rest.pop(_ONE, 0.0)
    squares = rest.pop(term(squares=1), 0.0)
    mean = rest.pop(term(mean=2), 0.0)
    if rest or epsilon < 0 or not math.isclose(squares, 1.0, rel_tol=CLOSE):
        return None
    if mean and not math.isclose(mean, -1.0, rel_tol=CLOSE):
        return None
    return Variance(mean=bool(mean), epsilon=epsilon)
