"""What may follow a sum of products in the same kernel: parts joined, bias, activation, store."""

import triton
import triton.language as tl

__all__ = ["clipped", "finish", "finished", "gate", "join", "multiply"]


@triton.jit
def multiply(x, y, total, PRECISION: tl.constexpr):
    """total + x y. Of f32, "tf32x3" keeps the precision by three products of the matrix units.

    "tf32" takes one, of both sides rounded to nearest: the units themselves would cut them, always
    towards 0, and errors of one sign add up over the layers of a network.
    """
    if x.dtype == tl.float32 and PRECISION == "tf32":
        x = rounded(x)
        y = rounded(y)
    return tl.dot(x, y, total, input_precision=PRECISION)


@triton.jit
def rounded(x):
    """f32 rounded to the 11 bits that TF32 keeps."""
    bits = (x.to(tl.int32, bitcast=True) + 0x1000) & -8192
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def gate(x, kind):
    """An activation by its number, right to 1e-6 of 1 + |x|.

    1 is GELU by tanh, 2 GELU by erf, 3 SiLU, 4 the sigmoid, 5 tanh, 6 hard swish, 7 hard sigmoid.
    """
    if kind == 2:
        # x > 0 ? x - x q / 2 : x q / 2, q = erfc(|x| / sqrt 2) by Abramowitz and Stegun 7.1.26.
        size = tl.abs(x)
        t = 1.0 / (1.0 + 0.2316418954 * size)
        q = 1.421413741 + t * (-1.453152027 + t * 1.061405429)
        q = t * (0.254829592 + t * (-0.284496736 + t * q))
        x = tl.maximum(x, 0.0) - 0.5 * size * q * tl.exp(-0.5 * tl.minimum(size * size, 160.0))
    elif kind == 5:
        size = tl.minimum(tl.abs(x), 40.0)
        square = size * size
        series = square * (0.1333333333 - square * 0.05396825397)
        near = size * (1.0 + square * -0.3333333333 + square * series)
        far = 1.0 - 2.0 / (1.0 + tl.exp(2.0 * size))
        value = tl.where(size < 0.2, near, far)
        x = tl.where(x < 0, -value, value)
    elif kind >= 6:
        share = tl.minimum(tl.maximum(x / 6.0 + 0.5, 0.0), 1.0)
        x = tl.where(kind == 6, x * share, share)
    elif kind != 0:
        a = tl.where(kind == 1, 1.5957691216057308, 1.0)
        b = tl.where(kind == 1, 0.07135481282, 0.0)
        square = tl.minimum(x * x, 30.0)
        # Beyond 80 the result is 0 in f32, and exp would leave its range.
        below = 1.0 + tl.exp(tl.minimum(-x * (a + square * b), 80.0))
        x = tl.where(kind == 4, 1.0, x) / below
    return x


@triton.jit
def clipped(x, slope, low, high):
    """min(max(x if x > 0 else slope * x, low), high); the numbers are the bits of f32."""
    x = tl.maximum(x, 0.0) + _number(slope) * tl.minimum(x, 0.0)
    return tl.minimum(tl.maximum(x, _number(low)), _number(high))


@triton.jit
def _number(bits):
    return tl.full((), bits, tl.int32).to(tl.float32, bitcast=True)


@triton.jit
def join(total, work, counters, tile, tiles, part, parts, BM: tl.constexpr, BN: tl.constexpr):
    """The sum over all parts, in the program that comes last; whether this is the one.

    Each part leaves its sum in `work` and takes a number. The last one adds all in order, so that
    the result does not depend on who was last, and sets the counter back to 0 for the next launch.
    """
    here = tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :]
    base = work + tile.to(tl.int64) * (BM * BN)
    step = tiles.to(tl.int64) * (BM * BN)
    tl.store(base + part * step + here, total)
    tl.debug_barrier()
    number = tl.atomic_add(counters + tile, 1, sem="acq_rel", scope="gpu")
    is_last = number == parts - 1
    if is_last:
        tl.atomic_xchg(counters + tile, 0, sem="relaxed", scope="gpu")
        total = tl.zeros((BM, BN), dtype=tl.float32)
        for index in range(0, parts, 4):  # four loads at a time: each takes long to arrive
            one, two, three, four = index, index + 1, index + 2, index + 3
            a = tl.load(base + one * step + here, cache_modifier=".cg")
            b = tl.load(base + two * step + here, mask=two < parts, other=0.0, cache_modifier=".cg")
            c = tl.load(
                base + three * step + here, mask=three < parts, other=0.0, cache_modifier=".cg"
            )
            d = tl.load(
                base + four * step + here, mask=four < parts, other=0.0, cache_modifier=".cg"
            )
            total += (a + b) + (c + d)
    return total, is_last


@triton.jit
def finished(
    total, bias, scale, other, row, column, m, n, batch, what, clip_slope, clip_low, clip_high
):  # fmt: skip
    """The tile at `row` and `column` of product number `batch`, [m, n], with what follows it.

    By the bits of `what`, in this order: 1 adds `bias` [n], bits 8 to 11 are a `gate`, 64
    multiplies by `scale` [n], 2 adds `other` [batch, m, n], 8 takes max(x, 0), 16 clips by the
    numbers of the call (before `other` with 32, too); 4 is for who stores it.
    """
    if what & 1:
        total += tl.load(bias + column, mask=column < n, other=0.0).to(tl.float32)[None, :]
    total = gate(total, (what >> 8) & 15)
    if what & 64:
        total *= tl.load(scale + column, mask=column < n, other=0.0).to(tl.float32)[None, :]
    if (what & 48) == 48:
        total = clipped(total, clip_slope, clip_low, clip_high)
    if what & 2:
        fits = (row[:, None] < m) & (column[None, :] < n)
        at = row[:, None].to(tl.int64) * n + column[None, :] + batch.to(tl.int64) * m * n
        total += tl.load(other + at, mask=fits, other=0.0).to(tl.float32)
    if what & 8:
        total = tl.maximum(total, 0.0)
    if (what & 48) == 16:
        total = clipped(total, clip_slope, clip_low, clip_high)
    return total


@triton.jit
def finish(
    total, bias, scale, other, c, row, column, m, n, batch, what, clip_slope, clip_low, clip_high
):  # fmt: skip
    """Store a tile as `finished` gives it; in f32 by the bit 4 of `what`."""
    total = finished(
        total, bias, scale, other, row, column, m, n, batch, what, clip_slope, clip_low, clip_high
    )
    fits = (row[:, None] < m) & (column[None, :] < n)
    at = row[:, None].to(tl.int64) * n + column[None, :] + batch.to(tl.int64) * m * n
    if what & 4:
        tl.store(c.to(tl.pointer_type(tl.float32)) + at, total, mask=fits)
    else:
        tl.store(c + at, total.to(c.dtype.element_ty), mask=fits)
