"""Products by weights in blocks to ones whose left sides are rounded to bytes at every call.

A module imported only by what rewrites programs; it needs the compiler.
"""

from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir.functions import inside
from edgec.toolchain.ir.write_rounded import rounded_rows
from edgec.toolchain.match.block_product import read_block_product

__all__ = ["round_left_sides"]


def round_left_sides(module: Any, *, moved: float = 0.0) -> int:
    """Round the left side of every product by blocks, in the groups of its weights, in place.

    Args:
        module: the program, its calls inlined.
        moved: what scales are off by, as a part of themselves.

    Returns:
        How many products have such a left side now.
    """
    made: dict[tuple[Any, int], Any] = {}
    count = 0
    products = [op for op in inside(module.operation) if op.name == "stablehlo.dot_general"]
    for op in products:
        found = read_block_product(op)
        if found is None:
            continue
        key = (found.left, found.weights.group)
        if key not in made:
            owner = found.left.owner
            if isinstance(owner, ir.Block):
                point = ir.InsertionPoint.at_block_begin(owner)
            else:
                point = ir.InsertionPoint.after(owner.operation)
            with point, op.location:
                made[key] = rounded_rows(*key, moved=moved)
        op.operands[0] = made[key]
        count += 1
    return count
