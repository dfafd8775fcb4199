"""Arrays without elements: constants, which nobody cuts or gathers; on jaxlib's bindings.

Shardy would gather the parts of one, and StableHLO has no gathering along an axis of no size.
"""

from typing import Any

from edgec.toolchain.ir.functions import inside

__all__ = ["make_empties_constant"]


def make_empties_constant(main: Any) -> None:
    """Have each array of a function that has no elements be a constant of its own, in place."""
    block = main.regions[0].blocks[0]
    for value in [*block.arguments, *(each for op in inside(main) for each in op.results)]:
        if _is_empty(value) and list(value.uses) and not _is_constant(value):
            _replace(value, block)


def _is_empty(value: Any) -> bool:
    from jaxlib.mlir import ir

    return isinstance(value.type, ir.RankedTensorType) and 0 in value.type.shape


def _is_constant(value: Any) -> bool:
    from jaxlib.mlir import ir

    return isinstance(value.owner, ir.Operation) and value.owner.name == "stablehlo.constant"


def _replace(value: Any, block: Any) -> None:
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    point = (
        ir.InsertionPoint.at_block_begin(block)
        if isinstance(value.owner, ir.Block)
        else ir.InsertionPoint(value.owner)
    )
    nothing = ir.Attribute.parse(f"dense<> : {value.type}")
    with point, ir.Location.unknown():
        value.replace_all_uses_with(stablehlo.constant(nothing))
