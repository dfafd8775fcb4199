"""The 2-d convolution of narrow groups in Triton, depthwise ones above all: a sum of rows."""

import triton
import triton.language as tl

from edgec.toolchain.kernels.cuda.triton.finish import finish

__all__ = ["grouped"]


@triton.jit
def grouped(
    x, w, bias, scale, other, c, images, high, wide, channels, out_high, out_wide, outputs,
    inputs, each, taps_high, stride_high, stride_wide, dilation_high, dilation_wide,
    pad_high, pad_wide, what, clip_slope, clip_low, clip_high,
    TAPS_WIDE: tl.constexpr, VECTOR: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """C = finish(X * W): `x` is [images, high, wide, channels], `w` [taps, inputs, outputs].

    Output o sums `inputs` channels, of group o // `each`; `outputs` is a multiple of VECTOR. Grid:
    (row tiles, column tiles, 1) over [images * out_high * out_wide, outputs]. The loads of a row of
    the window are all on their way at once. `finish` says what follows.
    """
    m = images * out_high * out_wide
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    column = tl.program_id(1) * BN + tl.arange(0, BN)
    image = row // (out_high * out_wide)
    place = row % (out_high * out_wide)
    top = (place // out_wide) * stride_high - pad_high
    left = (place % out_wide) * stride_wide - pad_wide
    x_row = (image * high + top) * wide + left
    fits = column < outputs
    first = column // each * inputs
    column_in = tl.max_contiguous(tl.multiple_of(tl.where(fits, column, 0), VECTOR), VECTOR)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for tap in range(taps_high):
        down = tap * dilation_high
        lines = (row < m) & (top + down >= 0) & (top + down < high)
        for tap_wide in tl.static_range(TAPS_WIDE):
            along = tap_wide * dilation_wide
            inside = lines & (left + along >= 0) & (left + along < wide)
            inside = inside[:, None] & fits[None, :]
            x_at = x + (x_row + down * wide + along)[:, None] * channels + first[None, :]
            w_at = w + (tap * TAPS_WIDE + tap_wide) * inputs * outputs + column_in
            for k in range(inputs):
                values = tl.load(x_at + k, mask=inside, other=0.0).to(tl.float32)
                weights = tl.load(w_at + k * outputs, mask=fits, other=0.0).to(tl.float32)
                total += values * weights[None, :]
    finish(
        total, bias, scale, other, c, row, column, m, outputs, tl.program_id(2),
        what, clip_slope, clip_low, clip_high,
    )  # fmt: skip
