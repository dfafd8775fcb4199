"""Scatters of very many elements, in pieces: for GPUs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

from edgec.toolchain.ir.rewriting import rewrite_each
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["SplitScatters"]


@dataclass(frozen=True, kw_only=True)
class SplitScatters:
    """A scatter of rows that may meet each other writes at most 32,768 elements at once.

    Where two rows may go to one place (gradients of embeddings, histograms), iree-compile 3.13 lets
    one thread write all of them in a loop, element by element, and Mesa's llvmpipe ends every loop
    after 65,535 rounds: what comes after them was not written.

    Measured on llvmpipe: of five scatters of 65,536 to 262,144 elements all are wrong without it.
    """

    name = "split-scatters"
    purpose = Purpose.RIGHT
    most: int = 32768
    """Elements that are written at once."""

    @classmethod
    def plan(cls, situation: Situation) -> "SplitScatters | None":
        """For programs in StableHLO with scatters that become SPIR-V."""
        if not situation.target.is_spirv:
            return None
        return cls() if "stablehlo.scatter" in situation.operations else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many were split."""
        return rewrite_each(module, ["stablehlo.scatter"], partial(_split, most=self.most))


def _split(op: Any, *, most: int) -> Sequence[Any] | None:
    from edgec.toolchain.ir import write as graph

    if len(op.operands) != 3 or not _is_of_rows(op) or graph.flag(op, "unique_indices"):
        return None
    operand, indices, updates = op.operands
    turns, *window = graph.shape(updates)
    width = math.prod(window)
    if turns * width <= most:
        return None
    each = max(1, most // width)
    rows = [*range(0, turns, each), turns]
    columns = [*range(0, width, most), width]
    sizes = graph.shape(operand)
    # Whole rows as they are; parts of rows as matrices.
    whole = width <= most
    parts = []
    for left, right in pairwise(columns):
        made = operand if whole else graph.fence(_columns(operand, left, right))
        for begin, end in pairwise(rows):
            chosen = graph.cut(updates, 0, begin, end)
            piece = chosen if whole else _columns(chosen, left, right)
            made = _scattered(op, made, graph.cut(indices, 0, begin, end), piece)
        parts.append(made)
    joined = parts[0] if len(parts) == 1 else graph.concatenate(parts, 1)
    return [graph.reshape(joined, sizes)]


def _is_of_rows(op: Any) -> bool:
    """Whether each update is a whole row, which is how `flatten-scatters` leaves them."""
    from edgec.toolchain.ir import write as graph

    numbers = op.attributes["scatter_dimension_numbers"]
    rank = len(graph.shape(op.operands[2]))
    said = {
        "update_window_dims": list(range(1, rank)),
        "inserted_window_dims": [0],
        "scatter_dims_to_operand_dims": [0],
    }
    rows = all(list(graph.numbers(numbers, name)) == wanted for name, wanted in said.items())
    shape, places = graph.shape(op.operands[0]), graph.shape(op.operands[1])
    return rows and len(places) == 2 and shape[1:] == graph.shape(op.operands[2])[1:]


def _columns(value: Any, left: int, right: int) -> Any:
    """Some columns of an array as a matrix."""
    from edgec.toolchain.ir import write as graph

    rows, *rest = graph.shape(value)
    matrix = graph.reshape(value, [rows, math.prod(rest)])
    return graph.cut(matrix, 1, left, right)


def _scattered(op: Any, operand: Any, indices: Any, updates: Any) -> Any:
    """The same scatter of other values."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    copy = op.clone()
    for number, value in enumerate((operand, indices, updates)):
        copy.operands[number] = value
    if len(graph.shape(updates)) != len(graph.shape(op.operands[2])):
        copy.attributes["scatter_dimension_numbers"] = ir.Attribute.parse(
            "#stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], "
            "scatter_dims_to_operand_dims = [0], index_vector_dim = 1>"
        )
    copy.results[0].set_type(operand.type)
    return copy.results[0]
