"""Functions wrong near one number alone: log(1 + x) at zero, cube roots at infinity."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgec.toolchain.ir.rewriting import rewrite_each
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["EdgeValues"]

_ROOT = "stablehlo.cbrt"
_LOGARITHM = "stablehlo.log_plus_one"
_NEAR = 0.4  # to either side of zero, the series is used
_TERMS = 6
"""Of the series of atanh(s) at s = x / (2 + x), |s| <= 1/4: what comes next is 5e-9 of the sum."""


@dataclass(frozen=True, kw_only=True)
class EdgeValues:
    """log(1 + x) of small x by a series, where it is computed as it is written; roots of infinity.

    Through Vulkan, WebGPU and Metal iree-compile 3.13 adds 1 and takes the logarithm, so that of a
    small x only those bits are left that fit behind a 1. Near zero log(1 + x) is 2 atanh(x / (2 +
    x)) here, whose series has six terms. Nothing in it can be put together again by a compiler that
    takes sums for exact, as (1 + x) - 1 in other ways. The cube root of an infinity came as no
    number, on every target.

    Measured: log1p of 1e-6 was off by 1 %, and so were arcsinh and arctanh (llvmpipe, 300 of 9,015
    numbers of all magnitudes each); with it none by more than 2e-7 of the answer.
    """

    name = "edge-values"
    purpose = Purpose.RIGHT

    names: frozenset[str] = frozenset({_ROOT})

    @classmethod
    def plan(cls, situation: Situation) -> "EdgeValues | None":
        """For programs in StableHLO with cube roots, and with log(1 + x) where SPIR-V runs."""
        names = {_ROOT, _LOGARITHM} if situation.target.is_spirv else {_ROOT}
        return cls(names=frozenset(names)) if situation.has(names, _is_meant) else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many functions."""
        return rewrite_each(module, sorted(self.names), _mended, open_sizes=True, as_one=True)


def _is_meant(op: Any) -> bool:
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    kinds = ir.F16Type | ir.BF16Type | ir.F32Type
    return isinstance(graph.element(op.operands[0]), kinds)


def _mended(op: Any) -> Sequence[Any] | None:
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    if not _is_meant(op):
        return None
    (value,) = op.operands
    x = graph.convert(value, ir.F32Type.get())
    result = _root(x) if op.name == _ROOT else _logarithm(x)
    return [graph.convert(result, graph.element(value))]


def _root(x: Any) -> Any:
    from edgec.toolchain.ir import write as graph

    infinite = graph.fill_like(x, float("inf"), graph.element(x))
    is_infinite = graph.compare("EQ", graph.unary("abs", x), infinite)
    return graph.select(is_infinite, x, graph.unary("cbrt", x))


def _logarithm(x: Any) -> Any:
    """log(1 + x) of a tensor of f32."""
    from edgec.toolchain.ir import write as graph

    def real(number: float) -> Any:
        return graph.fill_like(x, number, graph.element(x))

    ratio = graph.binary("divide", x, graph.binary("add", x, real(2)))
    square = graph.binary("multiply", ratio, ratio)
    series = real(2 / (2 * _TERMS - 1))
    for term in reversed(range(_TERMS - 1)):
        series = graph.binary("multiply", series, square)
        series = graph.binary("add", series, real(2 / (2 * term + 1)))
    near = graph.binary("multiply", ratio, series)
    far = graph.unary("log", graph.binary("add", x, real(1)))
    is_near = graph.compare("LT", graph.unary("abs", x), real(_NEAR))
    return graph.select(is_near, near, far)
