"""Powers of negative numbers, and to the zeroth, as C's pow has them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgec.toolchain.ir.rewriting import rewrite_each
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["SignedPowers"]

_WRITTEN_OUT = 16
"""Whole exponents up to here are products."""


@dataclass(frozen=True, kw_only=True)
class SignedPowers:
    """A power takes the size of its base, and the sign by its exponent.

    iree-compile 3.13 computes `x ** y` as `exp(y * log(x))`, so that a negative base gives no
    number whatever the exponent is, and 0 ** 0 neither: `x ** 4` of PyTorch, `jnp.vander` and all
    that fits polynomials. It knows 2, 3 and a few others only. A whole constant exponent becomes
    products here; any other one is looked at as it runs.

    Measured on the CPU and llvmpipe: of 72 pairs of bases and exponents 29 are not numbers without
    it, and all are C's with it.
    """

    name = "signed-powers"
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "SignedPowers | None":
        """For programs in StableHLO with a power."""
        return cls() if "stablehlo.power" in situation.operations else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many powers changed."""
        return rewrite_each(module, ["stablehlo.power"], _signed)


def _signed(op: Any) -> Sequence[Any] | None:
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph
    from edgec.toolchain.ir.fold import splat

    base, exponent = op.operands
    kind, sizes = graph.element(base), graph.shape(base)
    if isinstance(kind, ir.ComplexType | ir.IntegerType):
        return None
    known = splat(exponent)
    if known is not None and not known.is_integer():
        return None
    if known is not None and abs(known) <= _WRITTEN_OUT:
        return [_product(base, int(known))]

    def number(value: float) -> Any:
        return graph.fill(value, sizes, kind)

    size = graph.create("stablehlo.power", base.type, [graph.unary("abs", base), exponent])
    size = graph.select(graph.compare("EQ", exponent, number(0)), number(1), size)
    half = graph.binary("multiply", exponent, number(0.5))
    is_even = graph.compare("EQ", graph.unary("floor", half), half)
    is_whole = graph.compare("EQ", graph.unary("floor", exponent), exponent)
    turned = graph.select(is_even, size, graph.unary("negate", size))
    turned = graph.select(is_whole, turned, number(float("nan")))
    return [graph.select(graph.compare("LT", base, number(0)), turned, size)]


def _product(base: Any, exponent: int) -> Any:
    """The power by squares and products; the reciprocal of one where the exponent is negative."""
    from edgec.toolchain.ir import write as graph

    one = graph.fill(1, graph.shape(base), graph.element(base))
    result, square, rest = None, base, abs(exponent)
    while rest:
        if rest % 2:
            result = square if result is None else graph.binary("multiply", result, square)
        rest //= 2
        if rest:
            square = graph.binary("multiply", square, square)
    if result is None:
        return one
    return graph.binary("divide", one, result) if exponent < 0 else result
