"""The 2-d convolution of wider groups in Triton: blocks of groups for the matrix units."""

import triton
import triton.language as tl

from edgec.toolchain.kernels.cuda.triton.finish import finish, multiply

__all__ = ["grouped_product"]


@triton.jit
def grouped_product(
    x, w, bias, scale, other, c, images, high, wide, channels, out_high, out_wide, outputs,
    inputs, each, taps, taps_wide, stride_high, stride_wide, dilation_high, dilation_wide,
    pad_high, pad_wide, what, clip_slope, clip_low, clip_high,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, TOGETHER: tl.constexpr,
    VECTOR: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """C = finish(X * W): `x` is [images, high, wide, channels], `w` [taps, inputs, outputs].

    Output o sums `inputs` channels, of group o // `each`. A program takes BM pixels of the result
    and TOGETHER groups, whose outputs fit into BN and whose channels fit into BK: weights between
    two groups are 0 there. If TOGETHER is 1 a group may be wider than both. `channels`, `inputs`,
    `each` and `outputs` are multiples of VECTOR. Grid: (tiles of pixels, blocks of groups, tiles of
    a block's outputs). `finish` says what follows.
    """
    m = images * out_high * out_wide
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    block = tl.program_id(1)
    near = tl.program_id(2) * BN + tl.arange(0, BN)
    column = block * (TOGETHER * each) + near
    image = row // (out_high * out_wide)
    place = row % (out_high * out_wide)
    top = (place // out_wide) * stride_high - pad_high
    left = (place % out_wide) * stride_wide - pad_wide
    x_row = (image * high + top) * wide + left
    fits = (near < TOGETHER * each) & (column < outputs)
    first = block * (TOGETHER * inputs)
    inner = tl.arange(0, BK)
    blocks = tl.cdiv(TOGETHER * inputs, BK)
    column_in = tl.max_contiguous(tl.multiple_of(tl.where(fits, column, 0), VECTOR), VECTOR)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(taps * blocks):
        tap = step // blocks
        channel = (step % blocks) * BK + inner
        down = tap // taps_wide * dilation_high
        along = tap % taps_wide * dilation_wide
        inside = (
            (top + down >= 0) & (top + down < high) & (left + along >= 0) & (left + along < wide)
        )
        inside = inside & (row < m)
        there = (channel < TOGETHER * inputs) & (first + channel < channels)
        x_at = x + (x_row + down * wide + along)[:, None] * channels + (first + channel)[None, :]
        values = tl.load(x_at, mask=inside[:, None] & there[None, :], other=0.0)
        w_at = w + (tap * inputs + channel % inputs)[:, None] * outputs + column_in[None, :]
        own = there[:, None] & fits[None, :]
        if TOGETHER > 1:
            own = own & ((channel // inputs)[:, None] == (near // each)[None, :])
        weights = tl.load(w_at, mask=own, other=0.0)
        total = multiply(values, weights, total, PRECISION)
    # What belongs to the next block is stored by its own program.
    own_column = tl.max_contiguous(tl.multiple_of(tl.where(fits, column, outputs), VECTOR), VECTOR)
    finish(
        total, bias, scale, other, c, row, own_column, m, outputs, tl.full((), 0, tl.int32),
        what, clip_slope, clip_low, clip_high,
    )  # fmt: skip
