"""Many rows by weights in blocks in Triton: matrix units multiply the codes themselves.

Codes of 8 bits and less are exact in bf16, and a row is the sum of three numbers of bf16, so the
units' products are exact, too; each group's sum is multiplied by its scale in f32.
"""

import triton
import triton.language as tl

from edgec.toolchain.kernels.cuda.triton.finish import finish, join

__all__ = ["block_product"]


@triton.jit
def block_product(
    x, bias, factor, other, codes, scale, scale_by, least, least_by, c, work, counters,
    m, n, k, k_part, slot, what, clip_slope, clip_low, clip_high,
    BM: tl.constexpr, BN: tl.constexpr, STEP: tl.constexpr, BITS: tl.constexpr, SPAN: tl.constexpr,
    GROUP: tl.constexpr, SCALES: tl.constexpr, LEASTS: tl.constexpr, ZERO: tl.constexpr,
    SPLIT: tl.constexpr, PIECES: tl.constexpr,
):  # fmt: skip
    """C = finish(X W^T) for W in blocks, one tile a program.

    `x` is [m, k], `c` [m, n]; `codes` and what scales them are those of `block_rows`. STEP weights
    of an output are multiplied at a time, all of one group. A row is cut into PIECES numbers of
    bf16: three have all its bits, two 16. Grid: (tiles, parts, 1); each part sums `k_part` of the
    k, a multiple of STEP. `join` says what SPLIT, `work`, `counters` and `slot` are for, `finished`
    the rest.
    """
    tile = tl.program_id(0)
    part = tl.program_id(1)
    parts = tl.num_programs(1)
    # Programs that run together share rows and weights, so that both stay in the L2.
    tiles_m = tl.cdiv(m, BM)
    tiles_n = tl.cdiv(n, BN)
    band = tile // (8 * tiles_n)
    high = min(tiles_m - band * 8, 8)
    row = (band * 8 + (tile % (8 * tiles_n)) % high) * BM + tl.arange(0, BM)
    column = (tile % (8 * tiles_n)) // high * BN + tl.arange(0, BN)
    own = tl.where(column < n, column, 0)
    first = part * k_part
    rows = x + tl.where(row < m, row, 0)[:, None].to(tl.int64) * k
    groups = k // GROUP
    total = tl.zeros((BM, BN), dtype=tl.float32)
    if BITS == 4:
        # A byte's halves are weights half a span apart.
        HALF: tl.constexpr = SPAN // 2
        byte = tl.arange(0, STEP // 2)
        inner = byte // HALF * SPAN + byte % HALF
        held = codes + own[None, :].to(tl.int64) * (k // 2) + byte[:, None]
        for at in range(first, min(first + k_part, k), STEP):
            code = tl.load(held + at // 2)
            left = tl.load(rows + (at + inner)[None, :])
            right = tl.load(rows + (at + inner + HALF)[None, :])
            found = tl.zeros((BM, BN), dtype=tl.float32)
            found = _multiplied(left, _number(code & 15, ZERO), found, PIECES)
            found = _multiplied(right, _number((code >> 4) & 15, ZERO), found, PIECES)
            group = at // GROUP
            total += found * _numbers(scale, scale_by, own, group, groups, SCALES)[None, :]
            if least is not None:
                plain = tl.sum(left, 1) + tl.sum(right, 1)
                level = _numbers(least, least_by, own, group, groups, LEASTS)
                total += plain[:, None] * level[None, :]
    else:
        inner = tl.arange(0, STEP)
        held = codes + own[None, :].to(tl.int64) * k + inner[:, None]
        for at in range(first, min(first + k_part, k), STEP):
            code = tl.load(held + at)
            left = tl.load(rows + (at + inner)[None, :])
            found = tl.zeros((BM, BN), dtype=tl.float32)
            found = _multiplied(left, _number(code ^ -128, 128 + ZERO), found, PIECES)
            group = at // GROUP
            total += found * _numbers(scale, scale_by, own, group, groups, SCALES)[None, :]
            if least is not None:
                level = _numbers(least, least_by, own, group, groups, LEASTS)
                total += tl.sum(left, 1)[:, None] * level[None, :]
    done = True
    if SPLIT:
        total, done = join(
            total, work, counters + slot, tile, tl.num_programs(0), part, parts, BM, BN
        )
    if done:
        finish(
            total, bias, factor, other, c, row, column, m, n, tl.full((), 0, tl.int32),
            what, clip_slope, clip_low, clip_high,
        )  # fmt: skip


@triton.jit
def _number(code, BIAS: tl.constexpr):
    """Bytes from 0 to 255 less a number, in bf16, which has all integers to 256.

    They are put among the bits of 2^23, and that is taken away: to convert them takes longer.
    """
    bits = (code.to(tl.int32) & 255) | 0x4B000000
    return (bits.to(tl.float32, bitcast=True) - (8388608.0 + BIAS)).to(tl.bfloat16)


@triton.jit
def _multiplied(x, codes, total, PIECES: tl.constexpr):
    """total + x codes, the least pieces of the rows first."""
    first = x.to(tl.bfloat16)
    rest = x - first.to(tl.float32)
    second = rest.to(tl.bfloat16)
    if PIECES == 3:
        third = (rest - second.to(tl.float32)).to(tl.bfloat16)
        total = tl.dot(third, codes, total)
    total = tl.dot(second, codes, total)
    return tl.dot(first, codes, total)


@triton.jit
def _numbers(held, by, own, group, groups, SHARED: tl.constexpr):
    """A group's number for each output, as f32."""
    value = tl.load(held + own * groups + group).to(tl.float32)
    if by is not None:
        value *= tl.load(by + own * (groups // SHARED) + group // SHARED).to(tl.float32)
    return value
