"""Writes rows rounded to bytes, group by group, in the form that `match/rounded_rows.py` reads.

A module imported only by what rewrites programs; it needs the compiler.
"""

from collections.abc import Sequence
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir import write
from edgec.toolchain.match.rounded_rows import LARGEST, SMALLEST

__all__ = ["rounded_rows"]


def rounded_rows(value: Any, group: int, *, moved: float = 0.0) -> Any:
    """The value with each group of its last axis on the 255 steps that its largest number allows.

    Args:
        value: f32, its last axis a whole number of groups.
        group: neighbours that share a scale.
        moved: what scales are off by, as a part of themselves.
    """
    sizes, f32 = write.shape(value), ir.F32Type.get()
    grouped = (*sizes[:-1], sizes[-1] // group, group)
    last = len(grouped) - 1
    whole = write.reshape(value, grouped)

    def larger(pair: Sequence[Any]) -> Sequence[Any]:
        return [write.binary("maximum", pair[0], pair[1])]

    zero = write.fill(0.0, (), f32)
    (most,) = write.reduce([write.unary("abs", whole)], [zero], [last], larger)
    most = write.binary("maximum", most, write.fill(SMALLEST, grouped[:-1], f32))
    scale = write.binary("multiply", most, write.fill((1 + moved) / LARGEST, grouped[:-1], f32))
    spread = write.broadcast(scale, grouped, range(last))
    steps = write.unary("round_nearest_even", write.binary("divide", whole, spread))
    return write.reshape(write.binary("multiply", steps, spread), sizes)
