"""Attention in Triton: softmax(Q K^T * scale) V in one pass, without the matrix of scores."""

import triton
import triton.language as tl

__all__ = ["attention"]


@triton.jit
def attention(
    q, k, v, o, queries, keys, scale_bits, q_at, k_at, v_at, q_batch, k_batch, v_batch, o_batch,
    q_head, k_head, v_head, o_head, q_row, k_row, v_row, o_row, share,
    BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """O = softmax(Q K^T * scale) V for each head of each batch, D wide.

    Element (batch, head, row, i) of q is q[q_at + batch * q_batch + head * q_head + row * q_row
    + i], all of them multiples of 8; likewise k, v and o. `share` query heads use one head of k
    and v. `scale_bits` are the bits of the f32. Grid: (tiles of BM queries, heads, batches).
    """
    head = tl.program_id(1)
    batch = tl.program_id(2)
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    key = tl.arange(0, BN)
    inner = tl.arange(0, D)
    scale = scale_bits.to(tl.float32, bitcast=True) * 1.4426950408889634
    q += q_at + batch.to(tl.int64) * q_batch + head * q_head
    k += k_at + batch.to(tl.int64) * k_batch + (head // share) * k_head
    v += v_at + batch.to(tl.int64) * v_batch + (head // share) * v_head
    o += batch.to(tl.int64) * o_batch + head * o_head
    queried = tl.load(
        q + row[:, None] * q_row + inner[None, :], mask=row[:, None] < queries, other=0.0
    )
    most = tl.full((BM,), float("-inf"), dtype=tl.float32)
    sums = tl.zeros((BM,), dtype=tl.float32)
    total = tl.zeros((BM, D), dtype=tl.float32)
    for start in range(0, keys, BN):
        fits = start + key < keys
        held = tl.load(
            k + (start + key)[None, :] * k_row + inner[:, None], mask=fits[None, :], other=0.0
        )
        scores = tl.dot(queried, held, input_precision=PRECISION) * scale
        scores = tl.where(fits[None, :], scores, float("-inf"))
        more = tl.maximum(most, tl.max(scores, 1))
        shares = tl.exp2(scores - more[:, None])
        fade = tl.exp2(most - more)
        sums = sums * fade + tl.sum(shares, 1)
        values = tl.load(
            v + (start + key)[:, None] * v_row + inner[None, :], mask=fits[:, None], other=0.0
        )
        shares = shares.to(v.dtype.element_ty)
        total = tl.dot(shares, values, total * fade[:, None], input_precision=PRECISION)
        most = more
    total = total / sums[:, None]
    tl.store(
        o + row[:, None] * o_row + inner[None, :],
        total.to(o.dtype.element_ty),
        mask=row[:, None] < queries,
    )
