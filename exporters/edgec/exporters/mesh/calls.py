"""Custom calls that stand for something else than code.

On the bindings that the caller names, which are iree.compiler's or jaxlib's.
"""

from typing import Any

__all__ = ["LOOP", "MARKERS", "target_of"]

LOOP = "edgec.turns"
"""A loop or a branch (`loops`)."""
MARKERS = frozenset(("Sharding", "annotate_device_placement", "LayoutConstraint"))
"""Calls that return their operand and only advise XLA."""


def target_of(ir: Any, operation: Any) -> str:
    """What a custom call calls; nothing for another operation."""
    if operation.name != "stablehlo.custom_call":
        return ""
    return str(ir.StringAttr(operation.attributes["call_target_name"]).value)
