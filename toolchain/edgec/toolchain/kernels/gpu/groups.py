"""Which convolutions in groups the kernels of GPUs take.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from collections.abc import Sequence

from edgec.toolchain.ir.write import shape
from edgec.toolchain.match.convolution import Convolution

__all__ = ["why_not"]

_MOST_ELEMENTS = 2**31


def why_not(conv: Convolution, elements: Sequence[str], *, widest: int = 0) -> str | None:
    """Why the kernels do not take a convolution in groups; None where they do.

    Args:
        conv: the convolution.
        elements: the types of image and weights that they take.
        widest: the most channels of a group; 0 for any number.
    """
    first, second, third = conv.elements
    if first not in elements or second != first or third not in (first, "f32"):
        return f"{first} by {second} summed in {third}"
    if conv.batch_groups > 1:
        return "groups of images"
    if not conv.channels_last or len(conv.axes) != 2:
        return "an image that is not rows, columns and channels"
    if not all(axis.plain for axis in conv.axes):
        return "zeros between pixels, or a cut"
    if widest and conv.inner > widest:
        return f"groups of {conv.inner} channels, which the compiler multiplies by matrix units"
    if max(math.prod(shape(v)) for v in (*conv.operands, conv.value)) >= _MOST_ELEMENTS:
        return "more than 2^31 elements"
    return None
