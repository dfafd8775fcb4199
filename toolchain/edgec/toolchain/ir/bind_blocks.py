"""Parameters of a function to the parts that they are made of: codes, scales, least values.

The form is the one that `match/blocks.py` reads. A module imported only by what rewrites programs;
it needs the compiler.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from iree.compiler import ir

from edgec.toolchain.blocked_weights import BlockedWeights
from edgec.toolchain.ir import write
from edgec.toolchain.ir.functions import entry_block, set_types
from edgec.toolchain.ir.literal import NUMPY
from edgec.toolchain.ir.write_blocks import floats_of_blocks
from edgec.toolchain.program import Parameter, Role

__all__ = ["bind_blocks", "part_name", "weights_of_parts"]


def part_name(weight: str, part: str) -> str:
    """What a part of a weight is called in the weights file."""
    return f"{weight}.{part}"


def bind_blocks(
    function: Any, roles: Sequence[Role], blocks: Mapping[str, tuple[BlockedWeights, bool]]
) -> tuple[Role, ...]:
    """Give a function the parts of weights as arguments in place of the weights.

    Args:
        function: a `func.func`.
        roles: of its arguments.
        blocks: what parameters become, by name, and whether they lie as inner x outputs.

    Returns:
        The roles of its arguments now.
    """
    block = entry_block(function)
    now = list(roles)
    gone = []
    for index, role in enumerate(roles):
        if not isinstance(role, Parameter) or role.name not in blocks:
            continue
        made, turned = blocks[role.name]
        argument = block.arguments[index]
        held = {}
        for part, array in made.parts.items():
            held[part] = block.add_argument(_kind(array), function.location)
            now.append(Parameter(name=part_name(role.name, part)))
        with ir.InsertionPoint.at_block_begin(block), function.location:
            value = weights_of_parts(held, made, turned=turned, like=argument)
            argument.replace_all_uses_with(value)
        gone.append(index)
    for index in reversed(gone):
        block.erase_argument(index)
        del now[index]
    total = len(block.arguments) + len(gone)
    if "arg_attrs" in function.attributes:
        old = list(ir.ArrayAttr(function.attributes["arg_attrs"]))
        more = [ir.DictAttr.get({})] * (total - len(roles))
        function.attributes["arg_attrs"] = ir.ArrayAttr.get([*old, *more])
    kept = [index for index in range(total) if index not in gone]
    results = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value).results
    set_types(function, kept, range(len(results)))
    return tuple(now)


def weights_of_parts(
    held: Mapping[str, Any], made: BlockedWeights, *, turned: bool, like: Any
) -> Any:
    """The weights as the program has them, from their parts, at the insertion point.

    Args:
        held: a value for each of `made.parts`.
        made: what the parts are.
        turned: whether the program has them as inner x outputs.
        like: the weights, whose sizes the result has.
    """
    value = floats_of_blocks(
        held["codes"],
        held["scale"],
        held.get("least"),
        sizes=(made.outputs, made.inner),
        group=made.group,
        bits=made.bits,
        span=made.span,
        zero=float(made.zero),
        scale_factor=held.get("scale_factor"),
        least_factor=held.get("least_factor"),
    )
    if turned:
        value = write.transpose(value, (1, 0))
    return write.reshape(value, write.shape(like))


def _kind(array: Any) -> Any:
    name = next(name for name, kind in NUMPY.items() if array.dtype == kind)
    return ir.RankedTensorType.get(list(array.shape), ir.Type.parse(name))
