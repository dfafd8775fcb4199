"""Rows by weights in blocks in Triton: blocks are read as they lie, and turned to f32 in registers.

A model that writes reads all of its weights for each token, so what counts is that a program reads
pieces of 16 bytes, neighbours next to each other, and that few programs wait for each other.
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
    BN: tl.constexpr, BP: tl.constexpr, BITS: tl.constexpr, SPAN: tl.constexpr,
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
            eps_bits, BN, BP, BITS, SPAN, GROUP, SCALES, LEASTS, ZERO, NORMED,
        )  # fmt: skip
        second = _sums(
            x, norm, codes1, scale1, scale_by1, least1, least_by1, tile, line, outputs0, inner,
            eps_bits, BN, BP, BITS, SPAN, GROUP, SCALES, LEASTS, ZERO, NORMED,
        )  # fmt: skip
        _store(gate(first, GATED) * second, c0, tile, line, outputs0, BN)
    elif SETS == 1:
        total = _sums(
            x, norm, codes0, scale0, scale_by0, least0, least_by0, tile, line, outputs0, inner,
            eps_bits, BN, BP, BITS, SPAN, GROUP, SCALES, LEASTS, ZERO, NORMED,
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
                eps_bits, BN, BP, BITS, SPAN, GROUP, SCALES, LEASTS, ZERO, NORMED,
            )  # fmt: skip
            _store(total, c0, tile, line, outputs0, BN)
        elif (SETS == 2) or (tile < tiles0 + tiles1):
            total = _sums(
                x, norm, codes1, scale1, scale_by1, least1, least_by1, tile - tiles0, line,
                outputs1, inner,
                eps_bits, BN, BP, BITS, SPAN, GROUP, SCALES, LEASTS, ZERO, NORMED,
            )  # fmt: skip
            _store(total, c1, tile - tiles0, line, outputs1, BN)
        else:
            if SETS == 3:
                total = _sums(
                    x, norm, codes2, scale2, scale_by2, least2, least_by2, tile - tiles0 - tiles1,
                    line, outputs2, inner,
                    eps_bits, BN, BP, BITS, SPAN, GROUP, SCALES, LEASTS, ZERO, NORMED,
                )  # fmt: skip
                _store(total, c2, tile - tiles0 - tiles1, line, outputs2, BN)


@triton.jit
def _sums(
    x, norm, codes, scale, scale_by, least, least_by, tile, line, outputs, inner, eps_bits,
    BN: tl.constexpr, BP: tl.constexpr, BITS: tl.constexpr, SPAN: tl.constexpr,
    GROUP: tl.constexpr, SCALES: tl.constexpr, LEASTS: tl.constexpr, ZERO: tl.constexpr,
    NORMED: tl.constexpr,
):  # fmt: skip
    """The products of a row with BN outputs, BP pieces of 16 bytes of each at a time."""
    PIECE: tl.constexpr = 128 // BITS
    HALF: tl.constexpr = SPAN // 2
    own = tile * BN + tl.arange(0, BN)
    own = tl.where(own < outputs, own, 0).to(tl.int64)
    byte = tl.arange(0, 16)
    pieces = inner // PIECE
    groups = inner // GROUP
    total = tl.zeros((BN, BP), dtype=tl.float32)
    squares = tl.zeros((BP,), dtype=tl.float32)
    for start in range(0, pieces, BP):
        piece = start + tl.arange(0, BP)
        there = piece < pieces
        at = own[:, None, None] * (pieces * 16) + (piece * 16)[None, :, None] + byte[None, None, :]
        held = tl.load(codes + at, mask=there[None, :, None], other=0)
        if BITS == 4:
            # Of four bits, a byte's halves are neighbours half a span apart.
            place = piece[:, None] * PIECE + (byte // HALF * SPAN + byte % HALF)[None, :]
            low, more = _row(x, norm, line, inner, place, there, NORMED)
            squares += more
            high, more = _row(x, norm, line, inner, place + HALF, there, NORMED)
            squares += more
            dots = (held & 15).to(tl.float32) * low[None, :, :]
            dots += ((held >> 4) & 15).to(tl.float32) * high[None, :, :]
            plain = tl.sum(low, 1) + tl.sum(high, 1)
        else:
            place = piece[:, None] * PIECE + byte[None, :]
            low, more = _row(x, norm, line, inner, place, there, NORMED)
            squares += more
            dots = held.to(tl.float32) * low[None, :, :]
            plain = tl.sum(low, 1)
        sums = tl.sum(dots, 2)
        if ZERO != 0:
            sums -= ZERO * plain[None, :]
        group = tl.where(there, piece * PIECE // GROUP, 0)
        total += sums * _numbers(scale, scale_by, own, group, groups, SCALES)
        if least is not None:
            total += plain[None, :] * _numbers(least, least_by, own, group, groups, LEASTS)
    result = tl.sum(total, 1)
    if NORMED > 0:
        mean = tl.sum(squares, 0) / inner
        result *= tl.rsqrt(mean + eps_bits.to(tl.float32, bitcast=True))
    return result


@triton.jit
def _row(x, norm, line, inner, place, there, NORMED: tl.constexpr):
    """Elements of a row, multiplied by a norm's factors, and the sums of their squares before."""
    value = tl.load(x + line.to(tl.int64) * inner + place, mask=there[:, None], other=0.0)
    value = value.to(tl.float32)
    squares = tl.sum(value * value, 1)
    if NORMED == 1:
        value *= tl.load(norm + place, mask=there[:, None], other=0.0).to(tl.float32)
    return value, squares


@triton.jit
def _numbers(held, by, own, group, groups, SHARED: tl.constexpr):
    """A number for each output and group, as f32."""
    value = tl.load(held + own[:, None] * groups + group[None, :]).to(tl.float32)
    if by is not None:
        value *= tl.load(by + own[:, None] * (groups // SHARED) + (group // SHARED)[None, :]).to(
            tl.float32
        )
    return value


@triton.jit
def _store(total, c, tile, line, outputs, BN: tl.constexpr):
    own = tile * BN + tl.arange(0, BN)
    at = line.to(tl.int64) * outputs + own
    tl.store(c + at, total.to(c.dtype.element_ty), mask=own < outputs)
