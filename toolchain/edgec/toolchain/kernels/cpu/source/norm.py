"""Norms of rows: the mean, the sum of squares of what differs from it, and then each element.

A module imported only by a pass that runs; it needs the compiler.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from iree.compiler.dialects import arith, vector
from iree.compiler.dialects import math as functions

from edgec.toolchain.kernels.cpu.source.built import number
from edgec.toolchain.kernels.cpu.source.rows import Axes, Formula, Gather

__all__ = ["NormFormula"]


@dataclass(frozen=True, kw_only=True)
class NormFormula(Formula):
    """`(x - mean) / sqrt(variance + epsilon) * scale + shift`.

    Attributes:
        count: how many elements a row has.
        epsilon: what is added to the variance.
        mean: whether the mean is subtracted; otherwise it is a norm by the mean of squares.
        scale, shift: the axes along which there are factors and summands; None for none.
        fused: whether multiply and add are one instruction.
    """

    count: int
    epsilon: float
    mean: bool
    scale: Axes | None
    shift: Axes | None
    fused: bool

    @property
    def columns(self) -> Sequence[Axes]:
        """Factors and summands, where there are some."""
        return [axes for axes in (self.scale, self.shift) if axes is not None]

    @property
    def gathers(self) -> Sequence[Gather]:
        """The mean, if it is subtracted; and what a row is multiplied with."""
        kind, join = vector.CombiningKind.ADD, arith.addf
        mean = Gather(
            start=0.0,
            add=lambda value, total, _: arith.addf(total, value),
            join=join,
            kind=kind,
            of=self._averaged,
        )
        squares = Gather(start=0.0, add=self._add_square, join=join, kind=kind, of=self._deviation)
        return [mean, squares] if self.mean else [squares]

    def result(self, value: Any, known: Sequence[Any], columns: Sequence[Any]) -> Any:
        """A vector's result."""
        value = arith.mulf(self._centred(value, known), known[-1])
        left = iter(columns)
        if self.scale is not None:
            value = arith.mulf(value, next(left))
        if self.shift is not None:
            value = arith.addf(value, next(left))
        return value

    def _centred(self, value: Any, known: Sequence[Any]) -> Any:
        return arith.subf(value, known[0]) if self.mean else value

    def _add_square(self, value: Any, total: Any, known: Sequence[Any]) -> Any:
        value = self._centred(value, known)
        if self.fused:
            return vector.fma(value, value, total)
        return arith.addf(arith.mulf(value, value), total)

    def _averaged(self, total: Any) -> Any:
        return arith.divf(total, number(self.count, total.type))

    def _deviation(self, squares: Any) -> Any:
        variance = self._averaged(squares)
        root = functions.sqrt(arith.addf(variance, number(self.epsilon, squares.type)))
        return arith.divf(number(1.0, squares.type), root)
