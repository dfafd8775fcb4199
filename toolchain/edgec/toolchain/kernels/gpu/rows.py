"""A convolution over NHWC as a product that gathers its rows, as kernels of GPUs do.

A module imported only by a pass that runs; it needs the compiler.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

from edgec.toolchain.ir.write import shape
from edgec.toolchain.kernels.gpu.tiles import ConvolutionKey
from edgec.toolchain.kernels.spec import Declined
from edgec.toolchain.match.convolution import Convolution
from edgec.toolchain.match.product import fill_channels, gather_rows, is_plain

__all__ = ["Rows", "read_rows", "window_key"]


@dataclass(frozen=True, kw_only=True)
class Rows:
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
        dilations: from one place of the window to the next, likewise.
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
    dilations: list[int]
    pads: list[int]

    @property
    def rows(self) -> int:
        """Of the product that it is: one for each pixel of the result."""
        return self.images * self.out_high * self.out_wide

    def gathered_inside(self, multiple: int) -> int:
        """What `gathered` will sum for one result."""
        more = -self.inputs % multiple
        return self.taps * (self.inputs + more)

    def gathered(self, multiple: int) -> "Rows":
        """With `inputs` a multiple, for which rows of the window may be put into one tap."""
        if self.inputs % multiple == 0:
            return self
        if self.dilations[1] > 1:
            # Pixels of a row of the window do not lie side by side.
            image, weight = fill_channels(self.image, self.weight, multiple)
            more = shape(image)[3]
            return replace(self, image=image, weight=weight, inputs=more, pixel=more)
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


def read_rows(
    conv: Convolution, op: Any, multiple: int, least: int, more: int = 0
) -> Rows | Declined:
    """A convolution of one group as such a product, if that is worth a kernel.

    Args:
        conv: the convolution.
        op: the operation that it describes.
        multiple: what its outputs must be a multiple of; 0 where no kernel takes its type.
        least: multiplications below which a kernel does not pay.
        more: outputs that are added to fill a piece of memory; the weight is still without them.
    """
    first, second, third = conv.elements
    if not multiple or second != first or third not in (first, "f32"):
        return Declined(reason=f"{first} by {second} summed in {third}")
    if not is_plain(op):
        return Declined(reason="not a plain window over rows, columns and channels")
    down, across = conv.axes
    found = Rows(
        image=conv.image,
        weight=conv.weight,
        value=conv.value,
        images=conv.batch,
        high=down.size,
        wide=across.size,
        inputs=conv.inner,
        pixel=conv.inner,
        out_high=down.out,
        out_wide=across.out,
        outputs=conv.outputs + more,
        taps=conv.taps,
        taps_wide=across.window,
        strides=[down.stride, across.stride],
        dilations=[down.dilation, across.dilation],
        pads=[down.low, down.high, across.low, across.high],
    )
    if found.outputs % multiple:
        return Declined(reason=f"{conv.outputs} outputs, not a multiple of {multiple}")
    if found.rows * conv.outputs * conv.inner * conv.taps < least:
        return Declined(reason="too little to do")
    if max(math.prod(shape(v)) for v in (*conv.operands, conv.value)) >= 2**31:
        return Declined(reason="more than 2^31 elements")
    return found


def window_key(conv: Convolution) -> ConvolutionKey:
    """What a convolution's tile is known by; of one that `read_rows` takes."""
    down, across = conv.axes
    return ConvolutionKey(
        images=conv.batch,
        high=down.size,
        wide=across.size,
        channels=conv.inner,
        window=(down.window, across.window),
        outputs=conv.outputs,
        out=(down.out, across.out),
        strides=(down.stride, across.stride),
        dilations=(down.dilation, across.dilation),
        pads=(down.low, across.low),
        element=conv.elements[0],
    )
