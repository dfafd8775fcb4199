"""The softmax of rows: the largest element, the sum of powers, and then each element's share.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from iree.compiler.dialects import arith, vector
from iree.compiler.dialects import math as functions

from edgec.toolchain.kernels.cpu.source.built import number
from edgec.toolchain.kernels.cpu.source.rows import Formula, Gather

__all__ = ["SoftmaxFormula"]

_LOWEST = float(np.finfo(np.float32).min)


@dataclass(frozen=True, kw_only=True)
class SoftmaxFormula(Formula):
    """`exp(x - largest) / sum`; powers are computed twice, so that only results are written.

    Attributes:
        safe: a row of nothing but minus infinity gives zeros, not NaN.
    """

    safe: bool

    @property
    def gathers(self) -> Sequence[Gather]:
        """The largest element, and one over the sum of powers."""
        return [
            Gather(
                start=-math.inf,
                add=lambda value, most, _: arith.maxnumf(value, most),
                join=arith.maxnumf,
                kind=vector.CombiningKind.MAXNUMF,
                of=self._bounded,
            ),
            Gather(
                start=0.0,
                add=lambda value, total, known: arith.addf(total, _power(value, known[0])),
                join=arith.addf,
                kind=vector.CombiningKind.ADD,
                of=self._inverse,
            ),
        ]

    def result(self, value: Any, known: Sequence[Any], columns: Sequence[Any]) -> Any:
        """A vector's shares."""
        return arith.mulf(_power(value, known[0]), known[1])

    def _bounded(self, most: Any) -> Any:
        return arith.maxnumf(most, number(_LOWEST, most.type)) if self.safe else most

    def _inverse(self, total: Any) -> Any:
        inverse = arith.divf(number(1.0, total.type), total)
        if not self.safe:
            return inverse
        zero = number(0.0, total.type)
        nothing = arith.cmpf(arith.CmpFPredicate.OEQ, total, zero)
        return arith.select(nothing, zero, inverse)


def _power(value: Any, most: Any) -> Any:
    return functions.exp(arith.subf(value, most))
