"""Products and convolutions that kernels take: their sizes, and how their operands lie.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from typing import Any

from edgec.toolchain.ir.functions import inside
from edgec.toolchain.ir.read import (
    convolution_layout,
    integers,
    numbers_of,
)
from edgec.toolchain.ir.write import fill, pad, shape

__all__ = [
    "LEAST_WORK",
    "fill_channels",
    "gather_rows",
    "is_plain",
    "operations_named",
    "product_sizes",
]

LEAST_WORK = 1 << 20
"""Multiplications below which a kernel of edgec's own does not pay."""

_LAYOUT = (["b", "0", "1", "f"], ["0", "1", "i", "o"], ["b", "0", "1", "f"])


def product_sizes(op: Any) -> tuple[int, int, int, int, bool] | None:
    """Batch, rows, columns, inner size, whether the right side lies as [n, k]; None if neither."""
    numbers = numbers_of(op.attributes["dot_dimension_numbers"])
    left, right = (list(shape(v)) for v in op.operands)
    count = len(numbers.get("lhs_batching_dimensions", []))
    order = list(range(count))
    if numbers.get("lhs_batching_dimensions", []) != order:
        return None
    if numbers.get("rhs_batching_dimensions", []) != order:
        return None
    inner_left = numbers.get("lhs_contracting_dimensions", [])
    inner_right = numbers.get("rhs_contracting_dimensions", [])
    inside = len(inner_left)
    if not inside or inner_left != list(range(len(left) - inside, len(left))):
        return None
    last = inner_right == list(range(len(right) - inside, len(right)))
    first = inner_right == list(range(count, count + inside))
    if not last and not first:
        return None
    batch, k = math.prod(left[:count]), math.prod(left[len(left) - inside :])
    m, n = math.prod(left[count : len(left) - inside]), math.prod(right[count:]) // max(k, 1)
    # With both true there are no columns of its own: a vector, which the compiler does well.
    return None if last and first else (batch, m, n, k, last)


def fill_channels(image: Any, weight: Any, multiple: int) -> tuple[Any, Any]:
    """The image with channels of zeros up to a multiple, the weight with these, too."""
    more = -shape(image)[3] % multiple
    zero = fill(0.0, (), image.type.element_type)
    image, weight = (
        pad(value, zero, [0, 0, 0, 0], [more if axis == place else 0 for axis in range(4)])
        for value, place in ((image, 3), (weight, 2))
    )
    return image, weight


def gather_rows(image: Any, weight: Any, pads: list[int], multiple: int) -> tuple[Any, Any]:
    """The image with zeros around and channels up to a multiple, the weight with these, too.

    A row of the window then lies in one piece, as one tap of many channels: an image of 3 channels
    takes one step a row of the window instead of one a pixel, and every window is inside.
    """
    image, weight = fill_channels(image, weight, multiple)
    zero = fill(0.0, (), image.type.element_type)
    return pad(image, zero, [0, pads[0], pads[2], 0], [0, pads[1], pads[3], 0]), weight


def is_plain(op: Any) -> bool:
    """Two spatial axes, NHWC by HWIO, one group, no zeros between pixels, nothing reversed."""
    reverse = op.attributes.get("window_reversal", ())
    return (
        tuple(convolution_layout(op)) == _LAYOUT
        and integers(op, "feature_group_count", (1,)) == [1]
        and integers(op, "batch_group_count", (1,)) == [1]
        and set(integers(op, "lhs_dilation", (1,))) == {1}
        and not any(bool(flag) for flag in reverse)
    )


def operations_named(module: Any, name: str) -> list[Any]:
    """The operations of a name in the functions, in loops and branches too, as they are now."""
    return [op for op in inside(module.operation) if op.name == name]
