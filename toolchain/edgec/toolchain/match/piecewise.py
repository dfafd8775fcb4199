"""Functions of one number made of polynomials side by side, worked out exactly from expressions.

So what has corners (relu, clips, slopes, thresholds, hard swish, and what is made of them) is known
by what it is: no values are tried. Free of the compiler.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from edgec.toolchain.match.expression import Operand, Source, Step

__all__ = ["IDENTITY", "Piecewise", "clip", "corners", "piecewise"]

_MOST_DEGREE = 2
_CLOSE = 1e-6

Polynomial = tuple[float, ...]
"""Coefficients from the constant one on, without zeros at the end."""


@dataclass(frozen=True, kw_only=True)
class Piecewise:
    """Polynomials on the intervals between corners.

    Attributes:
        corners: where one gives way to the next, ascending.
        parts: one more than corners.
    """

    corners: tuple[float, ...] = ()
    parts: tuple[Polynomial, ...]

    @property
    def number(self) -> float | None:
        """The one number that it is everywhere, if so."""
        is_number = len(self.parts) == 1 and len(self.parts[0]) <= 1
        return sum(self.parts[0]) if is_number else None

    @property
    def is_continuous(self) -> bool:
        """Whether it does not jump."""
        return all(
            _near(_at(self.parts[i], corner), _at(self.parts[i + 1], corner))
            for i, corner in enumerate(self.corners)
        )

    def at(self, place: float) -> Polynomial:
        """The polynomial of the interval that a place lies in, which is no corner."""
        return self.parts[sum(corner < place for corner in self.corners)]

    def is_like(self, other: "Piecewise") -> bool:
        """Whether both are the same function, up to the rounding of constants in f32."""
        return (
            len(self.corners) == len(other.corners)
            and all(_near(a, b) for a, b in zip(self.corners, other.corners, strict=True))
            and all(
                len(a) == len(b) and all(_near(x, y) for x, y in zip(a, b, strict=True))
                for a, b in zip(self.parts, other.parts, strict=True)
            )
        )


IDENTITY = Piecewise(parts=((0.0, 1.0),))


def clip(slope: float = 1.0, low: float = -math.inf, high: float = math.inf) -> Piecewise:
    """min(max(x if x > 0 else slope * x, low), high)."""
    found = Piecewise(corners=(0.0,), parts=((0.0, slope), (0.0, 1.0)))
    found = _normal(found)
    for bound, is_least in ((low, True), (high, False)):
        if math.isfinite(bound):
            found = _extreme(found, _constant(bound), is_least) or found
    return found


def piecewise(steps: Sequence[Step]) -> Piecewise | None:
    """What steps over the sum and constants alone compute, if it is made of polynomials."""
    return _each(steps)[-1] if steps else IDENTITY


def corners(steps: Sequence[Step]) -> list[float] | None:
    """Where what steps over one number compute may have a corner or a jump; smooth between them.

    None if a choice depends on what is not made of polynomials, so that its corners are not known.
    """
    from edgec.toolchain.ir.elementwise import has_corner

    done = _each(steps)
    found: set[float] = set()
    for number, step in enumerate(map(_without_infinity, steps)):
        if not has_corner(step.name):
            continue
        chosen = _value(step.operands[0], done) if step.name == "select" else done[number]
        if chosen is None:
            return None
        found.update(chosen.corners)
        if step.word in ("EQ", "NE"):  # A single number may be another, without a corner.
            one, other = (_value(operand, done) for operand in step.operands)
            found.update((_crossings(one, other) or ()) if one and other else ())
    return sorted(found)


def _each(steps: Sequence[Step]) -> list[Piecewise | None]:
    """Each step's value, where it is made of polynomials."""
    done: list[Piecewise | None] = []
    for step in map(_without_infinity, steps):
        operands = [_value(operand, done) for operand in step.operands]
        known = [operand for operand in operands if operand is not None]
        done.append(_apply(step, known) if len(known) == len(operands) else None)
    return done


def _value(operand: Operand, done: Sequence[Piecewise | None]) -> Piecewise | None:
    match operand.source:
        case Source.SUM:
            return IDENTITY
        case Source.STEP:
            return done[int(operand.number)]
        case Source.SCALAR if math.isfinite(operand.number):
            return _constant(operand.number)
    return None


def _without_infinity(step: Step) -> Step:
    """A bound less, where it is infinite: so PyTorch's `clamp(min=…)` arrives."""
    if step.name == "clamp":
        low, value, high = step.operands
        if _is(high, math.inf):
            return _without_infinity(replace(step, name="maximum", operands=(value, low)))
        if _is(low, -math.inf):
            return _without_infinity(replace(step, name="minimum", operands=(value, high)))
    none = {"maximum": -math.inf, "minimum": math.inf}.get(step.name)
    if none is not None:
        for one, other in (step.operands, step.operands[::-1]):
            if _is(other, none):
                return replace(step, name="convert", operands=(one,))
    return step


def _is(operand: Operand, number: float) -> bool:
    return operand.source is Source.SCALAR and operand.number == number


def _apply(step: Step, values: Sequence[Piecewise]) -> Piecewise | None:
    match step.name:
        case "convert":
            return values[0]
        case "add":
            return _joined(lambda a, b: _sum(a, b, 1.0), *values)
        case "subtract":
            return _joined(lambda a, b: _sum(a, b, -1.0), *values)
        case "negate":
            return _scaled(values[0], -1.0)
        case "multiply":
            return _joined(_product, *values)
        case "divide":
            number = values[1].number
            return _scaled(values[0], 1.0 / number) if number else None
        case "maximum" | "minimum":
            return _extreme(values[0], values[1], step.name == "maximum")
        case "abs":
            return _extreme(values[0], _scaled(values[0], -1.0), True)
        case "sign":
            above, below = (_compared(word, values[0], _constant(0.0)) for word in ("GT", "LT"))
            if above is None or below is None:
                return None
            return _joined(lambda a, b: _sum(a, b, -1.0), above, below)
        case "clamp":
            low, found, high = values
            raised = _extreme(found, low, True)
            return None if raised is None else _extreme(raised, high, False)
        case "compare":
            return _compared(step.word, *values)
        case "select":
            test, one, other = values
            return _selected(test, one, other)
        case "not":
            return _joined(lambda a, b: _sum(a, b, -1.0), _constant(1.0), values[0])
        case "and":
            return _joined(_product, *values)
        case "or":
            return _extreme(values[0], values[1], True)
    return None


def _constant(number: float) -> Piecewise:
    return Piecewise(parts=(_trimmed((number,)),))


def _trimmed(coefficients: Sequence[float]) -> Polynomial:
    found = list(coefficients)
    while found and found[-1] == 0:
        found.pop()
    return tuple(found)


def _at(polynomial: Polynomial, place: float) -> float:
    return sum(c * place**power for power, c in enumerate(polynomial))


def _near(one: float, other: float) -> bool:
    return abs(one - other) <= _CLOSE * max(abs(one), abs(other)) or abs(one - other) < 1e-12


def _sum(one: Polynomial, other: Polynomial, sign: float) -> Polynomial:
    size = max(len(one), len(other))
    a, b = (list(p) + [0.0] * (size - len(p)) for p in (one, other))
    return _trimmed([x + sign * y for x, y in zip(a, b, strict=True)])


def _product(one: Polynomial, other: Polynomial) -> Polynomial | None:
    if not one or not other:
        return ()
    if len(one) + len(other) - 2 > _MOST_DEGREE:
        return None
    return _trimmed(np.convolve(one, other).tolist())


def _scaled(value: Piecewise, factor: float) -> Piecewise:
    parts = tuple(_trimmed([c * factor for c in part]) for part in value.parts)
    return Piecewise(corners=value.corners, parts=parts)


def _inner(corners: Sequence[float]) -> list[float]:
    """A place in each interval between corners."""
    if not corners:
        return [0.0]
    ends = [corners[0] - 1 - abs(corners[0]), *corners, corners[-1] + 1 + abs(corners[-1])]
    return [(a + b) / 2 for a, b in pairwise(ends)]


def _built(
    corners: Sequence[float], part: Callable[[float], Polynomial | None]
) -> Piecewise | None:
    """A function by what it is at a place inside of each interval."""
    found = [part(place) for place in _inner(corners)]
    whole = tuple(each for each in found if each is not None)
    if len(whole) != len(found):
        return None
    return _normal(Piecewise(corners=tuple(corners), parts=whole))


def _normal(value: Piecewise) -> Piecewise:
    """Without corners where nothing changes."""
    corners: list[float] = []
    parts = [value.parts[0]]
    for corner, part in zip(value.corners, value.parts[1:], strict=True):
        if part != parts[-1]:
            corners.append(corner)
            parts.append(part)
    return Piecewise(corners=tuple(corners), parts=tuple(parts))


def _merged(*values: Piecewise) -> list[float]:
    return sorted({corner for value in values for corner in value.corners})


def _joined(
    function: Callable[[Polynomial, Polynomial], Polynomial | None],
    one: Piecewise,
    other: Piecewise,
) -> Piecewise | None:
    return _built(_merged(one, other), lambda x: function(one.at(x), other.at(x)))


def _crossings(one: Piecewise, other: Piecewise) -> list[float] | None:
    """All corners of two functions and where one crosses the other; None if that is not known."""
    corners = _merged(one, other)
    ends = [-math.inf, *corners, math.inf]
    more: set[float] = set()
    for place, low, high in zip(_inner(corners), ends[:-1], ends[1:], strict=True):
        roots = _roots(_sum(one.at(place), other.at(place), -1.0))
        if roots is None:
            return None
        more.update(root for root in roots if low < root < high)
    return sorted({*corners, *more})


def _roots(polynomial: Polynomial) -> list[float] | None:
    match polynomial:
        case () | (_,):
            return []
        case (c, b):
            return [-c / b]
        case (c, b, a):
            below = b * b - 4 * a * c
            if below < 0:
                return []
            # The form that does not subtract what is nearly alike.
            far = -(b + math.copysign(math.sqrt(below), b)) / 2
            return [far / a, c / far] if far else [0.0]
    return None


def _extreme(one: Piecewise, other: Piecewise, is_largest: bool) -> Piecewise | None:
    corners = _crossings(one, other)
    if corners is None:
        return None

    def part(place: float) -> Polynomial:
        first = (_at(one.at(place), place) >= _at(other.at(place), place)) == is_largest
        return (one if first else other).at(place)

    return _built(corners, part)


def _compared(word: str, one: Piecewise, other: Piecewise) -> Piecewise | None:
    """1 where it holds and 0 where it does not, inside of intervals."""
    corners = _crossings(one, other)
    if corners is None:
        return None

    def part(place: float) -> Polynomial:
        difference = _at(_sum(one.at(place), other.at(place), -1.0), place)
        holds = {
            "LT": difference < 0,
            "LE": difference <= 0,
            "GT": difference > 0,
            "GE": difference >= 0,
            "EQ": difference == 0,
            "NE": difference != 0,
        }[word]
        return (1.0,) if holds else ()

    return _built(corners, part)


def _selected(test: Piecewise, one: Piecewise, other: Piecewise) -> Piecewise | None:
    return _built(_merged(test, one, other), lambda x: (one if test.at(x) else other).at(x))
