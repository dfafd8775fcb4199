"""Slices into arrays, at places that the device knows, in Triton."""

import triton
import triton.language as tl

__all__ = ["placed", "put", "started"]


@triton.jit
def put(
    x0, x1, at0, at1, at2, y0, y1,
    count, base, size0, size1, size2, hop0, hop1, hop2, hop3,
    step0, room0, step1, room1, step2, room2,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """`count` elements of x0 into y0, and of x1 into y1 if there is one; the rest of these stays.

    Elements lie in four axes, `size0` the innermost; neighbours along one are `hop` apart in y.
    The first lies at `base` and, for each of the numbers that `at0` to `at2` point to, that times
    `step`, after it is brought into 0 to `room`.
    Grid: (blocks of elements, arrays, 1).
    """
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    there = index < count
    place = base + placed(index, size0, size1, size2, hop0, hop1, hop2, hop3)
    place += started(at0, step0, room0) + started(at1, step1, room1) + started(at2, step2, room2)
    array = tl.program_id(1)
    first = there & (array == 0)
    tl.store(y0 + place, tl.load(x0 + index, mask=first), mask=first)
    if x1 is not None:
        second = there & (array == 1)
        tl.store(y1 + place, tl.load(x1 + index, mask=second), mask=second)


@triton.jit
def placed(index, size0, size1, size2, hop0, hop1, hop2, hop3):
    """Where the elements of a slice lie in its array, beyond the first."""
    rest = index // size0
    place = index % size0 * hop0 + rest % size1 * hop1
    rest = rest // size1
    return place + rest % size2 * hop2 + rest // size2 * hop3


@triton.jit
def started(at, step, room):
    """What a start that lies in memory moves a slice by, if there is one."""
    moved = 0
    if at is not None:
        moved = tl.minimum(tl.maximum(tl.load(at), 0), room).to(tl.int32) * step
    return moved
