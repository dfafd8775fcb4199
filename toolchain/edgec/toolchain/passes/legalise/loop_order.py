"""What is computed before a loop is done before it, where another loop or reader follows."""

from dataclasses import dataclass
from typing import Any

from edgec.toolchain.ir.functions import blocks_inside
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["LoopOrder"]

_LOOP, _COUNTED = "stablehlo.while", "scf.for"
"""A loop by what it computes, and one that the host counts (`host-loops`)."""
_KEPT = ("stablehlo.constant", "util.global.load")
"""What no dispatch makes."""


@dataclass(frozen=True, kw_only=True)
class LoopOrder:
    """What is computed before a loop is made before it, where another loop or reader follows.

    iree-compile 3.13 gathers dispatches to submissions by what they read of each other, but does
    not follow this through loops: where a loop takes a value of a dispatch, a second loop a value
    of the first, and a later dispatch both a value of the second loop and one of the first
    dispatch, the two dispatches may come into one submission, which needs its own result. Here
    what is computed before a loop that is not its block's last, and read at it or later, goes
    through a barrier before it; on a GPU the host waits there once. So does, beside
    kernels of edgec's own, what a last loop, or one that the host counts, shares with another
    reader: rows that are sorted by a loop and columns by a kernel ("circular dependency: input
    operation uses partition output"). What has a size that only a call knows is left alone.

    Measured on the CPU: JAX's `gmres` (6 unknowns, restarted after 3) is refused without it
    ("failed to schedule execution partitions without cyclic dependencies"), L-BFGS of a function
    of two complex numbers as well ("failed to solve for timepoint coverage"); both are right with
    it on edgert and `local-sync`. IREE's `local-task` refuses the call of `gmres`' `incremental`
    form, since the compiler waits for no memory there ("transient buffer has not been committed").
    """

    name = "loop-order"
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "LoopOrder | None":
        """For programs in StableHLO with loops."""
        return cls() if {_LOOP, _COUNTED} & situation.operations else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many barriers."""
        from iree.compiler import ir
        from iree.compiler.passmanager import PassManager

        with module.context, ir.Location.name(f"edgec.{self.name}"):
            # The compiler makes one of what is computed twice, too, and then a loop shares it.
            PassManager.parse("builtin.module(cse)").run(module.operation)
            return sum(map(_order, blocks_inside(module.operation)))


def _order(block: Any) -> int:
    """Put a barrier before a block's loops that others follow or share values with; how many.

    Each value goes through one alone: handed on from loop to loop, values of 40 loops are more
    than the compiler's analyses follow ("failed to solve for usage analysis").
    """
    operations = [each.operation for each in block.operations]
    loops = [place for place, op in enumerate(operations) if op.name in (_LOOP, _COUNTED)]
    if not loops:
        return 0
    readings = [_readings(op) for op in operations]
    places: dict[Any, set[int]] = {}
    for place, each in enumerate(readings):
        for value, _, _ in each:
            places.setdefault(value, set()).add(place)
    follow = [place for place in loops if operations[place].name == _LOOP][:-1]
    calls = any(op.name == "flow.dispatch" for op in operations)
    fresh: list[Any] = []  # computed since the loop before
    behind: dict[Any, Any] = {}  # what became of it in its barrier
    done = 0
    for place, op in enumerate(operations):
        if place in loops:
            shared = [
                v for v in fresh if calls and place in places.get(v, ()) and len(places[v]) > 1
            ]
            late = [v for v in fresh if max(places.get(v, ()), default=-1) >= place]
            read = [v for v in (late if place in follow else shared) if v not in behind]
            if read:
                behind |= zip(read, _barrier(op, read), strict=True)
                done += 1
            if op.name == _LOOP:
                fresh = []
        for value, owner, number in readings[place]:
            if value in behind:
                owner.operands[number] = behind[value]
        fresh += _made(op)
    return done


def _readings(op: Any) -> list[tuple[Any, Any, int]]:
    """What an operation and those within it read: the value, who reads it, as which operand."""
    from edgec.toolchain.ir import write as graph

    return [
        (value, owner, number)
        for owner in (*graph.inside(op), op)
        for number, value in enumerate(owner.operands)
    ]


def _made(op: Any) -> list[Any]:
    """The results of an operation that a dispatch makes and whose size is known."""
    from edgec.toolchain.ir import write as graph

    return [] if op.name in _KEPT else [each for each in op.results if graph.is_static(each)]


def _barrier(loop: Any, values: list[Any]) -> list[Any]:
    """The values behind one barrier before the loop."""
    from iree.compiler import ir

    with ir.InsertionPoint(loop):
        types = [value.type for value in values]
        made = ir.Operation.create("stablehlo.optimization_barrier", types, values)
    return list(made.results)
