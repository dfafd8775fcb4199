"""Who uses a value: chains are followed from one value to the next while each has one use.

A module imported only by a pass that runs; it needs the compiler.
"""

from collections.abc import Sequence
from typing import Any

__all__ = ["last_uses", "only_use", "only_user"]


def only_use(value: Any) -> Any | None:
    """The one use of a value (`.owner`, `.operand_number`); None where it has none or several."""
    uses = list(value.uses)
    return uses[0] if len(uses) == 1 else None


def only_user(value: Any) -> Any | None:
    """The operation that alone uses a value, and uses it once; None where there is none."""
    use = only_use(value)
    return None if use is None else use.owner.operation


def last_uses(operations: Sequence[Any]) -> dict[int, list[Any]]:
    """Which values no operation of a block reads after a place, regions included."""
    seen: dict[Any, int] = {}
    for place, op in enumerate(operations):
        for value in _read_by(op):
            seen[value] = place
    found: dict[int, list[Any]] = {}
    for value, place in seen.items():
        found.setdefault(place, []).append(value)
    return found


def _read_by(op: Any) -> list[Any]:
    values = list(op.operands)
    for region in op.regions:
        for block in region.blocks:
            for each in block.operations:
                values += _read_by(each.operation)
    return values
