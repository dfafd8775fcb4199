"""A convolution over NHWC as GPU kernels read it: its operands, sizes and places.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

from edgec.toolchain.ir.read import integers
from edgec.toolchain.ir.write import shape
from edgec.toolchain.match.product import LEAST_WORK, gather_rows, is_plain

__all__ = ["Convolution", "read_convolution"]


@dataclass(frozen=True, kw_only=True)
class Convolution:
    """One convolution with a plain window.

    Attributes:
        image, weight: what is multiplied, NHWC and HWIO.
        value: the result.
        images, high, wide: of the image, in its batch and in pixels.
        inputs: elements that one tap multiplies.
        pixel: elements from one pixel to the next.
        out_high, out_wide, outputs: of the result.
        taps, taps_wide: of the window, in all and in a row of it.
        strides: along the two axes.
        pads: before and after, for each axis.
    """

    image: Any
    weight: Any
    value: Any
    images: int
    high: int
    wide: int
    inputs: int
    pixel: int
    out_high: int
    out_wide: int
    outputs: int
    taps: int
    taps_wide: int
    strides: list[int]
    pads: list[int]

    @property
    def rows(self) -> int:
        """Of the product that it is: one for each pixel of the result."""
        return self.images * self.out_high * self.out_wide

    def gathered(self, multiple: int) -> "Convolution":
        """With `inputs` a multiple, for which rows of the window may be put into one tap."""
        if self.inputs % multiple == 0:
            return self
        image, weight = gather_rows(self.image, self.weight, self.pads, multiple)
        _, high, wide, pixel = shape(image)
        return replace(
            self,
            image=image,
            weight=weight,
            high=high,
            wide=wide,
            inputs=pixel * self.taps_wide,
            pixel=pixel,
            taps=self.taps // self.taps_wide,
            taps_wide=1,
            pads=[0, 0, 0, 0],
        )


def read_convolution(op: Any, multiple: int) -> Convolution | None:
    """A `stablehlo.convolution` with a plain window, of known sizes and worth a kernel; or None.

    Args:
        op: the operation.
        multiple: what its outputs must be a multiple of; 0 where no kernel takes its type.
    """
    image, weight = op.operands
    (value,) = op.results
    element = image.type.element_type
    static = all(v.type.has_static_shape for v in (image, weight, value))
    if not static or not multiple or weight.type.element_type != element:
        return None
    if str(value.type.element_type) not in (str(element), "f32") or not is_plain(op):
        return None
    images, high, wide, inputs = shape(image)
    taps_high, taps_wide, _, outputs = shape(weight)
    _, out_high, out_wide, _ = shape(value)
    found = Convolution(
        image=image,
        weight=weight,
        value=value,
        images=images,
        high=high,
        wide=wide,
        inputs=inputs,
        pixel=inputs,
        out_high=out_high,
        out_wide=out_wide,
        outputs=outputs,
        taps=taps_high * taps_wide,
        taps_wide=taps_wide,
        strides=integers(op, "window_strides", (1, 1)),
        pads=integers(op, "padding", (0, 0, 0, 0)),
    )
    if outputs % multiple or found.rows * outputs * inputs * found.taps < LEAST_WORK:
        return None
    small = max(math.prod(shape(v)) for v in (image, weight, value)) < 2**31
    return found if small else None
