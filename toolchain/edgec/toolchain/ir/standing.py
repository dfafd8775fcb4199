"""A kernel's value takes the place of another, and says so: its location is that of both.

The first place of a location is the line that a profile names; what follows says which value of
the model the kernel writes (`numbering`), however much it does after what it was placed for.

A module imported only by a pass that runs; it needs the compiler.
"""

from typing import Any

from iree.compiler import ir

__all__ = ["come_from", "stand_for"]


def stand_for(old: Any, new: Any) -> None:
    """Use `new` wherever `old` was used, and let what makes it carry the location of both."""
    come_from(new, old)
    old.replace_all_uses_with(new)


def come_from(new: Any, old: Any) -> None:
    """Add the location of what made `old` to that of what makes `new`, where both are made."""
    if isinstance(old.owner, ir.Block) or isinstance(new.owner, ir.Block):
        return
    made, before = new.owner.operation, old.owner.operation.location
    if made.location != before:
        made.location = ir.Location.fused([made.location, before])
