"""Sizes of a product of many rows by weights in blocks to the tile that should be fastest."""

import math
from dataclasses import dataclass

from edgec.targets import Gpu

__all__ = ["BlockChoice", "choose"]

_ROWS = (16, 32, 64)
_PARTS = (1, 2, 4, 8)
_LEAST_STEPS = 2
_COUNTED_TILES = 128
_CLOCK = 1980
"""MHz of the H200 that the times were taken on."""
_START, _JOIN, _JOIN_SUMS = 4.7, 0.2, 2.7
"""Microseconds: without steps; to join parts, and for each million of sums in them."""
_STEP = 32
_COLUMNS = {32: (0.76, 0.44), 64: (0.95, 0.66), 128: (1.12, 0.62)}
"""By a tile's columns: microseconds of a step of 32 weights with at most a program on each
multiprocessor, and how the time grows with more. Fitted to 14 sizes on an H200
(`benchmarks/cuda/block_tiles.py`), of which the choice is within 5 % of the best tile."""


@dataclass(frozen=True, kw_only=True)
class BlockChoice:
    """A tile and how to launch it.

    Attributes:
        rows, columns: the tile.
        warps, stages: how Triton is to schedule it.
        tiles: programs of one part.
        parts: into how many sums the inner dimension is split.
        inside: how much of it one part sums.
        time: the expected microseconds.
    """

    rows: int
    columns: int
    warps: int = 4
    stages: int = 3
    tiles: int
    parts: int
    inside: int
    time: float = 0.0


def choose(gpu: Gpu, sizes: tuple[int, int, int], step: int) -> BlockChoice:
    """The choice for `m` rows by `n` outputs of `k` weights, `step` of which are read at a time.

    Args:
        gpu: what is known of the device.
        sizes: m, n, k.
        step: weights of an output that are multiplied at a time.
    """
    m, n, k = sizes
    rows = next((size for size in _ROWS if size >= m), _ROWS[-1])
    found, steps = [], k // step
    for columns, (pace, load) in _COLUMNS.items():
        tiles = math.ceil(m / rows) * math.ceil(n / columns)
        for parts in _PARTS:
            each = math.ceil(steps / parts)
            if math.ceil(steps / each) != parts or (parts > 1 and each < _LEAST_STEPS):
                continue
            if parts > 1 and tiles > _COUNTED_TILES:
                continue
            many = max(1.0, tiles * parts / gpu.multiprocessors * load)
            time = _START + each * step / _STEP * pace * many * _CLOCK / gpu.clock
            time += (_JOIN + _JOIN_SUMS * parts * m * n / 1e6) if parts > 1 else 0.0
            found.append(
                BlockChoice(
                    rows=rows,
                    columns=columns,
                    tiles=tiles,
                    parts=parts,
                    inside=each * step,
                    time=time,
                )
            )
    return min(found, key=lambda choice: choice.time)
