"""Rows in order, or the first few of them, in Triton: one program sorts a part of a row."""

import triton
import triton.language as tl

from edgec.toolchain.kernels.cuda.triton.early import begin

__all__ = ["order"]

_END = tl.constexpr((1 << 63) - 1)
"""What comes after every number."""


@triton.jit
def order(
    x, p, y, at, length, count, kept, fraction,
    BN: tl.constexpr, DESCENDING: tl.constexpr, UNSIGNED: tl.constexpr, BY_BITS: tl.constexpr,
    EARLY: tl.constexpr,
):  # fmt: skip
    """Places `at` of the first `kept` of each part of BN candidates of a row of x, and these, y.

    `x` is [rows, length]. Candidates are the places of a row one by one, or `p` [rows, count]; -1
    is none. `at` is [rows, parts, kept], and so is `y`, if it is there; -1 where a part has fewer.
    `fraction` is the number of digits after the first of floats, whose zeros are equal and whose
    NaN is one number after infinity without BY_BITS. Equal numbers keep the order of their places.
    Grid: (rows, parts, 1): of rows there may be more than 65,535.
    """
    if EARLY > 0:
        begin()
    part = tl.program_id(1)
    line = tl.program_id(0).to(tl.int64)
    index = part * BN + tl.arange(0, BN)
    if p is None:
        place = index
        there = index < length
    else:
        place = tl.load(p + line * count + index, mask=index < count, other=-1)
        there = place >= 0
    row = x + line * length
    value = tl.load(row + place, mask=there, other=0)
    key = _key(value, fraction, UNSIGNED, BY_BITS)
    if DESCENDING:
        key = ~key
    both = (key.to(tl.int64) << 32) | place.to(tl.int64)
    both = tl.sort(tl.where(there, both, _END))
    place = both.to(tl.int32)
    index = tl.arange(0, BN)
    end = (line * tl.num_programs(1) + part) * kept + index
    tl.store(at + end, place, mask=index < kept)
    if y is not None:
        first = (index < kept) & (place >= 0)
        tl.store(y + end, tl.load(row + place, mask=first, other=0), mask=index < kept)


@triton.jit
def _key(value, fraction, UNSIGNED: tl.constexpr, BY_BITS: tl.constexpr):
    """Integers of 32 bits whose order is that of numbers."""
    WIDTH: tl.constexpr = value.dtype.primitive_bitwidth
    if value.dtype.is_floating():
        if WIDTH == 16:
            bits = value.to(tl.int16, bitcast=True).to(tl.int32)
        else:
            bits = value.to(tl.int32, bitcast=True)
        size = bits & ((1 << (WIDTH - 1)) - 1)
        if not BY_BITS:
            infinity = ((1 << (WIDTH - 1 - fraction)) - 1) << fraction
            bits = tl.where(size > infinity, (1 << (WIDTH - 1)) - 1, bits)
            size = bits & ((1 << (WIDTH - 1)) - 1)
            bits = tl.where(size == 0, 0, bits)
        return tl.where(bits < 0, bits ^ ((1 << (WIDTH - 1)) - 1), bits)
    key = value.to(tl.int32)
    if UNSIGNED:
        if WIDTH < 32:
            key = key & ((1 << WIDTH) - 1)
        else:
            key = key ^ (-2147483647 - 1)
    return key
