"""The matrix product in Triton, summed in f32, with what may follow it."""

import triton
import triton.language as tl

from edgec.toolchain.kernels.cuda.triton.finish import finish, join

__all__ = ["product"]


@triton.jit
def product(
    a, b, bias, other, c, work, counters, m, n, k, k_part, a_step, b_step, slot, what,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, TRANSPOSED: tl.constexpr,
    SPLIT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """C = finish(A B), one tile a program.

    `a` is [batch, m, k]; `b` is [batch, k, n], or [batch, n, k] if TRANSPOSED; `c` is
    [batch, m, n]. k and n are multiples of 8. Grid: (tiles of one product, parts, batch). Each
    part sums `k_part` of the k, a multiple of BK. `a_step` and `b_step` are the elements from one
    product of the batch to the next, 0 if all share it. `what`: see `finish`. If SPLIT (and
    no batch), `work` holds an f32 tile for each part and tile, and `counters[slot:]` a zero for
    each tile. PRECISION is how f32 is multiplied: "tf32x3" keeps its precision by three
    products of the matrix units.
    """
    tile = tl.program_id(0)
    part = tl.program_id(1)
    batch = tl.program_id(2)
    parts = tl.num_programs(1)
    # Programs that run together share rows of A and columns of B, so that both stay in the L2.
    tiles_m = tl.cdiv(m, BM)
    tiles_n = tl.cdiv(n, BN)
    band = tile // (8 * tiles_n)
    rows = min(tiles_m - band * 8, 8)
    at_m = band * 8 + (tile % (8 * tiles_n)) % rows
    at_n = (tile % (8 * tiles_n)) // rows

    row = at_m * BM + tl.arange(0, BM)
    column = at_n * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    first = part * k_part
    last = min(first + k_part, k)
    row_in = tl.where(row < m, row, 0)
    a_at = (
        a + batch.to(tl.int64) * a_step + row_in[:, None].to(tl.int64) * k + inner[None, :] + first
    )
    b_at = b + batch.to(tl.int64) * b_step
    column_in = tl.where(column < n, column, 0)
    if TRANSPOSED:
        b_at += column_in[None, :].to(tl.int64) * k + inner[:, None] + first
    else:
        column_in = tl.max_contiguous(tl.multiple_of(column_in, 8), 8)
        b_at += (inner[:, None] + first).to(tl.int64) * n + column_in[None, :]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(first, last, BK):
        x = tl.load(a_at, mask=inner[None, :] < last - start, other=0.0)
        y = tl.load(b_at, mask=inner[:, None] < last - start, other=0.0)
        total = tl.dot(x, y, total, input_precision=PRECISION)
        a_at += BK
        if TRANSPOSED:
            b_at += BK
        else:
            b_at += BK * n
    done = True
    if SPLIT:
        total, done = join(
            total, work, counters + slot, tile, tl.num_programs(0), part, parts, BM, BN
        )
    if done:
        finish(total, bias, other, c, row, column, m, n, batch, what)
