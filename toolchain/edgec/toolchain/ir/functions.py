"""What every pass needs of a module: its functions by name, and changing a function's shape."""

from collections.abc import Iterator, Sequence
from typing import Any

from edgec.runtime.errors import ProgramError

__all__ = [
    "blocks_inside",
    "entry_block",
    "find_function",
    "functions",
    "inside",
    "returns",
    "set_types",
]


def functions(module: Any) -> dict[str, Any]:
    """Every `func.func` of the module (an `ir.Module`) by symbol name, in order."""
    from iree.compiler import ir

    return {
        ir.StringAttr(op.operation.attributes["sym_name"]).value: op.operation
        for op in module.body.operations
        if op.operation.name == "func.func"
    }


def find_function(module: Any, name: str) -> Any:
    """The `func.func` of that name, as an `ir.Operation` with a body.

    Raises:
        ProgramError: there is none, or only its declaration.
    """
    found = functions(module).get(name)
    if found is None or not list(found.regions[0].blocks):
        raise ProgramError(
            f"the program describes a function {name} that its code does not have",
            hint="export the model again",
        )
    return found


def entry_block(function: Any) -> Any:
    """The block whose arguments are the function's."""
    return function.regions[0].blocks[0]


def inside(operation: Any) -> Iterator[Any]:
    """Every operation in the regions of one, outer before inner, each block as it was when met."""
    for region in operation.regions:
        for block in region.blocks:
            for op in list(block.operations):
                inner = op.operation
                yield inner
                if len(inner.regions):
                    yield from inside(inner)


def blocks_inside(operation: Any) -> list[Any]:
    """Every block in the regions of an operation, outer before inner."""
    found = []
    for region in operation.regions:
        for block in region.blocks:
            found.append(block)
            for op in block.operations:
                if len(op.operation.regions):
                    found += blocks_inside(op.operation)
    return found


def returns(function: Any) -> Iterator[Any]:
    """Every `func.return` of the function."""
    for block in function.regions[0].blocks:
        for op in block.operations:
            if op.operation.name == "func.return":
                yield op.operation


def set_types(function: Any, keep_inputs: Sequence[int], keep_results: Sequence[int]) -> None:
    """Give the function the type of its entry block and returns, and drop stale attributes.

    Args:
        function: a `func.func` operation whose block arguments and returns are already changed.
        keep_inputs: which of the old arguments remain, in order.
        keep_results: which of the old results remain, in order.
    """
    from iree.compiler import ir

    inputs = [argument.type for argument in entry_block(function).arguments]
    results = [value.type for value in next(returns(function)).operands]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, results))
    for key, keep in (("arg_attrs", keep_inputs), ("res_attrs", keep_results)):
        if key in function.attributes:
            old = list(ir.ArrayAttr(function.attributes[key]))
            function.attributes[key] = ir.ArrayAttr.get([old[i] for i in keep])
