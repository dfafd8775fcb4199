"""Tokens, which order what nobody sees, as arrays without elements.

Devices call the host's code in the program's order, and loops carry arrays. On jaxlib's bindings;
in the child (`shardy`).
"""

from collections.abc import Iterable
from typing import Any

from edgec.toolchain.ir.functions import inside

__all__ = ["plain_tokens"]

_TOKEN = "!stablehlo.token"
_MADE = ("stablehlo.create_token", "stablehlo.after_all")


def plain_tokens(functions: Iterable[Any]) -> None:
    """Rewrite what functions take, give and carry, in place."""
    from jaxlib.mlir import ir

    plain = ir.RankedTensorType.get([0], ir.IntegerType.get_signless(1))
    empty = {"value": ir.Attribute.parse(f"dense<> : {plain}")}
    for function in functions:
        for operation in list(inside(function)):
            if operation.name in _MADE:
                with ir.InsertionPoint(operation), operation.location:
                    made = ir.Operation.create(
                        "stablehlo.constant", results=[plain], attributes=empty
                    )
                operation.results[0].replace_all_uses_with(made.results[0])
                operation.erase()
                continue
            _note_an_axis(operation)
            _retype(operation.results, plain)
            for region in operation.regions:
                for block in region.blocks:
                    _retype(block.arguments, plain)
        block = function.regions[0].blocks[0]
        _retype(block.arguments, plain)
        last = list(block.operations)[-1].operation
        inputs = [argument.type for argument in block.arguments]
        results = [value.type for value in last.operands]
        kind = ir.FunctionType.get(inputs, results)
        function.attributes["function_type"] = ir.TypeAttr.get(kind)


def _note_an_axis(operation: Any) -> None:
    """Let what devices do by hand say of tokens, which had no axes, that their one is whole."""
    from jaxlib.mlir.dialects import sdy

    if operation.name != "sdy.manual_computation":
        return
    whole = [sdy.DimensionShardingAttr.get([], is_closed=True)]
    for name, values in (
        ("in_shardings", operation.operands),
        ("out_shardings", operation.results),
    ):
        given = sdy.TensorShardingPerValueAttr(operation.attributes[name]).shardings
        shardings = [sdy.TensorShardingAttr(each) for each in given]
        for index, (value, each) in enumerate(zip(list(values), shardings, strict=True)):
            if not len(list(each.dimension_shardings)) and _may_be_token(value):
                shardings[index] = sdy.TensorShardingAttr.get(
                    each.mesh_or_ref, whole, each.replicated_axes
                )
        operation.attributes[name] = sdy.TensorShardingPerValueAttr.get(shardings)


def _may_be_token(value: Any) -> bool:
    """Whether it is a token, or what has been made of one."""
    from jaxlib.mlir import ir

    if str(value.type) == _TOKEN:
        return True
    return list(ir.RankedTensorType(value.type).shape) == [0]


def _retype(values: Iterable[Any], plain: Any) -> None:
    for value in values:
        if str(value.type) == _TOKEN:
            value.set_type(plain)
