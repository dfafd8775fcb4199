"""Where the window of a tile's first result lies in the input."""

from collections.abc import Iterator

from edgec.toolchain.kernels.cpu.source.writer import Writer

__all__ = ["first_pixel"]


def first_pixel(
    w: Writer, frame: str, size: tuple[int, int], stride: tuple[int, int]
) -> Iterator[str]:
    """`%i5`: the pixel of the input where the result `%y0`, `%x0` begins, counted by rows.

    Args:
        w: the kernel's writer.
        frame: the name of the image's number.
        size: rows and columns of the input.
        stride: of the window, along both.
    """
    yield f"%i0 = arith.muli {frame}, {w.index(size[0])} : index"
    yield f"%i1 = arith.muli %y0, {w.index(stride[0])} : index"
    yield "%i2 = arith.addi %i0, %i1 : index"
    yield f"%i3 = arith.muli %i2, {w.index(size[1])} : index"
    yield f"%i4 = arith.muli %x0, {w.index(stride[1])} : index"
    yield "%i5 = arith.addi %i3, %i4 : index"
