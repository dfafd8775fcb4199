"""Tables that an importer worked out and hands over as weights, which follow an open size."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from edgec.exporters.traced import TracedFunction
from edgec.toolchain.buckets.sizes import NotFilled
from edgec.toolchain.program import Parameter, Role

__all__ = ["without_tables"]


def without_tables(
    functions: tuple[Any, Any], traces: Sequence[TracedFunction]
) -> tuple[list[Role], list[int]]:
    """Weights that differ between two programs become constants of each; the arguments left.

    An importer that works out a table of positions, as ONNX' does, hands it over as a weight.

    Raises:
        NotFilled: the programs have other arguments.
    """
    from iree.compiler import ir

    from edgec.toolchain.ir.functions import entry_block, set_types
    from edgec.toolchain.ir.write import constant

    if len(traces[0].arguments) != len(traces[1].arguments):
        raise NotFilled("its weights change with it")
    kept: list[Role] = []
    places: list[int] = []
    for place, roles in enumerate(zip(traces[0].arguments, traces[1].arguments, strict=True)):
        names = [role.name for role in roles if isinstance(role, Parameter)]
        if len(names) == 2:
            arrays = [t.parameters[name] for t, name in zip(traces, names, strict=True)]
            if not _equal(*arrays):
                for function, array in zip(functions, arrays, strict=True):
                    block = entry_block(function)
                    argument = block.arguments[place]
                    with ir.InsertionPoint.at_block_begin(block):
                        value = constant(array, argument.type.element_type)
                    argument.replace_all_uses_with(value)
                continue
        elif roles[0] != roles[1]:
            raise NotFilled("its inputs change with it")
        kept.append(roles[0])
        places.append(place)
    for function in functions:
        block = entry_block(function)
        for place in reversed(range(len(block.arguments))):
            if place not in places:
                block.erase_argument(place)
        results = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value).results
        set_types(function, places, range(len(results)))
    return kept, places


def _equal(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two arrays are the same, bit by bit."""
    if one is other:
        return True
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    here, there = (np.ascontiguousarray(a).reshape(-1).view(np.uint8) for a in (one, other))
    return bool(np.array_equal(here, there))
