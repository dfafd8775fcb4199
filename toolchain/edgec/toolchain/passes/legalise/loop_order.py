"""What is computed before a loop is done before it, where another loop follows."""

from collections.abc import Iterator
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
    """What is read behind two loops, of which one takes the other's values, is made before them.

    iree-compile 3.13 gathers dispatches to submissions by what they read of each other, but does
    not follow this through loops: where a loop takes a value of a dispatch, a second loop a value
    of the first, and a later dispatch both a value of the second loop and one of the first
    dispatch, the two dispatches may come into one submission, which needs its own result. Here
    what is computed before the first loop, and read at it or later, goes through a barrier before
    it. On a GPU the host waits there once.

    Measured on the CPU: JAX's `gmres` (6 unknowns, restarted after 3) is refused without it
    ("failed to schedule execution partitions without cyclic dependencies"), and right with it on
    edgert and `local-sync`. IREE's `local-task` refuses the call of its `incremental` form, since
    the compiler waits for no memory there ("transient buffer has not been committed").
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
    """Put a barrier before each of a block's loops that needs one; how many."""
    done = 0
    for loop in loops[:-1]:
        operations = [each.operation for each in block.operations]
        places = [operations.index(each) for each in loops]
        needed = _behind(operations, places)
        place = operations.index(loop)
        followers = {other for other in places if place in needed[other]}
        read = _read(operations, place, block) if followers else {}
        if any(needed[each] & followers for each in _reached(read, operations, place)):
            _put(loop, read)
            done += 1
    return done


def _behind(operations: list[Any], loops: list[int]) -> list[set[int]]:
    """Of which of these loops each operation needs a value, through others too."""
    made: dict[Any, set[int]] = {}
    needed = []
    for place, op in enumerate(operations):
        found = set().union(*(made.get(value, ()) for value in _operands(op)))
        needed.append(found)
        given = found | {place} if place in loops else found
        made |= {result: given for result in op.results if given}
    return needed


def _operands(op: Any) -> Iterator[Any]:
    """What an operation and those within it read."""
    from edgec.toolchain.ir import write as graph

    yield from op.operands
    for inner in graph.inside(op):
        yield from inner.operands


def _reached(read: dict[Any, list[Any]], operations: list[Any], place: int) -> list[int]:
    """Which operations from a place on take something of these values, through others too.

    Not through loops, but an operation between that needs none may become one dispatch with the
    last.
    """
    known = set(read)
    found = []
    for at, op in enumerate(operations[place:], place):
        if any(value in known for value in _operands(op)):
            found.append(at)
            if op.name != _LOOP:
                known.update(op.results)
    return found


def _read(operations: list[Any], place: int, block: Any) -> dict[Any, list[Any]]:
    """What is computed before a place of the block, and where it is read from there on."""
    before = {value for op in operations[:place] for value in op.results}
    read: dict[Any, list[Any]] = {}
    for op in operations[:place]:
        for value in () if op.name in _KEPT else op.results:
            owners = ((use, _of_block(use.owner, block)) for use in value.uses)
            uses = [use for use, op in owners if not any(each in before for each in op.results)]
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
