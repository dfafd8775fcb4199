"""Choices and updates of complex numbers, part by part."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgec.toolchain.passes.rewriting import rewrite_each
from edgec.toolchain.passes.situation import Situation

__all__ = ["SplitComplex"]

_MOVES = (
    "stablehlo.select",
    "stablehlo.dynamic_update_slice",
    "stablehlo.gather",
)


@dataclass(frozen=True, kw_only=True)
class SplitComplex:
    """Complex numbers are chosen, updated and looked up as real and imaginary parts.

    iree-compile 3.13 has no code for a choice between complex numbers in SPIR-V ("failed to
    legalize operation 'arith.select'"), and computes updates of complex constants to something
    that is no constant ("'value' failed to satisfy constraint: TypedAttr instance").
    """

    name = "split-complex"

    @classmethod
    def plan(cls, situation: Situation) -> "SplitComplex | None":
        """For programs in StableHLO with such an operation."""
        return cls() if situation.operations & set(_MOVES) else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many operations."""
        return rewrite_each(module, _MOVES, _split)


def _split(op: Any) -> Sequence[Any] | None:
    from iree.compiler import ir

    from edgec.toolchain.passes import graph

    (result,) = op.results
    kind = graph.element(result)
    if not isinstance(kind, ir.ComplexType):
        return None
    plain = graph.tensor(graph.shape(result), kind.element_type)
    attributes = dict(op.attributes.items())
    parts = [
        graph.create(
            op.name,
            plain,
            [
                graph.part(name, value) if graph.element(value) == kind else value
                for value in op.operands
            ],
            attributes,
        )
        for name in ("real", "imag")
    ]
    return [graph.complex_(*parts)]
