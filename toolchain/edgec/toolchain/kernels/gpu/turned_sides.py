"""Products of rows that lie scattered in memory to products of rows that were laid together.

What is summed along several axes (`bhte,hed->btd`, heads and their columns) has no single step in
memory where other axes lie between, and no kernel reads it. Turned, it is rows like any: where an
attention computes it, its kernel writes it so, and else it is one pass over memory, which a product
that reads each element often is worth.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir import write
from edgec.toolchain.ir.read import shape_of
from edgec.toolchain.ir.write import is_static
from edgec.toolchain.match.matrix_product import axes_of, scattered
from edgec.toolchain.match.product import operations_named

__all__ = ["turn_sides"]

_LEAST_READS = 64
"""How often each element is read by a product that is worth a pass over them."""


def turn_sides(module: Any) -> int:
    """Lay together, row by row, the sides of products that have no single step.

    Args:
        module: an `ir.Module` in StableHLO, rewritten in place.

    Returns:
        How many products read such a side now.
    """
    return sum(_turned(op) for op in operations_named(module, "stablehlo.dot_general"))


def _turned(op: Any) -> bool:
    if not is_static(*op.operands) or any(batch for batch, _, _ in axes_of(op)):
        return False
    axes = axes_of(op)
    wanted = scattered(op)
    reads = [
        math.prod(shape_of(operand)[axis] or 0 for axis in own)
        for operand, (_, own, _) in zip(op.operands, axes, strict=True)
    ]
    # A side is read once for each row, or column, of the other.
    if not wanted or any(reads[1 - number] < _LEAST_READS for number in wanted):
        return False
    # What is summed comes in any order: in that in which the other side, or this one, has it.
    first = 1 - wanted[0] if len(wanted) == 1 else 0
    order = sorted(range(len(axes[0][2])), key=lambda place: axes[first][2][place])
    sides, summed = list(op.operands), [[inner[place] for place in order] for _, _, inner in axes]
    with ir.InsertionPoint(op), op.location:
        for number in wanted:
            own = axes[number][1]
            sides[number] = write.transpose(sides[number], [*own, *summed[number]])
            summed[number] = list(range(len(own), len(own) + len(order)))
        made = write.product(sides[0], sides[1], (summed[0], summed[1]), like=op)
    op.results[0].replace_all_uses_with(made)
    op.erase()
    return True
