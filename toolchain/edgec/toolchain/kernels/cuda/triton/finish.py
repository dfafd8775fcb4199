"""What may follow a sum of products in the same kernel: parts joined, bias, activation, store."""

import triton
import triton.language as tl

__all__ = ["finish", "gate", "join"]


@triton.jit
def gate(x, kind):
    """x / (1 + exp(-p(x))): 1 is GELU by tanh, 2 GELU by erf (off by at most 3e-5), 3 SiLU.

    All have p(x) = x (a + b x^2 + c x^4), so that one piece of code serves them. For erf the three
    numbers are a fit of log(phi / (1 - phi)), phi the normal distribution, good up to x^2 = 30,
    where the result is x or 0 in f32.
    """
    if kind != 0:
        a = tl.where(kind == 1, 1.5957691216057308, tl.where(kind == 2, 1.59496522, 1.0))
        b = tl.where(kind == 1, 0.07135481282, tl.where(kind == 2, 0.0740572074, 0.0))
        c = tl.where(kind == 2, -0.000710478817, 0.0)
        square = tl.minimum(x * x, 30.0)
        x = x / (1.0 + tl.exp(-x * (a + square * (b + square * c))))
    return x


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
def finish(total, bias, other, c, row, column, m, n, batch, what):
    """Store the tile at `row` and `column` of product number `batch`, [m, n], finished.

    In this order, by the bits of `what`: 1 adds `bias` [n], bits 8 to 11 are a `gate`, 2 adds
    `other` [batch, m, n], 8 takes max(x, 0), 4 stores f32.
    """
    fits = (row[:, None] < m) & (column[None, :] < n)
    at = row[:, None].to(tl.int64) * n + column[None, :] + batch.to(tl.int64) * m * n
    if what & 1:
        total += tl.load(bias + column, mask=column < n, other=0.0).to(tl.float32)[None, :]
    total = gate(total, (what >> 8) & 15)
    if what & 2:
        total += tl.load(other + at, mask=fits, other=0.0).to(tl.float32)
    if what & 8:
        total = tl.maximum(total, 0.0)
    if what & 4:
        tl.store(c.to(tl.pointer_type(tl.float32)) + at, total, mask=fits)
    else:
        tl.store(c + at, total.to(c.dtype.element_ty), mask=fits)
