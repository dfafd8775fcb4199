"""Slices into arrays, at places that the device knows, turned by position on the way, in Triton."""

import triton
import triton.language as tl

from edgec.toolchain.kernels.cuda.triton.early import begin

__all__ = ["placed", "put", "started"]


@triton.jit
def put(
    x0, x1, x2, cosine0, sine0, cosine1, sine1, cosine2, sine2, at0, at1, at2, y0, y1, y2,
    count, whole, base, size0, size1, size2, hop0, hop1, hop2, hop3,
    step0, room0, step1, room1, step2, room2, span0, span1, span2,
    FIRST: tl.constexpr, WIDTH0: tl.constexpr, WIDTH1: tl.constexpr, WIDTH2: tl.constexpr,
    FACTORS0: tl.constexpr, FACTORS1: tl.constexpr, FACTORS2: tl.constexpr, BLOCK: tl.constexpr,
    EARLY: tl.constexpr,
):  # fmt: skip
    """`count` elements of x0 into y0, and of x1 into y1 if there is one; the rest of these stays.

    Elements lie in four axes, `size0` the innermost; neighbours along one are `hop` apart in y.
    The first lies at `base` and, for each of the numbers that `at0` to `at2` point to, that times
    `step`, after it is brought into 0 to `room`. If there is an x2, `whole` elements of it become
    all of y2. Where WIDTH is not 0, what is read are rows that `_turned` turns.
    Grid: (blocks of elements, arrays from number FIRST on, 1).
    """
    if EARLY > 0:
        begin()
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    array = tl.program_id(1) + FIRST
    if x0 is not None:
        there = index < count
        place = base + placed(index, size0, size1, size2, hop0, hop1, hop2, hop3)
        place += started(at0, step0, room0) + started(at1, step1, room1)
        place += started(at2, step2, room2)
        if array == 0:
            value = _turned(x0, cosine0, sine0, index, there, span0, WIDTH0, FACTORS0)
            tl.store(y0 + place, value, mask=there)
        if x1 is not None:  # noqa: SIM102 (known when it is compiled, unlike the next)
            if array == 1:
                value = _turned(x1, cosine1, sine1, index, there, span1, WIDTH1, FACTORS1)
                tl.store(y1 + place, value, mask=there)
    if x2 is not None:  # noqa: SIM102
        if array == 2:
            inside = index < whole
            value = _turned(x2, cosine2, sine2, index, inside, span2, WIDTH2, FACTORS2)
            tl.store(y2 + index, value, mask=inside)


@triton.jit
def _turned(
    x, cosine, sine, index, there, span, WIDTH: tl.constexpr, FACTORS: tl.constexpr
):  # fmt: skip
    """Elements of x; with a WIDTH, turned with those half a row apart.

    Rows of FACTORS numbers hold cosines and sines, and begin anew after `span` of them.
    """
    value = tl.load(x + index, mask=there)
    if WIDTH > 0:
        HALF: tl.constexpr = WIDTH // 2
        column = index % WIDTH
        is_first = column < HALF
        other = tl.load(x + index + tl.where(is_first, HALF, -HALF), mask=there).to(tl.float32)
        at = (index // WIDTH * FACTORS + column % FACTORS) % span
        along = tl.load(cosine + at, mask=there).to(tl.float32)
        across = tl.load(sine + at, mask=there).to(tl.float32)
        turned = value.to(tl.float32) * along + tl.where(is_first, -other, other) * across
        value = turned.to(x.dtype.element_ty)
    return value


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
