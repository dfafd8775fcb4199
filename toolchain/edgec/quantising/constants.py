"""How many bytes the constants of a program's code take.

A module imported only by what rewrites programs; it needs the compiler.
"""

import math
from typing import Any

import numpy as np

from edgec.toolchain.ir.functions import inside
from edgec.toolchain.ir.literal import NUMPY, attribute_of
from edgec.toolchain.ir.read import element_type, shape_of

__all__ = ["bytes_of_constants"]


def bytes_of_constants(module: Any) -> int:
    """Bytes of the constants in a program's code, each once."""
    sizes = {}
    for op in inside(module.operation):
        if op.name != "stablehlo.constant":
            continue
        attribute = attribute_of(op)
        if attribute is None or attribute.is_splat:
            continue
        (value,) = op.results
        kind = NUMPY.get(str(element_type(value)), np.uint16)
        count = math.prod(size or 0 for size in shape_of(value))
        sizes[op.attributes["value"]] = count * np.dtype(kind).itemsize
    return sum(sizes.values())
