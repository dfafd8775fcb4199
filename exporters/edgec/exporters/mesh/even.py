"""Arrays that the mesh does not divide made whole along these axes, after propagation.

Shardy lets them be cut (the last device would have less), and its last passes refuse that. On
jaxlib's bindings; in the child (`shardy`).
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from edgec.toolchain.ir.functions import inside

__all__ = ["make_even", "takes_even"]


def takes_even(function: Any, axes: Mapping[str, int]) -> bool:
    """Whether the mesh divides all arguments as they are cut."""
    if "arg_attrs" not in function.attributes:
        return True
    before = function.attributes["arg_attrs"]
    return bool(_even_notes(before, _kind(function).inputs, axes) == before)


def make_even(function: Any, axes: Mapping[str, int]) -> None:
    """Take axes of the mesh out of the shardings in a function, where they do not divide."""
    from jaxlib.mlir.dialects import sdy

    kind = _kind(function)
    for name, kinds in (("arg_attrs", kind.inputs), ("res_attrs", kind.results)):
        if name in function.attributes:
            notes = _even_notes(function.attributes[name], kinds, axes)
            function.attributes[name] = notes
    for operation in inside(function):
        results = [result.type for result in operation.results]
        if operation.name in ("sdy.reshard", "sdy.sharding_constraint"):
            wanted = operation.attributes["sharding"]
            operation.attributes["sharding"] = _even(wanted, results[0], axes)
        if "sdy.sharding" not in operation.attributes:
            continue
        attribute = operation.attributes["sdy.sharding"]
        given = sdy.TensorShardingPerValueAttr(attribute).shardings
        each = [_even(one, kind, axes) for one, kind in zip(given, results, strict=True)]
        operation.attributes["sdy.sharding"] = sdy.TensorShardingPerValueAttr.get(each)


def _kind(function: Any) -> Any:
    from jaxlib.mlir import ir

    return ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)


def _even_notes(notes: Any, kinds: Sequence[Any], axes: Mapping[str, int]) -> Any:
    """What is noted of arguments or results, with even shardings."""
    from jaxlib.mlir import ir

    made = []
    for note, kind in zip(map(ir.DictAttr, ir.ArrayAttr(notes)), kinds, strict=True):
        kept = {each.name: each.attr for each in note}
        if "sdy.sharding" in kept:
            kept["sdy.sharding"] = _even(kept["sdy.sharding"], kind, axes)
        made.append(ir.DictAttr.get(kept))
    return ir.ArrayAttr.get(made)


def _even(attribute: Any, kind: Any, axes: Mapping[str, int]) -> Any:
    """The sharding without the axes that do not divide the array."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import sdy

    sharding = sdy.TensorShardingAttr(attribute)
    dims = [sdy.DimensionShardingAttr(dim) for dim in sharding.dimension_shardings]
    parts = [math.prod(_size(axis, axes) for axis in dim.axes) for dim in dims]
    sizes = ir.RankedTensorType(kind).shape if dims else []
    even = [size % part == 0 for size, part in zip(sizes, parts, strict=True)]
    if all(even):
        return attribute
    whole = sdy.DimensionShardingAttr.get([], is_closed=True)
    return sdy.TensorShardingAttr.get(
        sharding.mesh_or_ref,
        [dim if fits else whole for dim, fits in zip(dims, even, strict=True)],
        sharding.replicated_axes,
        sharding.unreduced_axes,
    )


def _size(axis: Any, axes: Mapping[str, int]) -> int:
    """How many parts an axis, or a part of one, makes."""
    from jaxlib.mlir.dialects import sdy

    reference = sdy.AxisRefAttr(axis)
    part = reference.sub_axis_info
    return int(sdy.SubAxisInfoAttr(part).size) if part is not None else axes[reference.name]
