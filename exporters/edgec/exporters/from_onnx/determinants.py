"""ONNX' `Det` by elimination, each time with the row whose number is largest.

The importer's own eliminates without changing rows: with a zero in its way it gives NaN.
"""

from typing import Any

import numpy as np

from edgec.exporters.from_onnx.rewriting import Rewriting
from edgec.runtime.errors import UnsupportedOp

__all__ = ["det"]


def det(work: Rewriting, node: Any) -> bool:
    """Steps as many as a matrix has rows; in each the matrix loses its first row and column."""
    shape, kind = work.shapes.get(node.input[0]), work.kinds.get(node.input[0])
    if shape is None or kind is None:
        raise UnsupportedOp(
            "ONNX' Det of matrices whose shape is not known",
            where=f"node {node.name or node.output[0]}",
            hint="export the model with fixed shapes",
        )
    *batch, size, _ = shape
    count = int(np.prod(batch))
    one, zero, minus = (work.constant(np.array(number, kind)) for number in (1, 0, -1))
    value = work.reshape(node.input[0], [count, size, size])
    result = work.constant(np.ones((count, 1, 1), kind))
    for left in range(size, 0, -1):
        column = _part(work, value, 2, 0, 1)
        place = work.node("ArgMax", work.node("Abs", column), axis=1, keepdims=1)
        rows = work.constant(np.arange(left, dtype=np.int64).reshape(1, left, 1))
        taken = work.node("Equal", rows, place)
        chosen = work.node("Where", taken, value, zero)
        row = work.node("ReduceSum", chosen, work.numbers(1), keepdims=1)
        pivot = _part(work, row, 2, 0, 1)
        first = work.node("Equal", place, work.constant(np.array(0, np.int64)))
        signed = work.node("Mul", pivot, work.node("Where", first, one, minus))
        result = work.node("Mul", result, signed)
        if left == 1:
            break
        # The first row goes to where the largest was; of a column of zeros nothing is to be taken.
        top = _part(work, value, 1, 0, 1)
        changed = work.node("Where", taken, top, value)
        rest = _part(work, changed, 1, 1, left)
        heads = _part(work, rest, 2, 0, 1)
        none = work.node("Equal", pivot, zero)
        by = work.node("Div", heads, work.node("Where", none, one, pivot))
        tails, others = (_part(work, part, 2, 1, left) for part in (rest, row))
        value = work.node("Sub", tails, work.node("Mul", by, others))
    work.reshape(result, batch, output=node.output[0])
    return True


def _part(work: Rewriting, value: str, axis: int, start: int, end: int) -> str:
    return work.node("Slice", value, *(work.numbers(number) for number in (start, end, axis)))
