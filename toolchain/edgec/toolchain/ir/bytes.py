"""Whether a program has elements of a byte or less."""

from collections.abc import Iterator
from typing import Any

__all__ = ["holds_bytes"]

_BYTE = 8


def holds_bytes(module: Any) -> bool:
    """Whether a program has tensors of elements of a byte or less, which kernels may store."""
    from iree.compiler import ir

    found = False
    known: dict[Any, bool] = {}

    def is_narrow(type: Any) -> bool:
        if not isinstance(type, ir.ShapedType):
            return False
        element = type.element_type
        return bool(isinstance(element, ir.IntegerType) and element.width <= _BYTE)

    def look(operation: Any) -> Any:
        nonlocal found
        for value in (*operation.results, *_arguments(operation)):
            type = value.type
            if type not in known:
                known[type] = is_narrow(type)
            found |= known[type]
        return ir.WalkResult.INTERRUPT if found else ir.WalkResult.ADVANCE

    module.operation.walk(look)
    return found


def _arguments(operation: Any) -> Iterator[Any]:
    for region in operation.regions:
        for block in region.blocks:
            yield from block.arguments
