"""Rows by weights in blocks in Triton: blocks are read as they lie, and turned to f32 in registers.

A model that writes reads all of its weights for each token, so what counts is how much of them is
on its way at any time, and that what is done for each weight takes no longer than to read it.
"""

import triton
import triton.language as tl

from edgec.toolchain.kernels.cuda.triton.finish import finish, gate

__all__ = ["block_rows"]


@triton.jit
def block_rows(
    x, norm, bias, factor, other,
    codes0, scale0, scale_by0, least0, least_by0, c0,
    codes1, scale1, scale_by1, least1, least_by1, c1,
    codes2, scale2, scale_by2, least2, least_by2, c2,
    rows, inner, outputs0, outputs1, outputs2, eps_bits, what, clip_slope, clip_low, clip_high,
    BN: tl.constexpr, BW: tl.constexpr, BITS: tl.constexpr, SPAN: tl.constexpr,
    GROUP: tl.constexpr, SCALES: tl.constexpr, LEASTS: tl.constexpr, ZERO: tl.constexpr,
    SETS: tl.constexpr, GATED: tl.constexpr, NORMED: tl.constexpr,
):  # fmt: skip
    """C = finish(X W^T) for `SETS` matrices W in blocks of one kind, BN outputs a program.

    `x` is [rows, inner]; a set has `codes` (bytes, `match/blocks.py` says how they lie), a `scale`
    for each GROUP of neighbours and perhaps a `least` value; integers among these have a factor
    (`scale_by`) for each SCALES, or LEASTS, groups. With NORMED (1; 2 without factors) rows are
    first divided by the root of their mean square, `eps_bits` added, and multiplied by `norm`
    [inner]. With GATED, the number of a `gate`, `c0` is that of the first product times the second.
    What else follows a product is done of a single set alone: see `finished`.
    Grid: (tiles of all sets; of one with GATED, rows, 1).
    """
    tile = tl.program_id(0)
    line = tl.program_id(1)
    if GATED > 0:
        first = _sums(
            x, norm, codes0, scale0, scale_by0, least0, least_by0, tile, line, outputs0, inner,
            eps_bits, BN, BW, BITS, SPAN, GROUP, SCALES, LEASTS, ZERO, NORMED,
        )  # fmt: skip
        second = _sums(
            x, norm, codes1, scale1, scale_by1, least1, least_by1, tile, line, outputs0, inner,
            eps_bits, BN, BW, BITS, SPAN, GROUP, SCALES, LEASTS, ZERO, NORMED,
        )  # fmt: skip
        _store(gate(first, GATED) * second, c0, tile, line, outputs0, BN)
    elif SETS == 1:
        total = _sums(
            x, norm, codes0, scale0, scale_by0, least0, least_by0, tile, line, outputs0, inner,
            eps_bits, BN, BW, BITS, SPAN, GROUP, SCALES, LEASTS, ZERO, NORMED,
        )  # fmt: skip
        finish(
            total[None, :], bias, factor, other, c0, line + tl.arange(0, 1),
            tile * BN + tl.arange(0, BN), rows, outputs0, tl.program_id(2),
            what, clip_slope, clip_low, clip_high,
        )  # fmt: skip
    else:
        tiles0 = tl.cdiv(outputs0, BN)
        tiles1 = tl.cdiv(outputs1, BN)
        if tile < tiles0:
            total = _sums(
                x, norm, codes0, scale0, scale_by0, least0, least_by0, tile, line, outputs0, inner,
                eps_bits, BN, BW, BITS, SPAN, GROUP, SCALES, LEASTS, ZERO, NORMED,
            )  # fmt: skip
            _store(total, c0, tile, line, outputs0, BN)
        elif (SETS == 2) or (tile < tiles0 + tiles1):
            total = _sums(
                x, norm, codes1, scale1, scale_by1, least1, least_by1, tile - tiles0, line,
                outputs1, inner,
                eps_bits, BN, BW, BITS, SPAN, GROUP, SCALES, LEASTS, ZERO, NORMED,
            )  # fmt: skip
            _store(total, c1, tile - tiles0, line, outputs1, BN)
        else:
            if SETS == 3:
                total = _sums(
                    x, norm, codes2, scale2, scale_by2, least2, least_by2, tile - tiles0 - tiles1,
                    line, outputs2, inner,
                    eps_bits, BN, BW, BITS, SPAN, GROUP, SCALES, LEASTS, ZERO, NORMED,
                )  # fmt: skip
                _store(total, c2, tile - tiles0 - tiles1, line, outputs2, BN)


@triton.jit
def _sums(
    x, norm, codes, scale, scale_by, least, least_by, tile, line, outputs, inner, eps_bits,
    BN: tl.constexpr, BW: tl.constexpr, BITS: tl.constexpr, SPAN: tl.constexpr,
    GROUP: tl.constexpr, SCALES: tl.constexpr, LEASTS: tl.constexpr, ZERO: tl.constexpr,
    NORMED: tl.constexpr,
):  # fmt: skip
    """The products of a row with BN outputs, BW words of each at a time.

    A thread has one word of each output: so neighbours read what lies side by side of both codes
    and row, and a number of the row is read once for BN outputs.
    """
    EACH: tl.constexpr = 32 // BITS
    HALF: tl.constexpr = SPAN // 2
    own = tile * BN + tl.arange(0, BN)
    own = tl.where(own < outputs, own, 0).to(tl.int64)
    held = codes.to(tl.pointer_type(tl.int32))
    words = inner // EACH
    groups = inner // GROUP
    total = tl.zeros((BW, BN), dtype=tl.float32)
    squares = tl.zeros((BW,), dtype=tl.float32)
    row = x + line.to(tl.int64) * inner
    for start in range(0, words, BW):
        word = start + tl.arange(0, BW)
        there = word < words
        # If Triton knew that words lie side by side it would give a thread four of them, which
        # would then read the row far apart. So threads are along the first axis.
        at = tl.max_contiguous(own[None, :] * words + word[:, None], (1, 1))
        code = tl.load(held + at, mask=there[:, None], other=0)
        if BITS == 4:
            # A byte's halves are neighbours half a span apart: four bytes have two runs of four.
            first = word * 8 if HALF == 1 else word * 4 // HALF * SPAN + word * 4 % HALF
            a0, a1, a2, a3, square = _four(row, norm, first, there, NORMED)
            b0, b1, b2, b3, more = _four(row, norm, first + max(HALF, 4), there, NORMED)
            squares += square + more
            plain = (a0 + a1) + (a2 + a3) + ((b0 + b1) + (b2 + b3))
            if HALF > 1:
                a1, a2, a3, b0, b1, b2 = b0, a1, b1, a2, b2, a3
            dots = _times(code, 0, 4, 0, a0) + _times(code, 1, 4, 0, a1)
            dots += _times(code, 2, 4, 0, a2) + _times(code, 3, 4, 0, a3)
            dots += _times(code, 4, 4, 0, b0) + _times(code, 5, 4, 0, b1)
            dots += _times(code, 6, 4, 0, b2) + _times(code, 7, 4, 0, b3)
        else:
            first = word * 4
            a0, a1, a2, a3, square = _four(row, norm, first, there, NORMED)
            squares += square
            plain = (a0 + a1) + (a2 + a3)
            dots = _times(code, 0, 8, 128, a0) + _times(code, 1, 8, 128, a1)
            dots += _times(code, 2, 8, 128, a2) + _times(code, 3, 8, 128, a3)
        if ZERO != 0:
            dots -= ZERO * plain[:, None]
        group = tl.where(there, first // GROUP, 0)
        total += dots * _numbers(scale, scale_by, own, group, groups, SCALES)
        if least is not None:
            total += plain[:, None] * _numbers(least, least_by, own, group, groups, LEASTS)
    result = tl.sum(total, 0)
    if NORMED > 0:
        mean = tl.sum(squares, 0) / inner
        result *= tl.rsqrt(mean + eps_bits.to(tl.float32, bitcast=True))
    return result


@triton.jit
def _times(word, N: tl.constexpr, BITS: tl.constexpr, BIAS: tl.constexpr, value):
    """The code of that number in each word, times a value for each; BIAS is its sign's bit, or 0.

    Its bits are put among those below 2^23, and that is taken away: an instruction that turns an
    integer to f32 takes as long as eight others.
    """
    PLACE: tl.constexpr = N * BITS % 16
    MASK: tl.constexpr = ((1 << BITS) - 1) << PLACE
    bits = word
    if N * BITS >= 16:
        bits = word >> 16
    if BIAS != 0:
        bits = bits ^ (BIAS << PLACE)
    bits = (bits & MASK) | 0x4B000000
    code = bits.to(tl.float32, bitcast=True) - (8388608.0 + (BIAS << PLACE))
    return code * (value * (1.0 / (1 << PLACE)))[:, None]


@triton.jit
def _four(row, norm, first, there, NORMED: tl.constexpr):
    """Four neighbours of a row, multiplied by a norm's factors, and the sum of their squares."""
    place = first[:, None] + tl.arange(0, 4)[None, :]
    value = tl.load(row + place, mask=there[:, None], other=0.0).to(tl.float32)
    squares = tl.sum(value * value, 1)
    if NORMED == 1:
        value *= tl.load(norm + place, mask=there[:, None], other=0.0).to(tl.float32)
    even, odd = tl.split(tl.reshape(value, (first.shape[0], 2, 2)))
    a, c = tl.split(even)
    b, d = tl.split(odd)
    return a, b, c, d, squares


@triton.jit
def _numbers(held, by, own, group, groups, SHARED: tl.constexpr):
    """A number for each output and group, as f32."""
    value = tl.load(held + own[None, :] * groups + group[:, None]).to(tl.float32)
    if by is not None:
        shared = own[None, :] * (groups // SHARED) + (group // SHARED)[:, None]
        value *= tl.load(by + shared).to(tl.float32)
    return value


@triton.jit
def _store(total, c, tile, line, outputs, BN: tl.constexpr):
    own = tile * BN + tl.arange(0, BN)
    at = line.to(tl.int64) * outputs + own
    tl.store(c + at, total.to(c.dtype.element_ty), mask=own < outputs)
