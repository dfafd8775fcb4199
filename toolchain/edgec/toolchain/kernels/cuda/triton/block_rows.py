"""Rows by weights in blocks in Triton: blocks are read as they lie, and turned to f32 in registers.

A model that writes reads all of its weights for each token, so what counts is how much of them is
on its way at any time, and that what is done for each weight takes no longer than to read it.
"""

import triton
import triton.language as tl

from edgec.toolchain.kernels.cuda.triton.early import begin
from edgec.toolchain.kernels.cuda.triton.finish import finish, gate

__all__ = ["block_rows"]

_RAISED = tl.constexpr(2.0**96)
_LEVEL = tl.constexpr(2.0 ** (96 - 149))
"""Of sums while codes of 4 bits are multiplied: see `_code` and `_beside`."""


@triton.jit
def block_rows(
    x, norm, bias, factor, other,
    codes0, scale0, scale_by0, least0, least_by0, c0,
    codes1, scale1, scale_by1, least1, least_by1, c1,
    codes2, scale2, scale_by2, least2, least_by2, c2,
    rows, inner, outputs0, outputs1, outputs2, eps_bits, what, clip_slope, clip_low, clip_high,
    BN: tl.constexpr, BW: tl.constexpr, BITS: tl.constexpr, SPAN: tl.constexpr,
    GROUP: tl.constexpr, SCALES: tl.constexpr, LEASTS: tl.constexpr, ZERO: tl.constexpr,
    SETS: tl.constexpr, GATED: tl.constexpr, NORMED: tl.constexpr, EVEN: tl.constexpr,
    EARLY: tl.constexpr,
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
    if EARLY == 1:
        begin()
    if GATED > 0:
        total = _sums(
            x, norm, codes0, scale0, scale_by0, least0, least_by0,
            codes1, scale1, scale_by1, least1, least_by1, tile, line, outputs0, inner,
            eps_bits, BN, BW, BITS, SPAN, GROUP, SCALES, LEASTS, ZERO, NORMED, EVEN, EARLY, GATED,
        )  # fmt: skip
        _store(total, c0, tile, line, outputs0, BN)
    elif SETS == 1:
        total = _sums(
            x, norm, codes0, scale0, scale_by0, least0, least_by0,
            None, None, None, None, None, tile, line, outputs0, inner,
            eps_bits, BN, BW, BITS, SPAN, GROUP, SCALES, LEASTS, ZERO, NORMED, EVEN, EARLY, 0,
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
                x, norm, codes0, scale0, scale_by0, least0, least_by0,
                None, None, None, None, None, tile, line, outputs0, inner,
                eps_bits, BN, BW, BITS, SPAN, GROUP, SCALES, LEASTS, ZERO, NORMED, EVEN, EARLY, 0,
            )  # fmt: skip
            _store(total, c0, tile, line, outputs0, BN)
        elif (SETS == 2) or (tile < tiles0 + tiles1):
            total = _sums(
                x, norm, codes1, scale1, scale_by1, least1, least_by1,
                None, None, None, None, None, tile - tiles0, line, outputs1, inner,
                eps_bits, BN, BW, BITS, SPAN, GROUP, SCALES, LEASTS, ZERO, NORMED, EVEN, EARLY, 0,
            )  # fmt: skip
            _store(total, c1, tile - tiles0, line, outputs1, BN)
        else:
            if SETS == 3:
                total = _sums(
                    x, norm, codes2, scale2, scale_by2, least2, least_by2,
                    None, None, None, None, None, tile - tiles0 - tiles1, line, outputs2, inner,
                    eps_bits, BN, BW, BITS, SPAN, GROUP, SCALES, LEASTS, ZERO, NORMED, EVEN, EARLY,
                    0,
                )  # fmt: skip
                _store(total, c2, tile - tiles0 - tiles1, line, outputs2, BN)


@triton.jit
def _sums(
    x, norm, codes, scale, scale_by, least, least_by,
    codes1, scale1, scale_by1, least1, least_by1, tile, line, outputs, inner, eps_bits,
    BN: tl.constexpr, BW: tl.constexpr, BITS: tl.constexpr, SPAN: tl.constexpr,
    GROUP: tl.constexpr, SCALES: tl.constexpr, LEASTS: tl.constexpr, ZERO: tl.constexpr,
    NORMED: tl.constexpr, EVEN: tl.constexpr, EARLY: tl.constexpr, GATED: tl.constexpr,
):  # fmt: skip
    """The products of a row with BN outputs, BW words of each at a time.

    A thread has one word of each output: so neighbours read what lies side by side of both codes
    and row, and a number of the row is read once for BN outputs, or for two matrices' with GATED:
    then these are a gate, of that number, and what it is multiplied with. With EVEN no word lies
    beyond the last.
    """
    own = tile * BN + tl.arange(0, BN)
    own = tl.where(own < outputs, own, 0).to(tl.int64)
    words = inner // (32 // BITS)
    held = codes.to(tl.pointer_type(tl.int32)) + own * words
    groups = inner // GROUP
    total = tl.zeros((BW, BN), dtype=tl.float32)
    squares = tl.zeros((BW,), dtype=tl.float32)
    row = x + line.to(tl.int64) * inner
    word = tl.arange(0, BW)
    ahead = _words(held, word, words, EVEN)
    if GATED > 0:
        held1 = codes1.to(tl.pointer_type(tl.int32)) + own * words
        total1 = tl.zeros((BW, BN), dtype=tl.float32)
        ahead1 = _words(held1, word, words, EVEN)
    if EARLY == 2:
        # Weights are on their way while kernels before this still compute the row.
        begin()
    for _ in range(0, tl.cdiv(words, BW)):
        # What comes next is on its way while this is multiplied; behind the last it is read again.
        after = tl.where(word + BW < words, word + BW, word)
        there = word < words
        code = ahead
        ahead = _words(held, after, words, EVEN)
        if GATED > 0:
            code1 = ahead1
            ahead1 = _words(held1, after, words, EVEN)
        first, plain, square, a0, a1, a2, a3, b0, b1, b2, b3 = _row(
            row, norm, word, there, BITS, SPAN, NORMED, EVEN
        )
        squares += square
        group = first // GROUP if EVEN else tl.where(there, first // GROUP, 0)
        total = _added(
            total, code, plain, a0, a1, a2, a3, b0, b1, b2, b3, scale, scale_by, least, least_by,
            own, group, groups, BITS, SCALES, LEASTS, ZERO,
        )  # fmt: skip
        if GATED > 0:
            total1 = _added(
                total1, code1, plain, a0, a1, a2, a3, b0, b1, b2, b3,
                scale1, scale_by1, least1, least_by1,
                own, group, groups, BITS, SCALES, LEASTS, ZERO,
            )  # fmt: skip
        word += BW
    level = 1.0 / _LEVEL if BITS == 4 else 1.0
    if NORMED > 0:
        mean = tl.sum(squares, 0) / inner
        root = tl.rsqrt(mean + eps_bits.to(tl.float32, bitcast=True))
        result = tl.sum(total, 0) * level * root
        if GATED > 0:
            result = gate(result, GATED) * (tl.sum(total1, 0) * level * root)
    else:
        result = tl.sum(total, 0) * level
        if GATED > 0:
            result = gate(result, GATED) * (tl.sum(total1, 0) * level)
    return result


@triton.jit
def _row(
    row, norm, word, there, BITS: tl.constexpr, SPAN: tl.constexpr, NORMED: tl.constexpr,
    EVEN: tl.constexpr,
):  # fmt: skip
    """What words of codes are multiplied by.

    Where they begin in the row, their sum at the level of the products, the sum of their squares,
    and each at what brings its product to that level; four are not there for codes of 8 bits.
    """
    HALF: tl.constexpr = SPAN // 2
    if BITS == 4:
        # A byte's halves are neighbours half a span apart: four bytes have two runs of four.
        first = word * 8 if HALF == 1 else word * 4 // HALF * SPAN + word * 4 % HALF
        a0, a1, a2, a3, square = _four(row, norm, first, there, NORMED, EVEN)
        b0, b1, b2, b3, more = _four(row, norm, first + max(HALF, 4), there, NORMED, EVEN)
        square += more
        plain = ((a0 + a1) + (a2 + a3) + ((b0 + b1) + (b2 + b3))) * _LEVEL
        if HALF > 1:
            a1, a2, a3, b0, b1, b2 = b0, a1, b1, a2, b2, a3
        a0, a1 = _beside(a0, 0), _beside(a1, 1)
        a2, a3 = _beside(a2, 2), _beside(a3, 3)
        b0, b1 = _beside(b0, 4), _beside(b1, 5)
        b2, b3 = _beside(b2, 6), _beside(b3, 7)
    else:
        first = word * 4
        a0, a1, a2, a3, square = _four(row, norm, first, there, NORMED, EVEN)
        plain = (a0 + a1) + (a2 + a3)
        a1 *= 1.0 / 256
        a3 *= 1.0 / 256
        b0, b1, b2, b3 = a0, a1, a2, a3
    return first, plain, square, a0, a1, a2, a3, b0, b1, b2, b3


@triton.jit
def _added(
    total, code, plain, a0, a1, a2, a3, b0, b1, b2, b3, scale, scale_by, least, least_by,
    own, group, groups, BITS: tl.constexpr, SCALES: tl.constexpr, LEASTS: tl.constexpr,
    ZERO: tl.constexpr,
):  # fmt: skip
    """Sums with the products of words of codes and what `_row` gives."""
    if BITS == 4:
        dots = _code(code, 0) * a0[:, None]
        dots = tl.fma(_code(code, 1), a1[:, None], dots)
        dots = tl.fma(_code(code, 2), a2[:, None], dots)
        dots = tl.fma(_code(code, 3), a3[:, None], dots)
        dots = tl.fma(_code(code, 4), b0[:, None], dots)
        dots = tl.fma(_code(code, 5), b1[:, None], dots)
        dots = tl.fma(_code(code, 6), b2[:, None], dots)
        dots = tl.fma(_code(code, 7), b3[:, None], dots)
    else:
        dots = _byte(code, 0) * a0[:, None]
        dots = tl.fma(_byte(code, 1), a1[:, None], dots)
        dots = tl.fma(_byte(code, 2), a2[:, None], dots)
        dots = tl.fma(_byte(code, 3), a3[:, None], dots)
    if ZERO != 0:
        dots -= (ZERO * plain)[:, None]
    total = tl.fma(dots, _numbers(scale, scale_by, own, group, groups, SCALES), total)
    if least is not None:
        numbers = _numbers(least, least_by, own, group, groups, LEASTS)
        total = tl.fma(tl.broadcast_to(plain[:, None], total.shape), numbers, total)
    return total


@triton.jit
def _words(held, word, words, EVEN: tl.constexpr):
    """Words of codes, of each output; 0 beyond the last."""
    # If Triton knew that words lie side by side it would give a thread four of them, which would
    # then read the row far apart. So threads are along the first axis.
    at = held[None, :] + tl.max_contiguous(word[:, None], (1, 1))
    if EVEN:
        return tl.load(at)
    return tl.load(at, mask=(word < words)[:, None], other=0)


@triton.jit
def _code(word, N: tl.constexpr):
    """The code of 4 bits of that number in each word, as f32: times 2^-149 and 2 to its place.

    Bits below 2^24 that are taken for an f32 are that integer times 2^-149, most of them below the
    least normal number, which costs nothing here. To turn an integer to f32 takes as long as eight
    other instructions, to put it among the bits of 2^23 and take that away two more than this.
    """
    PLACE: tl.constexpr = N * 4 - N // 6 * 8  # the last two are moved a byte down
    bits = word
    if N >= 6:
        bits = word >> 8
    return (bits & (15 << PLACE)).to(tl.float32, bitcast=True)


@triton.jit
def _beside(value, N: tl.constexpr):
    """What a `_code` is multiplied by, so that all products have the same level, `_LEVEL`.

    Rows must stay below 2^31 so that this does, and what counts in them above 2^-40.
    """
    PLACE: tl.constexpr = N * 4 - N // 6 * 8
    return value * (_RAISED / (1 << PLACE))


@triton.jit
def _byte(word, N: tl.constexpr):
    """The signed byte of that number in each word, as f32; 256 times that if the number is odd.

    It is put among the bits of 2^23, its sign's turned, and that is taken away.
    """
    PLACE: tl.constexpr = N * 8 % 16
    bits = word
    if N >= 2:
        bits = word >> 16
    bits = ((bits ^ (128 << PLACE)) & (255 << PLACE)) | 0x4B000000
    return bits.to(tl.float32, bitcast=True) - (8388608.0 + (128 << PLACE))


@triton.jit
def _four(row, norm, first, there, NORMED: tl.constexpr, EVEN: tl.constexpr):
    """Four neighbours of a row, multiplied by a norm's factors, and the sum of their squares."""
    place = first[:, None] + tl.arange(0, 4)[None, :]
    value = _floats(row + place, there, EVEN)
    squares = tl.sum(value * value, 1)
    if NORMED == 1:
        value *= _floats(norm + place, there, EVEN)
    even, odd = tl.split(tl.reshape(value, (first.shape[0], 2, 2)))
    a, c = tl.split(even)
    b, d = tl.split(odd)
    return a, b, c, d, squares


@triton.jit
def _floats(at, there, EVEN: tl.constexpr):
    """Elements as f32, 0 beyond the last."""
    if EVEN:
        return tl.load(at).to(tl.float32)
    return tl.load(at, mask=there[:, None], other=0.0).to(tl.float32)


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
