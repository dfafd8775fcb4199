"""Functions of 64-bit floats that devices have no library for, as arithmetic."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.toolchain.ir.rewriting import rewrite_each
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["DoubleFunctions"]


@dataclass(frozen=True, kw_only=True)
class DoubleFunctions:
    """Sines, tangents, arc tangent, cube root and remainder of f64 are written out.

    iree-compile 3.13 leaves them to the C library, which a module does not have ("undefined
    symbol: sin"); through them lgamma, digamma, igamma and the complex functions of f64 fail.
    Arguments are reduced with pi in three parts, right to 1e-15 up to about 1e6; sines and cosines
    are Taylor series on -pi/4 … pi/4; the arc tangent is a series after two halvings of the
    angle; the cube root two steps of Newton's from a power. Functions of complex f64 are written
    with these.

    Measured with `benchmarks.operators.passes` on the CPU: it changes 36 of 2,448 operator cases;
    of 6 tried, 6 are right with it and 0 without.
    """

    name = "double-functions"
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "DoubleFunctions | None":
        """For programs in StableHLO with one of these functions."""
        return cls() if situation.operations & {*_FUNCTIONS, *_COMPLEX} else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many functions."""
        names = tuple({**_FUNCTIONS, **_COMPLEX})
        return rewrite_each(module, names, _computed, as_one=True)


def _computed(op: Any) -> Sequence[Any] | None:
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    kind = graph.element(op.operands[0])
    if isinstance(kind, ir.ComplexType) and isinstance(kind.element_type, ir.F64Type):
        if op.name not in _COMPLEX:
            return None
        parts = (_Number(graph.part(name, op.operands[0])) for name in ("real", "imag"))
        return [graph.complex_(*(part.value for part in _COMPLEX[op.name](*parts)))]
    if not isinstance(kind, ir.F64Type) or op.name not in _FUNCTIONS:
        return None
    return [_FUNCTIONS[op.name](*(_Number(v) for v in op.operands)).value]


class _Number:
    """A tensor of f64 with Python's arithmetic."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def _of(self, other: "_Number | float") -> Any:
        from edgec.toolchain.ir import write as graph

        if isinstance(other, _Number):
            return other.value
        return graph.fill(other, graph.shape(self.value), graph.element(self.value))

    def _do(self, name: str, other: "_Number | float") -> "_Number":
        from edgec.toolchain.ir import write as graph

        return _Number(graph.binary(name, self.value, self._of(other)))

    def __add__(self, other: "_Number | float") -> "_Number":
        return self._do("add", other)

    def __sub__(self, other: "_Number | float") -> "_Number":
        return self._do("subtract", other)

    def __mul__(self, other: "_Number | float") -> "_Number":
        return self._do("multiply", other)

    def __truediv__(self, other: "_Number | float") -> "_Number":
        return self._do("divide", other)

    def apply(self, name: str) -> "_Number":
        """A unary operation of StableHLO."""
        from edgec.toolchain.ir import write as graph

        return _Number(graph.unary(name, self.value))

    def test(self, direction: str, other: "_Number | float") -> Any:
        """A comparison, as a tensor of truths."""
        from edgec.toolchain.ir import write as graph

        return graph.compare(direction, self.value, self._of(other))


def _choose(test: Any, then: _Number, otherwise: _Number) -> _Number:
    from edgec.toolchain.ir import write as graph

    return _Number(graph.select(test, then.value, otherwise.value))


def _series(x: _Number, coefficients: Sequence[float]) -> _Number:
    """A polynomial, the constant coefficient first."""
    total = x * 0.0 + coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + coefficient
    return total


def _factorial(n: int) -> float:
    return float(np.prod(np.arange(1, n + 1, dtype=np.float64))) if n else 1.0


_SINE = [(-1) ** k / _factorial(2 * k + 1) for k in range(9)]
_COSINE = [(-1) ** k / _factorial(2 * k) for k in range(10)]
_HYPERBOLIC = [
    1.0,
    -1 / 3,
    2 / 15,
    -17 / 315,
    62 / 2835,
    -1382 / 155925,
    21844 / 6081075,
    -929569 / 638512875,
]
# pi/2 in parts of 33 bits, so that a multiple of the first two is exact.
_HALF_PI = (1.57079632673412561417, 6.07710050630396597660e-11, 2.02226624879595063154e-21)


def _sine_and_cosine(x: _Number) -> tuple[_Number, _Number, _Number]:
    """Sine and cosine of what remains of x in -pi/4 … pi/4, and the quarter it was taken from."""
    turns = (x * (2 / np.pi)).apply("round_nearest_even")
    rest = x
    for part in _HALF_PI:
        rest = rest - turns * part
    square = rest * rest
    quarter = turns - (turns * 0.25).apply("floor") * 4.0
    return rest * _series(square, _SINE), _series(square, _COSINE), quarter


def _sine(x: _Number) -> _Number:
    sine, cosine, quarter = _sine_and_cosine(x)
    return _placed(sine, cosine, quarter)


def _cosine(x: _Number) -> _Number:
    sine, cosine, quarter = _sine_and_cosine(x)
    following = quarter + 1.0
    return _placed(sine, cosine, _choose(following.test("EQ", 4.0), following * 0.0, following))


def _placed(sine: _Number, cosine: _Number, quarter: _Number) -> _Number:
    odd = _choose(quarter.test("EQ", 1.0), cosine, sine)
    odd = _choose(quarter.test("EQ", 3.0), cosine, odd)
    return _choose(quarter.test("GE", 2.0), odd * -1.0, odd)


def _tangent(x: _Number) -> _Number:
    return _sine(x) / _cosine(x)


def _arc_tangent(y: _Number) -> _Number:
    """The angle whose tangent is y, for y of 0 to 1."""
    for _ in range(2):  # the tangent of half the angle
        y = y / (((y * y) + 1.0).apply("sqrt") + 1.0)
    series = _series(y * y, [(-1) ** k / (2 * k + 1) for k in range(14)])
    return y * series * 4.0


def _arc_tangent2(y: _Number, x: _Number) -> _Number:
    """The angle of the point (x, y), from -pi to pi; the signs of zeros count."""
    height, width = y.apply("abs"), x.apply("abs")
    steep = height.test("GT", width)
    small, large = _choose(steep, width, height), _choose(steep, height, width)
    ratio = small / _choose(large.test("EQ", 0.0), _ones(large), large)
    # Two infinities have the ratio one here, as the framework's function has it.
    ratio = _choose(small.test("EQ", float("inf")), _ones(large), ratio)
    angle = _arc_tangent(ratio)
    angle = _choose(steep, angle * -1.0 + np.pi / 2, angle)
    angle = _choose(_negative(x), angle * -1.0 + np.pi, angle)
    return _choose(_negative(y), angle * -1.0, angle)


def _ones(like: _Number) -> _Number:
    from edgec.toolchain.ir import write as graph

    return _Number(graph.fill(1.0, graph.shape(like.value), graph.element(like.value)))


def _negative(x: _Number) -> Any:
    """Whether the sign bit is set."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    kind = ir.IntegerType.get_signless(64)
    bits = graph.bitcast(x.value, kind)
    return graph.compare("LT", bits, graph.fill(0, graph.shape(bits), kind))


def _hyperbolic_tangent(x: _Number) -> _Number:
    """By the exponential; near zero, where that would cancel, by its series."""
    size = x.apply("abs")
    decayed = (size * -2.0).apply("exponential")
    far = (_ones(size) - decayed) / (_ones(size) + decayed)
    square = x * x
    near = x * _series(square, _HYPERBOLIC)
    far = _choose(_negative(x), far * -1.0, far)
    return _choose(size.test("LT", 0.125), near, far)


def _cube_root(x: _Number) -> _Number:
    size = x.apply("abs")
    safe = _choose(size.test("EQ", 0.0), _ones(size), size)
    root = (safe.apply("log") / 3.0).apply("exponential")
    for _ in range(2):
        root = root - (root - safe / (root * root)) / 3.0
    return root * x.apply("sign")


def _remainder(x: _Number, y: _Number) -> _Number:
    """With the sign of x; exact while the quotient has few digits."""
    size, by = x.apply("abs"), y.apply("abs")
    rest = size - (size / by).apply("floor") * by
    rest = _choose(rest.test("LT", 0.0), rest + by, rest)
    rest = _choose(rest.test("GE", by), rest - by, rest)
    rest = _choose(by.test("EQ", float("inf")), size, rest)
    return _choose(_negative(x), rest * -1.0, rest)


_FUNCTIONS: Mapping[str, Callable[..., _Number]] = {
    "stablehlo.sine": _sine,
    "stablehlo.cosine": _cosine,
    "stablehlo.tan": _tangent,
    "stablehlo.atan2": _arc_tangent2,
    "stablehlo.cbrt": _cube_root,
    "stablehlo.remainder": _remainder,
    "stablehlo.tanh": _hyperbolic_tangent,
}


Parts = tuple[_Number, _Number]


def _complex_exponential(a: _Number, b: _Number) -> Parts:
    size = a.apply("exponential")
    return size * _cosine(b), size * _sine(b)


def _hyperbolic(x: _Number) -> Parts:
    """Hyperbolic sine and cosine; the former by the tangent, which cancels nothing."""
    grown = x.apply("exponential")
    cosine = (grown + _ones(x) / grown) * 0.5
    return _hyperbolic_tangent(x) * cosine, cosine


def _complex_sine(a: _Number, b: _Number) -> Parts:
    sine, cosine = _hyperbolic(b)
    return _sine(a) * cosine, _cosine(a) * sine


def _complex_cosine(a: _Number, b: _Number) -> Parts:
    sine, cosine = _hyperbolic(b)
    return _cosine(a) * cosine, _sine(a) * sine * -1.0


def _complex_tangent(a: _Number, b: _Number) -> Parts:
    """The hyperbolic one."""
    sine, cosine = _hyperbolic(a * 2.0)
    below = cosine + _cosine(b * 2.0)
    return sine / below, _sine(b * 2.0) / below


def _complex_logarithm(a: _Number, b: _Number) -> Parts:
    return ((a * a) + (b * b)).apply("log") * 0.5, _arc_tangent2(b, a)


_COMPLEX: Mapping[str, Callable[..., Parts]] = {
    "stablehlo.exponential": _complex_exponential,
    "stablehlo.sine": _complex_sine,
    "stablehlo.cosine": _complex_cosine,
    "stablehlo.tanh": _complex_tangent,
    "stablehlo.log": _complex_logarithm,
}
