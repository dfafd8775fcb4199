"""Truth values that products take as numbers, chosen by a select."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from edgec.toolchain.ir.rewriting import rewrite_each
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["ChosenTruths"]

_PRODUCTS = {"stablehlo.dot_general", "stablehlo.convolution"}
_MOVES = {
    f"stablehlo.{name}" for name in ("broadcast_in_dim", "reshape", "reverse", "slice", "transpose")
}


@dataclass(frozen=True, kw_only=True)
class ChosenTruths:
    """A truth value that a product takes as a number is a choice between one and zero.

    iree-compile 3.13 reads a conversion before a product as part of it, and so gives a product of a
    vector and a matrix the truth values themselves, which lie in memory as bytes: "'linalg.vecmat'
    op expected type of bb argument #1 ('i1') to match element or self type of the corresponding
    operand ('i8')". A choice stays an operation of its own, and costs what the conversion does.

    Measured: a vector times a mask of truth values, and JAX's orthogonal initialiser of three rows,
    are refused for the CPU without it.
    """

    name = "chosen-truths"
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "ChosenTruths | None":
        """For programs in StableHLO with products and conversions."""
        has_products = bool(situation.operations & _PRODUCTS)
        return cls() if has_products and "stablehlo.convert" in situation.operations else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many conversions."""
        return rewrite_each(module, ["stablehlo.convert"], _chosen)


def _chosen(op: Any) -> Sequence[Any] | None:
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    (value,), (result,) = op.operands, op.results
    before, after = graph.element(value), graph.element(result)
    is_truth = isinstance(before, ir.IntegerType) and before.width == 1
    is_number = isinstance(after, ir.FloatType | ir.IntegerType)
    if not (is_truth and is_number) or not any(name in _PRODUCTS for name in _takers(result)):
        return None
    sizes = graph.shape(value)
    return [graph.select(value, graph.fill(1, sizes, after), graph.fill(0, sizes, after))]


def _takers(value: Any) -> Iterator[str]:
    """The names of what takes a value, as it is or moved."""
    for use in value.uses:
        op = use.owner
        if op.name in _MOVES:
            yield from _takers(op.results[0])
        else:
            yield op.name
