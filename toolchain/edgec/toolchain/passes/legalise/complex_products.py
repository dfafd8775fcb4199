"""Products of complex matrices, and convolutions, as products of their real and imaginary parts."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from edgec.targets import Backend
from edgec.toolchain.ir.rewriting import rewrite_each
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["ComplexProducts"]

_JOIN = "stablehlo.complex"
_PRODUCTS = ("stablehlo.dot_general", "stablehlo.convolution")


@dataclass(frozen=True, kw_only=True)
class ComplexProducts:
    """A product of complex numbers becomes four of real ones, a sum and a difference.

    iree-compile 3.13 refuses most matrix products of complex numbers on the CPU ("requires valid
    padding vector elemental type") or dies in them, and has no vector code for the others. The
    parts are taken and put together by kernels of their own, as the product's would be refused
    with them, too. So are those of a framework that has split the product itself (JAX's complex
    convolutions): for CUDA and ROCm, where the compiler dies of them at 1 x 1, and on CPUs beside
    convolutions, where it refuses those without axes to slide along.

    Measured with `benchmarks.operators.passes` on the CPU: it changes 21 of 2,448 operator cases;
    of 6 tried, 6 are right with it and 2 without.
    """

    name = "complex-products"
    purpose = Purpose.RIGHT

    joins_apart: bool = False
    """Whether what a program joins of products itself is joined apart, too."""

    @classmethod
    def plan(cls, situation: Situation) -> "ComplexProducts | None":
        """For programs in StableHLO with matrix products or convolutions."""
        if not situation.operations & set(_PRODUCTS):
            return None
        target = situation.target
        slides = target.backend is Backend.CPU and "stablehlo.convolution" in situation.operations
        return cls(joins_apart=target.is_llvm_gpu or slides)

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many products changed."""
        apart = partial(_apart, plain=set())
        joined = rewrite_each(module, [_JOIN], apart) if self.joins_apart else 0
        return joined + rewrite_each(module, _PRODUCTS, _split)


def _apart(op: Any, *, plain: set[Any]) -> Sequence[Any] | None:
    """A join of two parts behind a barrier, if a product has to do with them.

    `plain` is what is known to come of no product; what is found out goes there.
    """
    from edgec.toolchain.ir import write as graph

    if not _has_product(op, plain):
        return None
    return [graph.complex_(*(graph.fence(value) for value in op.operands))]


def _has_product(join: Any, plain: set[Any]) -> bool:
    from iree.compiler import ir

    waiting, seen = list(join.operands), set[Any]()
    while waiting:
        value = waiting.pop()
        if value in seen or value in plain or isinstance(value.owner, ir.Block):
            continue
        seen.add(value)
        op = value.owner.operation
        if op.name in _PRODUCTS:
            return True
        if op.name != "stablehlo.optimization_barrier":
            waiting += op.operands
    plain |= seen
    return False


def _split(op: Any) -> Sequence[Any] | None:
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    (result,) = op.results
    if not isinstance(graph.element(result), ir.ComplexType):
        return None
    kind = graph.tensor(graph.shape(result), ir.ComplexType(graph.element(result)).element_type)
    attributes = dict(op.attributes.items())
    parts = [
        [graph.unary("optimization_barrier", graph.part(n, value)) for n in ("real", "imag")]
        if isinstance(graph.element(value), ir.ComplexType)
        else [graph.convert(value, kind.element_type), None]
        for value in op.operands
    ]
    (a, b), (c, d) = parts

    def times(left: Any, right: Any) -> Any | None:
        if left is None or right is None:
            return None
        return graph.create(op.name, kind, [left, right], attributes)

    real, imaginary = times(a, c), _joined("add", times(a, d), times(b, c))
    real = _joined("subtract", real, times(b, d))
    fenced = [graph.unary("optimization_barrier", value) for value in (real, imaginary)]
    return [graph.complex_(*fenced)]


def _joined(name: str, left: Any | None, right: Any | None) -> Any:
    from edgec.toolchain.ir import write as graph

    if left is None or right is None:
        return right if left is None else left
    return graph.binary(name, left, right)
