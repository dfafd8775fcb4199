"""The kernel of a loop in the loop's place.

A module imported only by a pass that runs; it needs the compiler.
"""

from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir import write as graph
from edgec.toolchain.kernels.cpu.library import Library
from edgec.toolchain.kernels.cpu.recurrence_plan import Plan, Weights
from edgec.toolchain.kernels.cpu.source.recurrence import Product, recurrence_kernel
from edgec.toolchain.kernels.cpu.source.vectors import VectorUnit
from edgec.toolchain.kernels.cpu.weights import pack_matrix

__all__ = ["emit"]


def emit(plan: Plan, library: Library, unit: VectorUnit) -> None:
    """Replace the plan's loop by a dispatch, in place."""
    loop = plan.loop
    products = [s for s in plan.recurrence.turn if isinstance(s, Product)]
    sizes = "".join(f"_{p.depth}x{p.columns}" for p in products)
    with ir.InsertionPoint(loop), loop.location:
        inputs = [
            pack_matrix(v.value, v.starts, v.width, turned=v.turned)
            if isinstance(v, Weights)
            else v
            for v in plan.inputs
        ]
        results = library.call_all(
            f"edgec_recurrence_{plan.recurrence.turns}{sizes}",
            recurrence_kernel("NAME", plan.recurrence, unit),
            inputs,
            [loop.results[place].type for place in plan.outputs],
        )
        replaced: dict[int, Any] = dict(zip(plan.outputs, results, strict=True))
        for place, number in plan.counts.items():
            kind = graph.element(loop.results[place])
            replaced[place] = graph.fill(number, graph.shape(loop.results[place]), kind)
    for place, value in replaced.items():
        loop.results[place].replace_all_uses_with(value)
    loop.erase()
