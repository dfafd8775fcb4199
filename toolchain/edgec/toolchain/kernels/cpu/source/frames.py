"""The outermost axis of a window over volumes or films, along which a kernel goes by frames."""

from collections.abc import Iterator
from dataclasses import dataclass

from edgec.toolchain.kernels.cpu.source.writer import Writer

__all__ = ["Frames"]


@dataclass(frozen=True, kw_only=True)
class Frames:
    """How a window of three axes moves along the first; one frame where it has but two.

    Attributes:
        size: frames of the input, padding included.
        out: frames of the result.
        window, stride, dilation: of the window along them.
    """

    size: int = 1
    out: int = 1
    window: int = 1
    stride: int = 1
    dilation: int = 1

    def first(self, w: Writer) -> Iterator[str]:
        """`%frame`: the first that the workgroup `%wz`, one for each frame written, reads."""
        if self == Frames():
            yield f"%frame = arith.addi %wz, {w.index(0)} : index"
            return
        yield f"%frame_a = arith.divui %wz, {w.index(self.out)} : index"
        yield f"%frame_b = arith.remui %wz, {w.index(self.out)} : index"
        yield f"%frame_c = arith.muli %frame_a, {w.index(self.size)} : index"
        yield f"%frame_d = arith.muli %frame_b, {w.index(self.stride)} : index"
        yield "%frame = arith.addi %frame_c, %frame_d : index"
