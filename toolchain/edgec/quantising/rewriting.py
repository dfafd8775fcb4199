"""Weights of a program to what they are made of: integers in blocks, scales, least values.

A module imported only by what rewrites programs; it needs the compiler.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from iree.compiler import ir

from edgec.quantising.layers import Layer
from edgec.toolchain.blocked_weights import BlockedWeights
from edgec.toolchain.ir import write
from edgec.toolchain.ir.bind_blocks import bind_blocks, part_name, weights_of_parts
from edgec.toolchain.ir.functions import functions
from edgec.toolchain.ir.literal import NUMPY
from edgec.toolchain.program import ProgramInfo, Weights

__all__ = ["put_blocks"]

_Array = np.ndarray[Any, np.dtype[Any]]


def put_blocks(
    module: Any, info: ProgramInfo, rounded: Mapping[Any, tuple[Layer, BlockedWeights]]
) -> tuple[ProgramInfo, dict[str, _Array]]:
    """Write the weights of layers as blocks, in place.

    Args:
        module: the program.
        info: its description.
        rounded: layers by key, with what becomes of them.

    Returns:
        The description of the program as it is now, and the new parameters by name.
    """
    added: dict[str, _Array] = {}
    for layer, made in rounded.values():
        parts = made.parts
        if layer.name:
            added |= {part_name(layer.name, part): array for part, array in parts.items()}
            continue
        for value in layer.values:
            op = value.owner.operation
            with ir.InsertionPoint(op), op.location:
                held = {name: _constant(array) for name, array in parts.items()}
                value.replace_all_uses_with(
                    weights_of_parts(held, made, turned=layer.turned, like=value)
                )
            op.erase()
    names = {layer.name: (made, layer.turned) for layer, made in rounded.values() if layer.name}
    if not names:
        return info, {}
    found = functions(module)
    described = tuple(
        replace(
            function,
            arguments=bind_blocks(found[function.signature.name], function.arguments, names),
        )
        for function in info.functions
    )
    weights = info.weights
    if weights is not None:
        left = [name for name in weights.names if name not in names]
        weights = Weights(scope=weights.scope, file=weights.file, names=(*left, *added))
    return replace(info, functions=described, weights=weights), added


def _constant(array: _Array) -> Any:
    name = next(name for name, kind in NUMPY.items() if array.dtype == kind)
    return write.constant(array, ir.Type.parse(name))
