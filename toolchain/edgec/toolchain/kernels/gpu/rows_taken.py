"""Elements of rows by their places, as a gather that the compiler makes code of.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from typing import Any

from iree.compiler import ir

from edgec.toolchain.ir import write

__all__ = ["taken"]


def taken(array: Any, places: Any) -> Any:
    """Elements along the last axis: `array` is [..., length], `places` (i32) [..., kept]."""
    sizes, kept = write.shape(array), write.shape(places)
    rows, i32 = math.prod(sizes[:-1]), ir.IntegerType.get_signless(32)
    line = write.binary(
        "multiply",
        write.iota([rows, kept[-1]], 0, i32),
        write.fill(sizes[-1], [rows, kept[-1]], i32),
    )
    at = write.binary("add", line, write.reshape(places, [rows, kept[-1]]))
    count = math.prod(kept)
    found = write.create(
        "stablehlo.gather",
        write.tensor([count], write.element(array)),
        [write.reshape(array, [math.prod(sizes)]), write.reshape(at, [count, 1])],
        {
            "dimension_numbers": ir.Attribute.parse(
                "#stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], "
                "index_vector_dim = 1>"
            ),
            "slice_sizes": ir.DenseI64ArrayAttr.get([1]),
            "indices_are_sorted": ir.BoolAttr.get(False),
        },
    )
    return write.reshape(found, kept)
