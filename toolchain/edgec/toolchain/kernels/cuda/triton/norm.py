"""Layer norm and RMS norm in Triton: one program a row, read once."""

import triton
import triton.language as tl

__all__ = ["norm"]


@triton.jit
def norm(x, scale, shift, plus, y, width, eps_bits, what, BN: tl.constexpr):
    """y = (x - mean) / sqrt(variance + eps) * scale + shift + plus along rows of `width` elements.

    `x`, `plus` and `y` are [rows, width], `scale` and `shift` [width]; BN is no less than `width`.
    The bits of `what`: 1 has a scale, 2 has a shift, 4 these two are f32, 8 takes 0 for the mean,
    16 has `plus`, which is added to the norm as it is rounded to `y`'s type. `eps_bits` are the
    bits of the f32. Grid: (rows, 1, 1).
    """
    at = tl.arange(0, BN)
    fits = at < width
    start = tl.program_id(0).to(tl.int64) * width
    value = tl.load(x + start + at, mask=fits, other=0.0).to(tl.float32)
    if (what & 8) == 0:
        value = tl.where(fits, value - tl.sum(value) / width, 0.0)
    variance = tl.sum(value * value) / width
    value *= tl.rsqrt(variance + eps_bits.to(tl.float32, bitcast=True))
    if what & 4:
        if what & 1:
            value *= tl.load(scale.to(tl.pointer_type(tl.float32)) + at, mask=fits, other=0.0)
        if what & 2:
            value += tl.load(shift.to(tl.pointer_type(tl.float32)) + at, mask=fits, other=0.0)
    else:
        if what & 1:
            value *= tl.load(scale + at, mask=fits, other=0.0).to(tl.float32)
        if what & 2:
            value += tl.load(shift + at, mask=fits, other=0.0).to(tl.float32)
    if what & 16:
        value = value.to(y.dtype.element_ty).to(tl.float32)
        value += tl.load(plus + start + at, mask=fits, other=0.0).to(tl.float32)
    tl.store(y + start + at, value.to(y.dtype.element_ty), mask=fits)
