"""What a program of JAX's takes and gives, as arrays that every device has.

Integers of 2 and 4 bits go in and out as bytes (`narrow`); tokens, which order what nobody sees, as
arrays without elements, which is what JAX gives and expects. On the bindings that the caller names,
which are iree.compiler's or jaxlib's.
"""

from typing import Any

from edgec.exporters.narrow import widen

__all__ = ["plain_entry"]

_TOKEN = "!stablehlo.token"


def plain_entry(ir: Any, module: Any, main: Any) -> list[str]:
    """Rewrite a program in place; the types of its results' elements before, as MLIR spells them.

    Args:
        ir: the bindings' module.
        module: the program.
        main: its function, a `func.func` of one block.
    """
    block = main.regions[0].blocks[0]
    last = list(block.operations)[-1].operation
    before = [_element(ir, value.type) for value in last.operands]
    widen(ir, module, main)
    plain = ir.RankedTensorType.get([0], ir.IntegerType.get_signless(1))
    for argument in list(block.arguments):
        if str(argument.type) == _TOKEN:
            with ir.InsertionPoint.at_block_begin(block), argument.location:
                made = ir.Operation.create("stablehlo.create_token", results=[argument.type])
            argument.replace_all_uses_with(made.results[0])
            argument.set_type(plain)
    for index, value in enumerate(last.operands):
        if str(value.type) == _TOKEN:
            empty = {"value": ir.Attribute.parse(f"dense<> : {plain}")}
            with ir.InsertionPoint(last), last.location:
                made = ir.Operation.create("stablehlo.constant", results=[plain], attributes=empty)
            last.operands[index] = made.results[0]
    kinds = [argument.type for argument in block.arguments]
    results = [value.type for value in last.operands]
    main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(kinds, results))
    return before


def _element(ir: Any, kind: Any) -> str:
    return "token" if str(kind) == _TOKEN else str(ir.RankedTensorType(kind).element_type)
