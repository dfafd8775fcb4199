"""Operations that nothing uses any more, erased.

A module imported only by a pass that runs; it needs the compiler.
"""

from collections.abc import Iterator
from typing import Any

__all__ = ["erase_unused", "inside"]


def inside(operation: Any) -> Iterator[Any]:
    """Every operation in the regions of one, outer before inner."""
    for region in operation.regions:
        for block in region.blocks:
            for op in block.operations:
                yield op.operation
                yield from inside(op.operation)


def erase_unused(module: Any) -> None:
    """Erase StableHLO operations of `module` (an `ir.Module`) whose results nobody uses."""
    for op in reversed(list(inside(module.operation))):
        whole = op.name.startswith("stablehlo.") and op.name != "stablehlo.custom_call"
        if whole and list(op.results) and not any(list(value.uses) for value in op.results):
            op.erase()
