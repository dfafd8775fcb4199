"""Traced functions to ones whose weights are integers in blocks, as the model's file has them."""

import io
from collections.abc import Mapping
from dataclasses import replace

from edgec.exporters.traced import TracedFunction
from edgec.toolchain.blocked_weights import BlockedWeights
from edgec.toolchain.program import Dialect, Parameter
from edgec.toolchain.stablehlo import parse_stablehlo

__all__ = ["in_blocks"]


def in_blocks(traced: TracedFunction, blocks: Mapping[str, BlockedWeights]) -> TracedFunction:
    """The function with codes, scales and least values as arguments in place of some weights.

    A function that is not in StableHLO stays as it is.

    Args:
        traced: one function.
        blocks: weights by name, each of just the numbers that the function's parameter has.
    """
    here = {
        role.name: (blocks[role.name], False)
        for role in traced.arguments
        if isinstance(role, Parameter) and role.name in blocks
    }
    if not here or traced.dialect is not Dialect.STABLEHLO:
        return traced
    from iree.compiler import ir

    from edgec.toolchain.ir.bind_blocks import bind_blocks, part_name
    from edgec.toolchain.ir.functions import find_function

    with ir.Context() as context, ir.Location.unknown():
        module = parse_stablehlo(traced.module, context)
        arguments = bind_blocks(find_function(module, "main"), traced.arguments, here)
        buffer = io.BytesIO()
        module.operation.write_bytecode(buffer)
    parts = {
        part_name(name, part): array
        for name, (made, _) in here.items()
        for part, array in made.parts.items()
    }
    left = {name: array for name, array in traced.parameters.items() if name not in here}
    return replace(
        traced, module=buffer.getvalue(), arguments=arguments, parameters={**left, **parts}
    )
