"""Sums of products and of negatives, on GPUs for which the compiler takes them for others."""

from dataclasses import dataclass
from typing import Any

from edgec.toolchain.ir.functions import inside
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["SummedProducts"]

_REDUCE = "stablehlo.reduce"
_TAKEN = ("stablehlo.multiply", "stablehlo.negate")
_MOVES = ("stablehlo.reshape", "stablehlo.transpose", "stablehlo.convert")


@dataclass(frozen=True, kw_only=True)
class SummedProducts:
    """Zero is added to a product or negative of floats before it is summed.

    iree-compile 3.13 takes a sum of products for a matrix product where a factor has not all the
    axes (a constant, a number for each row, an outer product), and then finds no way to share it
    among threads ("failed to distribute"): `sum(x * 1.5, axis=1)` is refused for CUDA, whatever its
    size. A sum of negatives becomes a repeated difference, which has "no neutral element":
    `sum(-x)` is refused, and so is every mean of negative log-likelihoods. With a zero added both
    are ordinary sums, in one kernel as before; the zero changes no sum. Products of integers come
    from a kernel of their own, since a zero added to them is folded away.

    Measured for CUDA: 14 of 22 such sums are refused without it, and none with it.
    """

    name = "summed-products"
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "SummedProducts | None":
        """For programs in StableHLO with reductions of products, for CUDA and ROCm."""
        if not situation.target.is_llvm_gpu:
            return None
        operations = situation.operations
        return cls() if _REDUCE in operations and operations & {*_TAKEN} else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many values."""
        from iree.compiler import ir

        from edgec.toolchain.ir.read import adds_up

        with module.context, ir.Location.name(f"edgec.{self.name}"):
            operations = list(inside(module.operation))
            sums = [op for op in operations if op.name == _REDUCE and adds_up(op)]
            return sum(_apart(op, place) for op in sums for place in range(len(op.results)))


def _apart(reduction: Any, place: int) -> int:
    """Keep a product or negative that a sum reads as it is; whether it reads one."""
    from iree.compiler import ir

    from edgec.toolchain.ir.read import maker

    reader, number = reduction, place
    while maker(reader.operands[number]) in _MOVES:
        reader, number = reader.operands[number].owner.operation, 0
    value = reader.operands[number]
    if maker(value) not in _TAKEN:
        return 0
    with ir.InsertionPoint(reader):
        reader.operands[number] = _kept(value)
    return 1


def _kept(value: Any) -> Any:
    """The same numbers by an operation that is not folded into a sum."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    kind = graph.element(value)
    if isinstance(kind, ir.FloatType):
        return graph.binary("add", value, graph.fill_like(value, 0.0, kind))
    return graph.fence(value)
