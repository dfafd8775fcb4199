"""The matrix product in Triton over strided views, summed in f32, with what may follow it."""

import triton
import triton.language as tl

from edgec.toolchain.kernels.cuda.triton.finish import finish, join, multiply

__all__ = ["product"]


@triton.jit
def product(
    a, b, bias, scale, other, c, work, counters, m, n, k, k_part,
    heads, a_at, a_batch, a_head, a_row, a_inner, b_at, b_batch, b_head, b_column, b_inner,
    slot, what, clip_slope, clip_low, clip_high,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    SPLIT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """C = finish(A B), one tile a program.

    A[batch, head, i, j] is a[a_at + batch * a_batch + head * a_head + i * a_row + j * a_inner],
    likewise B of a column and what is summed; `c` is dense [batches, heads, m, n]. Grid: (tiles of
    one product, parts, batches * heads). Each part sums `k_part` of the k, a multiple of BK. ROWS
    and COLUMNS are how many neighbouring rows of A, and columns of B, lie together and are inside
    or not as one. `what` and the numbers
    after it: see `finished`. If SPLIT (and no batch), `work` holds an f32 tile for each
    part and tile, and `counters[slot:]` a zero for each tile. PRECISION: see `multiply`.
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
    outer = (batch // heads).to(tl.int64)
    head = (batch % heads).to(tl.int64)
    row_in = tl.where(row < m, row, 0)
    if ROWS > 1:
        row_in = tl.max_contiguous(tl.multiple_of(row_in, ROWS), ROWS)
    column_in = tl.where(column < n, column, 0)
    if COLUMNS > 1:
        column_in = tl.max_contiguous(tl.multiple_of(column_in, COLUMNS), COLUMNS)
    a_from = a + a_at + outer * a_batch + head * a_head
    b_from = b + b_at + outer * b_batch + head * b_head
    a_from += row_in[:, None].to(tl.int64) * a_row + (inner[None, :] + first).to(tl.int64) * a_inner
    b_from += column_in[None, :].to(tl.int64) * b_column
    b_from += (inner[:, None] + first).to(tl.int64) * b_inner
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(first, last, BK):
        x = tl.load(a_from, mask=inner[None, :] < last - start, other=0.0)
        y = tl.load(b_from, mask=inner[:, None] < last - start, other=0.0)
        total = multiply(x, y, total, PRECISION)
        a_from += BK * a_inner
        b_from += BK * b_inner
    done = True
    if SPLIT:
        total, done = join(
            total, work, counters + slot, tile, tl.num_programs(0), part, parts, BM, BN
        )
    if done:
        finish(
            total, bias, scale, other, c, row, column, m, n, batch,
            what, clip_slope, clip_low, clip_high,
        )  # fmt: skip
