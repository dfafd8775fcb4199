"""Arrays that a loop does nothing with but write into."""

from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir.literal import attribute_of
from edgec.toolchain.ir.uses import only_use
from edgec.toolchain.match.loop import blocks, last

__all__ = ["filled_with", "is_filled", "is_taken"]

_WIDTHS = (8, 16, 32)
_ARRAY = {"stablehlo.dynamic_update_slice": 0, "tensor.insert_slice": 1}
"""Which operand of a write is the array."""


def is_filled(loop: Any, place: int) -> bool:
    """Whether a `stablehlo.while` only writes parts into one of its values.

    Nothing may read the array in the loop, or have it as it was: each write has the only use of
    what the one before it left.
    """
    condition, body = blocks(loop)
    value = body.arguments[place]
    if list(condition.arguments[place].uses) or not _is_plain(value.type):
        return False
    end = last(body).operands[place]
    while value != end:
        uses = list(value.uses)
        if len(uses) != 1:
            return False
        op = uses[0].owner.operation
        if op.block != body or _ARRAY.get(op.name) != uses[0].operand_number:
            return False
        value = op.results[0]
    return value != body.arguments[place] and len(list(value.uses)) == 1


def _is_plain(kind: Any) -> bool:
    """Whether a type is a tensor whose elements are whole bytes and stay as wide as they are."""
    if not isinstance(kind, ir.RankedTensorType) or not kind.shape:
        return False
    element = kind.element_type
    number = isinstance(element, ir.IntegerType | ir.F32Type | ir.F16Type | ir.BF16Type)
    return number and element.width in _WIDTHS


def filled_with(value: Any) -> Any | None:
    """The attribute of the one number that all elements of an array are; None for another."""
    if isinstance(value.owner, ir.Block):
        return None
    op = value.owner.operation
    if op.name == "stablehlo.constant":
        attribute = attribute_of(op)
        if isinstance(attribute, ir.DenseElementsAttr) and attribute.is_splat:
            return attribute.get_splat_value()
        return None
    if op.name in ("stablehlo.broadcast_in_dim", "stablehlo.dynamic_broadcast_in_dim"):
        return filled_with(op.operands[0])
    if op.name == "linalg.generic" and len(op.operands) == 2 and not op.operands[0].type.shape:
        block = op.regions[0].blocks[0]
        gives = block.operations[0].operation.operands
        return filled_with(op.operands[0]) if list(gives) == [block.arguments[0]] else None
    return None


def is_taken(value: Any) -> bool:
    """Whether an array is what another loop has filled, and is handed on to no one else."""
    made = not isinstance(value.owner, ir.Block) and value.owner.operation.name
    return made == "hal.tensor.import" and only_use(value) is not None
