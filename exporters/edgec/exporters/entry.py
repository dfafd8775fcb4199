"""What a program of JAX's takes and gives, as arrays that every device has.

Integers of 2 and 4 bits go in and out as bytes, an element each, as NumPy has them; tokens, which
order what nobody sees, as arrays without elements, which is what JAX gives and expects. On the
bindings that the caller names, which are iree.compiler's or jaxlib's.
"""

from typing import Any

__all__ = ["NARROW", "plain_entry"]

NARROW = {"i2": "i8", "i4": "i8", "ui2": "ui8", "ui4": "ui8"}
"""Integers, and those of a byte that they are within, as MLIR spells them."""
_TOKEN = "!stablehlo.token"


def plain_entry(ir: Any, function: Any) -> list[str]:
    """Rewrite a function in place; the types of its results' elements before, as MLIR spells them.

    Args:
        ir: the bindings' module.
        function: a `func.func` of one block.
    """
    block = function.regions[0].blocks[0]
    last = list(block.operations)[-1].operation
    before = [_element(ir, value.type) for value in last.operands]
    for argument in list(block.arguments):
        _plain_argument(ir, block, argument)
    for index, value in enumerate(last.operands):
        last.operands[index] = _plain_result(ir, last, value)
    kinds = [argument.type for argument in block.arguments]
    results = [value.type for value in last.operands]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(kinds, results))
    return before


def _element(ir: Any, kind: Any) -> str:
    return "token" if str(kind) == _TOKEN else str(ir.RankedTensorType(kind).element_type)


def _no_elements(ir: Any) -> Any:
    return ir.RankedTensorType.get([0], ir.IntegerType.get_signless(1))


def _of_bytes(ir: Any, kind: Any) -> Any | None:
    """The same array of bytes; None for one that is of no narrow integers."""
    wide = NARROW.get(_element(ir, kind))
    if wide is None:
        return None
    return ir.RankedTensorType.get(ir.RankedTensorType(kind).shape, ir.Type.parse(wide))


def _plain_argument(ir: Any, block: Any, argument: Any) -> None:
    kind = argument.type
    is_token = str(kind) == _TOKEN
    plain = _no_elements(ir) if is_token else _of_bytes(ir, kind)
    if plain is None:
        return
    argument.set_type(plain)
    with ir.InsertionPoint.at_block_begin(block), argument.location:
        made = ir.Operation.create(
            "stablehlo.create_token" if is_token else "stablehlo.convert",
            results=[kind],
            operands=[] if is_token else [argument],
        )
    argument.replace_all_uses_except(made.results[0], made.operation)


def _plain_result(ir: Any, last: Any, value: Any) -> Any:
    is_token = str(value.type) == _TOKEN
    plain = _no_elements(ir) if is_token else _of_bytes(ir, value.type)
    if plain is None:
        return value
    with ir.InsertionPoint(last), last.location:
        if is_token:
            empty = ir.Attribute.parse(f"dense<> : {plain}")
            attributes = {"value": empty}
            made = ir.Operation.create("stablehlo.constant", results=[plain], attributes=attributes)
        else:
            made = ir.Operation.create("stablehlo.convert", results=[plain], operands=[value])
    return made.results[0]
