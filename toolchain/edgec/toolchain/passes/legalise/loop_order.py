"""What is computed before a loop is done before it, where another loop follows."""

from dataclasses import dataclass
from typing import Any

from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["LoopOrder"]

_LOOP = "stablehlo.while"
_KEPT = ("stablehlo.constant", "util.global.load")
"""What no dispatch makes."""


@dataclass(frozen=True, kw_only=True)
class LoopOrder:
    """What is computed before a loop is made before it, where another loop follows in the block.

    iree-compile 3.13 gathers dispatches to submissions by what they read of each other, but does
    not follow this through loops: where a loop takes a value of a dispatch, a second loop a value
    of the first, and a later dispatch both a value of the second loop and one of the first
    dispatch, the two dispatches may come into one submission, which needs its own result. Here
    what is computed before a loop that is not its block's last, and read at it or later, goes
    through a barrier before it; on a GPU the host waits there once. What has a size that only a
    call knows is left alone.

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
        return cls() if _LOOP in situation.operations else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many barriers."""
        from iree.compiler import ir

        from edgec.toolchain.ir import write as graph

        loops: dict[Any, list[Any]] = {}
        for op in graph.inside(module.operation):
            if op.name == _LOOP:
                loops.setdefault(op.block, []).append(op)
        with module.context, ir.Location.name(f"edgec.{self.name}"):
            return sum(_order(block, found) for block, found in loops.items() if len(found) > 1)


def _order(block: Any, loops: list[Any]) -> int:
    """Put a barrier before each of a block's loops that another follows; how many."""
    done = 0
    for loop in loops[:-1]:
        operations = [each.operation for each in block.operations]
        read = _read(operations, operations.index(loop), block)
        if read:
            _put(loop, read)
            done += 1
    return done


def _read(operations: list[Any], place: int, block: Any) -> dict[Any, list[Any]]:
    """What is computed before a place of the block, and where it is read from there on."""
    from edgec.toolchain.ir import write as graph

    before = {value for op in operations[:place] for value in op.results}
    read: dict[Any, list[Any]] = {}
    for op in operations[:place]:
        for value in () if op.name in _KEPT else op.results:
            if not graph.is_static(value):
                continue
            readers = ((use, _of_block(use.owner, block)) for use in value.uses)
            uses = [use for use, by in readers if not any(each in before for each in by.results)]
            if uses:
                read[value] = uses
    return read


def _put(loop: Any, read: dict[Any, list[Any]]) -> None:
    """The values go through one barrier before the loop."""
    from iree.compiler import ir

    types = [value.type for value in read]
    with ir.InsertionPoint(loop):
        made = ir.Operation.create("stablehlo.optimization_barrier", types, list(read))
    for uses, behind in zip(read.values(), made.results, strict=True):
        for use in uses:
            use.owner.operands[use.operand_number] = behind


def _of_block(op: Any, block: Any) -> Any:
    """The operation of the block that this one is, or is within."""
    op = op.operation
    while op.block != block:
        op = op.parent.operation
    return op
