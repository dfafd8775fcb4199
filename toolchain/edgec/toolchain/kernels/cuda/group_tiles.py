"""The sizes of a convolution in groups to the tiles of its kernels."""

import math
from dataclasses import dataclass

from edgec.targets import Gpu
from edgec.toolchain.match.convolution import Convolution

__all__ = ["BlockTile", "SumTile", "block_tile", "sum_tile"]

_LEAST_INPUTS = 4
"""Channels of a group from which blocks of mostly zeros still cost less than sums one by one."""
_LEAST_SIDE = 16
"""Of what a matrix unit multiplies."""
_WIDEST_OUTPUTS = 64
_WIDEST_INPUTS = 64
_THREADS = 128
_LANES = 8


@dataclass(frozen=True, kw_only=True)
class BlockTile:
    """A tile for the matrix units.

    Attributes:
        rows, columns, inner: the tile.
        together: groups that share it.
        warps: of 32 threads.
    """

    rows: int
    columns: int
    inner: int
    together: int
    warps: int


@dataclass(frozen=True, kw_only=True)
class SumTile:
    """A tile of results that are summed one by one, by `_THREADS` threads."""

    rows: int
    columns: int


def block_tile(gpu: Gpu, conv: Convolution) -> BlockTile | None:
    """The tile for groups that are wide enough for the matrix units; None if they are not."""
    each = conv.outputs // conv.groups
    if conv.inner < _LEAST_INPUTS or each < _LEAST_INPUTS:
        return None
    together = max(1, min(_LEAST_SIDE // max(conv.inner, each), conv.groups))
    inner = min(_power(together * conv.inner), _WIDEST_INPUTS)
    columns = min(_power(together * each), _WIDEST_OUTPUTS)
    blocks = math.ceil(conv.groups / together) * math.ceil(together * each / columns)
    pixels = _pixels(conv)
    # The largest tile that still gives every multiprocessor one.
    rows = next(
        (n for n in (64, 32) if math.ceil(pixels / n) * blocks >= gpu.multiprocessors), _LEAST_SIDE
    )
    warps = max(1, rows * columns // 1024)
    return BlockTile(rows=rows, columns=columns, inner=inner, together=together, warps=warps)


def sum_tile(gpu: Gpu, conv: Convolution) -> SumTile:
    """The tile for sums one by one: few columns too many, and two programs a multiprocessor."""
    widths = (64, 32, 16, 8)
    columns = min(widths, key=lambda n: math.ceil(conv.outputs / n) * n)
    pixels = _pixels(conv)
    strips = math.ceil(conv.outputs / columns)
    sizes = [_LANES * _THREADS // columns >> shift for shift in range(3)]
    rows = next(
        (n for n in sizes if math.ceil(pixels / n) * strips >= 2 * gpu.multiprocessors), sizes[-1]
    )
    return SumTile(rows=rows, columns=columns)


def _pixels(conv: Convolution) -> int:
    return conv.batch * math.prod(axis.out for axis in conv.axes)


def _power(size: int) -> int:
    return max(_LEAST_SIDE, 1 << (size - 1).bit_length())
