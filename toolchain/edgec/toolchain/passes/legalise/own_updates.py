"""Updates in place of what may be an argument's memory get a copy to work in."""

from dataclasses import dataclass
from typing import Any

from edgec.toolchain.ir.functions import inside
from edgec.toolchain.passes.purpose import Purpose
from edgec.toolchain.passes.situation import Situation

__all__ = ["OwnUpdates"]

_UPDATE = "stablehlo.dynamic_update_slice"
_BRANCHES = ("stablehlo.if", "stablehlo.case")
_LOOP = "stablehlo.while"
_VIEWS = ("stablehlo.reshape", "stablehlo.bitcast_convert", "stablehlo.slice")
_BARRIER = "stablehlo.optimization_barrier"


@dataclass(frozen=True, kw_only=True)
class OwnUpdates:
    """Where a program writes a part of an array that may be an argument, it writes into a copy.

    iree-compile 3.13 writes into the argument's own buffer, which is the caller's array where that
    is shared, also where the argument is a result or is read afterwards by somebody else: after
    `y = x.at[3].set(0)` the third row of `x` is zero, too. What a loop carries on is copied once,
    before the loop. Sorts and scatters are seen to by passes of their own; state that a module
    keeps between calls is its own, and is written in place.

    Measured: of fourteen small programs of JAX's, three changed their argument without it, and none
    does with it.
    """

    name = "own-updates"
    purpose = Purpose.RIGHT

    @classmethod
    def plan(cls, situation: Situation) -> "OwnUpdates | None":
        """For programs in StableHLO with such updates."""
        return cls() if _UPDATE in situation.operations else None

    def run(self, module: Any) -> int:
        """Rewrite `module` (an `ir.Module` in StableHLO) in place; how many copies were made."""
        from iree.compiler import ir

        with module.context, ir.Location.name(f"edgec.{self.name}"):
            updates = [op for op in inside(module.operation) if op.name == _UPDATE]
            return sum(_owned(op, 0, ()) for op in updates)


def _owned(op: Any, index: int, within: tuple[Any, ...]) -> int:
    """Copy what an operation writes into, if it may be an argument's; how many copies."""
    from iree.compiler import ir

    from edgec.toolchain.ir import write as graph

    value = op.operands[index]
    root = _root(value)
    if isinstance(root, ir.BlockArgument):
        owner = root.owner.owner.operation
        if owner.name == _LOOP:
            # The same memory goes round: it is enough that the loop begins with its own.
            return 0 if owner in within else _owned(owner, root.arg_number, (*within, owner))
        if owner.name != "func.func" or not graph.is_static(value):
            return 0
    elif not _may_be_argument(root, ()):
        return 0
    with op.location, ir.InsertionPoint(op):
        op.operands[index] = graph.copied(value)
    return 1


def _root(value: Any) -> Any:
    """What lies in the same memory, as far back as there is one such value."""
    from iree.compiler import ir

    while not isinstance(value, ir.BlockArgument):
        op = value.owner.operation
        if op.name in _VIEWS:
            value = op.operands[0]
        elif op.name == _BARRIER:
            value = op.operands[ir.OpResult(value).result_number]
        else:
            return value
    return value


def _may_be_argument(value: Any, within: tuple[Any, ...]) -> bool:
    """Whether a result of a loop or a choice may be an argument that came through unchanged."""
    from iree.compiler import ir

    root = _root(value)
    if isinstance(root, ir.BlockArgument):
        owner = root.owner.owner.operation
        if owner.name == _LOOP and owner not in within:
            return _may_be_argument(owner.operands[root.arg_number], (*within, owner))
        return bool(owner.name == "func.func")
    op, number = root.owner.operation, ir.OpResult(root).result_number
    if op in within:
        return False
    if op.name == _LOOP:
        return _may_be_argument(op.operands[number], (*within, op))
    if op.name in _BRANCHES:
        ends = [list(region.blocks[0].operations)[-1] for region in op.regions]
        return any(_may_be_argument(end.operands[number], (*within, op)) for end in ends)
    return False
