"""Operations that nothing uses any more, erased.

A module imported only by a pass that runs; it needs the compiler.
"""

from typing import Any

from edgec.toolchain.ir.functions import inside

__all__ = ["erase_unused"]


def erase_unused(module: Any) -> None:
    """Erase StableHLO operations of `module` (an `ir.Module`) whose results nobody uses."""
    for op in reversed(list(inside(module.operation))):
        whole = op.name.startswith("stablehlo.") and op.name != "stablehlo.custom_call"
        if whole and list(op.results) and not any(list(value.uses) for value in op.results):
            op.erase()
