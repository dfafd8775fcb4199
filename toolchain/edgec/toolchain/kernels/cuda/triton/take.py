"""Slices of arrays, from places that the device knows, in Triton."""

import triton
import triton.language as tl

from edgec.toolchain.kernels.cuda.triton.early import begin
from edgec.toolchain.kernels.cuda.triton.put import placed, started

__all__ = ["take"]


@triton.jit
def take(
    x, at0, at1, at2, y,
    count, base, size0, size1, size2, hop0, hop1, hop2, hop3,
    step0, room0, step1, room1, step2, room2,
    BLOCK: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """`count` elements of x into y; where they lie is said as for `put`.

    Grid: (blocks of elements, 1, 1).
    """
    if EARLY > 0:
        begin()
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    there = index < count
    place = base + placed(index, size0, size1, size2, hop0, hop1, hop2, hop3)
    place += started(at0, step0, room0) + started(at1, step1, room1) + started(at2, step2, room2)
    tl.store(y + index, tl.load(x + place, mask=there), mask=there)
