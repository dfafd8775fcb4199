"""Who uses a value: chains are followed from one value to the next while each has one use.

A module imported only by a pass that runs; it needs the compiler.
"""

from typing import Any

__all__ = ["only_use", "only_user"]


def only_use(value: Any) -> Any | None:
    """The one use of a value (`.owner`, `.operand_number`); None where it has none or several."""
    uses = list(value.uses)
    return uses[0] if len(uses) == 1 else None


def only_user(value: Any) -> Any | None:
    """The operation that alone uses a value, and uses it once; None where there is none."""
    use = only_use(value)
    return None if use is None else use.owner.operation
