"""The matrix product for many tiles on Hopper: tiles copied by descriptor, programs that stay."""

import triton
import triton.language as tl

from edgec.toolchain.kernels.cuda.triton.finish import finished

__all__ = ["large_product"]


@triton.jit
def large_product(
    a, b, bias, scale, other, c, m, n, k, what, clip_slope, clip_low, clip_high,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, TRANSPOSED: tl.constexpr,
):  # fmt: skip
    """C = finish(A B) as in `product`, without batch, parts and f32 results.

    Any grid does: each program takes every so-manyth tile.
    """
    a_tiles = tl.make_tensor_descriptor(a, shape=[m, k], strides=[k, 1], block_shape=[BM, BK])
    if TRANSPOSED:
        b_tiles = tl.make_tensor_descriptor(b, shape=[n, k], strides=[k, 1], block_shape=[BN, BK])
    else:
        b_tiles = tl.make_tensor_descriptor(b, shape=[k, n], strides=[n, 1], block_shape=[BK, BN])
    HALF: tl.constexpr = BN // 2
    c_tiles = tl.make_tensor_descriptor(c, shape=[m, n], strides=[n, 1], block_shape=[BM, HALF])
    tiles_m = tl.cdiv(m, BM)
    tiles_n = tl.cdiv(n, BN)
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0), flatten=True):
        band = tile // (8 * tiles_n)
        rows = min(tiles_m - band * 8, 8)
        at_m = (band * 8 + (tile % (8 * tiles_n)) % rows) * BM
        at_n = ((tile % (8 * tiles_n)) // rows) * BN
        total = tl.zeros((BM, BN), dtype=tl.float32)
        for step in range(0, tl.cdiv(k, BK)):
            x = a_tiles.load([at_m, step * BK])
            if TRANSPOSED:
                y = b_tiles.load([at_n, step * BK]).T
            else:
                y = b_tiles.load([step * BK, at_n])
            total = tl.dot(x, y, total)
        # Stored in two halves, so that more of the shared memory is left for the next tile's data.
        halves = tl.permute(tl.reshape(total, (BM, 2, HALF)), (0, 2, 1))
        left, right = tl.split(halves)
        row = at_m + tl.arange(0, BM)
        for half in tl.static_range(2):
            part = right if half else left
            place = at_n + half * HALF
            column = place + tl.arange(0, HALF)
            part = finished(
                part, bias, scale, other, row, column, m, n, tl.full((), 0, tl.int32),
                what, clip_slope, clip_low, clip_high,
            )  # fmt: skip
            c_tiles.store([at_m, place], part.to(c.dtype.element_ty))
