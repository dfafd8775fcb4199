"""Weights of a program to what they are made of: integers in blocks, scales, least values.

The form is the one that `match/blocks.py` reads, and GGUF's order of codes: where 32 neighbours of
four bits lie in 16 bytes, the first half is in the low bits and the second in the high ones.

A module imported only by what rewrites programs; it needs the compiler.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from iree.compiler import ir

from edgec.quantising.layers import Layer
from edgec.quantising.rounding import Rounded
from edgec.toolchain.ir import write
from edgec.toolchain.ir.functions import entry_block, functions, set_types
from edgec.toolchain.ir.literal import NUMPY
from edgec.toolchain.ir.write_blocks import floats_of_blocks
from edgec.toolchain.program import Function, Parameter, ProgramInfo, Weights

__all__ = ["put_blocks"]

_SPAN, _PAIRS = 32, 2
_Array = np.ndarray[Any, np.dtype[Any]]


def put_blocks(
    module: Any, info: ProgramInfo, rounded: Mapping[Any, tuple[Layer, Rounded]]
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
        parts = _parts(made)
        if layer.name:
            added |= {f"{layer.name}.{part}": array for part, array in parts.items()}
            continue
        for value in layer.values:
            op = value.owner.operation
            with ir.InsertionPoint(op), op.location:
                held = {name: _constant(array) for name, array in parts.items()}
                value.replace_all_uses_with(_written(held, layer, made, value))
            op.erase()
    names = {layer.name: (layer, made) for layer, made in rounded.values() if layer.name}
    if not names:
        return info, {}
    described = tuple(
        _bind(functions(module)[function.signature.name], function, names)
        for function in info.functions
    )
    weights = info.weights
    if weights is not None:
        left = [name for name in weights.names if name not in names]
        weights = Weights(scope=weights.scope, file=weights.file, names=(*left, *added))
    return replace(info, functions=described, weights=weights), added


def _bind(
    operation: Any, function: Function, names: Mapping[str, tuple[Layer, Rounded]]
) -> Function:
    """A function whose arguments are the parts of weights in place of the weights."""
    block = entry_block(operation)
    roles = list(function.arguments)
    given = len(roles)
    gone = []
    for index, role in enumerate(function.arguments):
        if not isinstance(role, Parameter) or role.name not in names:
            continue
        layer, made = names[role.name]
        argument = block.arguments[index]
        held = {}
        for part, array in _parts(made).items():
            held[part] = block.add_argument(_kind(array), operation.location)
            roles.append(Parameter(name=f"{role.name}.{part}"))
        with ir.InsertionPoint.at_block_begin(block), operation.location:
            argument.replace_all_uses_with(_written(held, layer, made, argument))
        gone.append(index)
    for index in reversed(gone):
        block.erase_argument(index)
        del roles[index]
    if "arg_attrs" in operation.attributes:
        old = list(ir.ArrayAttr(operation.attributes["arg_attrs"]))
        more = [ir.DictAttr.get({})] * (len(block.arguments) + len(gone) - given)
        operation.attributes["arg_attrs"] = ir.ArrayAttr.get([*old, *more])
    total = len(block.arguments) + len(gone)
    count = len(function.results)
    set_types(operation, [i for i in range(total) if i not in gone], range(count))
    return replace(function, arguments=tuple(roles))


def _parts(made: Rounded) -> dict[str, _Array]:
    """What is kept, by the name of each part."""
    outputs = made.matrix[0]
    codes = made.codes.reshape(made.matrix)
    if made.scheme.bits == 4:
        codes = made.packed(_span(made))
    by_output = made.scheme.group is None
    shape = (outputs,) if by_output else made.scale.shape
    parts = {"codes": codes, "scale": made.scale.reshape(shape)}
    if made.least is not None:
        parts["least"] = made.least.reshape(shape)
    return {name: np.ascontiguousarray(array) for name, array in parts.items()}


def _span(made: Rounded) -> int:
    return _PAIRS if made.matrix[1] % _SPAN else _SPAN


def _written(held: Mapping[str, Any], layer: Layer, made: Rounded, like: Any) -> Any:
    """The weights as the program has them, from their parts, at the insertion point."""
    value = floats_of_blocks(
        held["codes"],
        held["scale"],
        held.get("least"),
        sizes=made.matrix,
        group=made.scheme.group or made.matrix[1],
        bits=made.scheme.bits,
        span=_span(made),
        zero=float(made.zero),
    )
    if layer.turned:
        value = write.transpose(value, (1, 0))
    return write.reshape(value, write.shape(like))


def _constant(array: _Array) -> Any:
    return write.constant(array, _kind(array).element_type)


def _kind(array: _Array) -> Any:
    name = next(name for name, kind in NUMPY.items() if array.dtype == kind)
    return ir.RankedTensorType.get(list(array.shape), ir.Type.parse(name))
