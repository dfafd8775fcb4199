"""Reading StableHLO operations: types, attributes and dimension numbers as plain numbers.

A module imported only by a pass that runs; it needs the compiler.
"""

import re
from collections.abc import Sequence
from typing import Any

from iree.compiler import ir

__all__ = [
    "adds_up",
    "call_target",
    "convolution_layout",
    "element_type",
    "integers",
    "is_dynamic",
    "is_float",
    "is_unsigned",
    "made_by",
    "maker",
    "numbers_of",
    "shape_of",
    "sorted_axis",
    "unshaped",
]


def made_by(value: Any, name: str) -> Any | None:
    """The operation that gives a value, if it is StableHLO's of this name."""
    if isinstance(value.owner, ir.Block):
        return None
    op = value.owner.operation
    return op if op.name == f"stablehlo.{name}" else None


def maker(value: Any) -> str:
    """The name of the operation that gives a value; empty of an argument."""
    return "" if isinstance(value.owner, ir.Block) else str(value.owner.operation.name)


def adds_up(reduction: Any) -> bool:
    """Whether a reduction's body adds once for each result, and does nothing else."""
    (block,) = reduction.regions[0].blocks
    *body, _ = (each.operation.name for each in block.operations)
    return body == ["stablehlo.add"] * len(reduction.results)


def unshaped(value: Any) -> Any:
    """A value before reshapes, which leave its elements in order."""
    while (op := made_by(value, "reshape")) is not None:
        value = op.operands[0]
    return value


def shape_of(value: Any) -> tuple[int | None, ...]:
    """The shape in a value's type, None where dynamic; () for what is no ranked tensor."""
    if not isinstance(value.type, ir.RankedTensorType):
        return ()
    kind = ir.RankedTensorType(value.type)
    return tuple(None if kind.is_dynamic_dim(i) else kind.get_dim_size(i) for i in range(kind.rank))


def sorted_axis(op: Any) -> int:
    """Along which axis a `stablehlo.sort` sorts: the last, if it does not say."""
    (axis,) = integers(op, "dimension", [-1])
    return axis % len(shape_of(op.operands[0]))


def is_dynamic(value: Any) -> bool:
    """Whether a value is a tensor with a size that its type does not tell."""
    return None in shape_of(value)


def integers(op: Any, name: str, default: Sequence[int] = ()) -> list[int]:
    """An attribute of integers, flat; `default` where it is absent."""
    if name not in op.attributes:
        return list(default)
    attribute = op.attributes[name]
    if isinstance(attribute, ir.IntegerAttr):
        return [int(attribute.value)]
    if isinstance(attribute, ir.DenseIntElementsAttr) and attribute.is_splat:
        count = 1
        for size in ir.RankedTensorType(attribute.type).shape:
            count *= size
        return [int(attribute.get_splat_value().value)] * count
    return [int(v) for v in attribute]


def numbers_of(attribute: Any) -> dict[str, list[int]]:
    """The fields of a dimension-numbers attribute, which has no accessors, from its text."""
    found = re.findall(r"(\w+) = (\[[\d, ]*\]|\d+)", str(attribute))
    return {name: [int(v) for v in re.findall(r"\d+", text)] for name, text in found}


def element_type(value: Any) -> Any:
    """The element type of a tensor (a value or a type), or the type of a scalar."""
    kind = getattr(value, "type", value)
    if isinstance(kind, ir.RankedTensorType):
        return ir.RankedTensorType(kind).element_type
    return kind


def is_unsigned(kind: Any) -> bool:
    """Whether an element type is an unsigned integer, which linalg and arith do not take."""
    return isinstance(kind, ir.IntegerType) and bool(ir.IntegerType(kind).is_unsigned)


def is_float(kind: Any) -> bool:
    """Whether an element type is a floating-point one."""
    return isinstance(kind, ir.FloatType)


def call_target(op: Any) -> str | None:
    """What a `stablehlo.custom_call` calls; None for any other operation."""
    if op.name != "stablehlo.custom_call":
        return None
    return str(ir.StringAttr(op.attributes["call_target_name"]).value)


def convolution_layout(op: Any) -> tuple[list[str], list[str], list[str]]:
    """The letters of a convolution's axes (input, kernel, output): b, f, i, o or a number."""
    text = re.search(
        r"\[([^\]]*)\]x\[([^\]]*)\]->\[([^\]]*)\]", str(op.attributes["dimension_numbers"])
    )
    if text is None:
        raise ValueError(f"unreadable dimension numbers: {op.attributes['dimension_numbers']}")
    one, two, three = (part.replace(" ", "").split(",") for part in text.groups())
    return one, two, three
