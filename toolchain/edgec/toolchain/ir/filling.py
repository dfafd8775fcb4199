"""A constant that is one number everywhere to memory of its own that the host has filled with it.

A module imported only by what rewrites programs; it needs the compiler.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from iree.compiler import ir
from ml_dtypes import bfloat16

from edgec.toolchain.ir.fold import repeated
from edgec.toolchain.ir.read import element_type, is_float
from edgec.toolchain.ir.write import create, seen_as

__all__ = ["filled", "fresh"]

_LEAST_BITS = 8


def filled(value: Any) -> Any | None:
    """The constant as a fill, at the insertion point; None of any other value.

    The number stands behind a barrier, so that equal fills stay several. A kernel that copies would
    touch all of the memory; a fill with zeros of what is new is no work for a runtime that knows.

    Args:
        value: of floats or signless integers.
    """
    kind, number = element_type(value), repeated(value)
    whole = isinstance(kind, ir.IntegerType) and kind.is_signless and kind.width >= _LEAST_BITS
    if number is None or not (is_float(kind) or whole):
        return None
    return fresh(number, value.type)


def fresh(number: Any, kind: Any, sizes: Sequence[Any] = ()) -> Any:
    """Memory of its own, filled with a number; equal ones stay several.

    Args:
        number: the attribute of the number.
        kind: a tensor type of the number's type.
        sizes: its open sizes, as indices.
    """
    element = kind.element_type
    if isinstance(element, ir.F16Type | ir.BF16Type):
        # The virtual machine that fills memory has no numbers of these types: it gets their bits.
        bits = ir.IntegerType.get_signless(element.width)
        number = ir.IntegerAttr.get(bits, _bits(number.value, element))
        whole = ir.RankedTensorType.get(kind.shape, bits)
        return seen_as(fresh(number, whole, sizes), element)
    constant = create("arith.constant", element, [], {"value": number})
    hidden = create("util.optimization_barrier", element, [constant])
    return create("flow.tensor.splat", kind, [hidden, *sizes])


def _bits(value: float, element: Any) -> int:
    """The bits of a number in 16 bits, as a signed integer."""
    if isinstance(element, ir.F16Type):
        return int(np.float16(value).view(np.int16))
    return int(np.asarray(value, bfloat16).view(np.int16))
