"""The 2-d convolution in Triton as a product that gathers its rows: no copy of the patches."""

import triton
import triton.language as tl

from edgec.toolchain.kernels.cuda.triton.finish import finish, join, multiply

__all__ = ["convolution"]


@triton.jit
def convolution(
    x, w, bias, scale, other, c, work, counters,
    images, high, wide, inputs, out_high, out_wide, outputs, pixel,
    taps_wide, taps, stride_high, stride_wide, dilation_high, dilation_wide, pad_high, pad_wide,
    steps_part, slot, what, clip_slope, clip_low, clip_high,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    TURNED: tl.constexpr, SPLIT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """C = finish(X * W): `x` is [images, high, wide, pixel], `w` [taps, inputs, outputs].

    TURNED, `w` is [taps, outputs, inputs].
    A tap takes `inputs` elements from its pixel on: `pixel` of them, or those of the pixels to the
    right, too, where a row of a window is one tap. These and `outputs` are multiples of 8. Grid:
    (tiles, parts, 1); the product is that of [images * out_high * out_wide, taps * inputs] and
    [taps * inputs, outputs]. A part sums `steps_part` steps of BK channels of one tap. The rest is
    as in `product`.
    """
    tile = tl.program_id(0)
    part = tl.program_id(1)
    parts = tl.num_programs(1)
    m = images * out_high * out_wide
    tiles_n = tl.cdiv(outputs, BN)
    row = (tile // tiles_n) * BM + tl.arange(0, BM)
    column = (tile % tiles_n) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    image = row // (out_high * out_wide)
    place = row % (out_high * out_wide)
    top = (place // out_wide) * stride_high - pad_high
    left = (place % out_wide) * stride_wide - pad_wide
    x_row = (image * high + top) * wide + left
    column_in = tl.max_contiguous(tl.multiple_of(tl.where(column < outputs, column, 0), 8), 8)
    blocks = tl.cdiv(inputs, BK)
    first = part * steps_part
    last = min(first + steps_part, taps * blocks)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(first, last):
        tap = step // blocks
        channel = (step % blocks) * BK + inner
        down = (tap // taps_wide) * dilation_high
        along = (tap % taps_wide) * dilation_wide
        inside = (
            (top + down >= 0) & (top + down < high) & (left + along >= 0) & (left + along < wide)
        )
        inside = inside & (row < m)
        x_at = x + (x_row + down * wide + along)[:, None] * pixel + channel[None, :]
        values = tl.load(x_at, mask=inside[:, None] & (channel[None, :] < inputs), other=0.0)
        if TURNED:
            w_at = w + (tap * outputs + column_in)[None, :] * inputs + channel[:, None]
        else:
            w_at = w + (tap * inputs + channel)[:, None] * outputs + column_in[None, :]
        weights = tl.load(w_at, mask=channel[:, None] < inputs, other=0.0)
        total = multiply(values, weights, total, PRECISION)
    done = True
    if SPLIT:
        total, done = join(
            total, work, counters + slot, tile, tl.num_programs(0), part, parts, BM, BN
        )
    if done:
        finish(
            total, bias, scale, other, c, row, column, m, outputs, tl.program_id(2),
            what, clip_slope, clip_low, clip_high,
        )  # fmt: skip
