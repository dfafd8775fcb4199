"""The numbers of a value that is a constant, perhaps turned about, as they are when compiling.

A module imported only by a pass that runs; it needs the compiler.
"""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from iree.compiler import ir

from edgec.toolchain.ir.literal import attribute_of
from edgec.toolchain.ir.read import integers, shape_of

__all__ = ["evaluated"]

_EVALUATED = (
    "stablehlo.convert",
    "stablehlo.transpose",
    "stablehlo.reshape",
    "stablehlo.reverse",
    "stablehlo.slice",
)
_Array = np.ndarray[Any, np.dtype[Any]]


def evaluated(value: Any) -> _Array | None:
    """The numbers of a value that is a constant, perhaps turned about; None for any other."""
    if isinstance(value.owner, ir.Block):
        return None
    op = value.owner.operation
    shape = [size or 0 for size in shape_of(value)]
    if op.name == "stablehlo.constant":
        attribute = attribute_of(op)
        if attribute is None:
            return None
        if attribute.is_splat:
            return np.full(shape, attribute.get_splat_value().value, np.float32)
        if isinstance(attribute.type.element_type, ir.BF16Type):
            return _bfloats(str(attribute), shape)
        if isinstance(attribute, ir.DenseFPElementsAttr):
            return np.array(attribute, copy=None).reshape(shape)
        return None
    if op.name not in _EVALUATED:
        return None
    source = evaluated(op.operands[0])
    if source is None:
        return None
    match op.name:
        case "stablehlo.convert":
            return source.astype(np.float32)
        case "stablehlo.transpose":
            return source.transpose(integers(op, "permutation"))
        case "stablehlo.reverse":
            return np.asarray(np.flip(source, tuple(integers(op, "dimensions"))))
        case "stablehlo.slice":
            bounds = (integers(op, n) for n in ("start_indices", "limit_indices", "strides"))
            return source[tuple(slice(*each) for each in zip(*bounds, strict=True))]
        case _:
            return source.reshape(shape)


def _bfloats(text: str, shape: Sequence[int]) -> _Array | None:
    """The values of a bf16 constant, which the bindings hand out as text only."""
    found = re.search(r'"0x([0-9A-Fa-f]*)"', text)
    if found is None:
        return None
    words = np.frombuffer(bytes.fromhex(found[1]), "<u2").astype(np.uint32) << 16
    return words.view(np.float32).reshape(shape)
