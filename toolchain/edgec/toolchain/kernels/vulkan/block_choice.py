"""Sizes of a product of many rows by weights in blocks to the tile that should be fastest."""

import math

from edgec.targets import Gpu
from edgec.toolchain.kernels.vulkan.forms import BLOCK_TILES, BlockTileForm

__all__ = ["choose"]

_PARTS = (1, 2, 4, 8, 16)
_FOURS = 4
_JOIN, _JOIN_SUMS = 7.5, 1.7
"""Microseconds of a join on an H200: of itself, and for each million of sums in the parts."""


def choose(gpu: Gpu, sizes: tuple[int, int, int]) -> tuple[BlockTileForm, int]:
    """The tile that should be quickest, and in how many parts the inside is summed.

    Within 15 % of the best for 14 sizes on an H200 (`benchmarks/vulkan/block_tiles.py`).

    Args:
        gpu: what is known of the device.
        sizes: rows, outputs, and how often 16 bytes of codes are read for an output.
    """
    rows, outputs, pieces = sizes

    def time(choice: tuple[BlockTileForm, int]) -> float:
        form, parts = choice
        groups = math.ceil(rows / form.rows) * math.ceil(outputs / form.columns)
        many = max(1.0, groups * parts / gpu.multiprocessors * form.load)
        join = _JOIN + _JOIN_SUMS * parts * rows * outputs / 1e6 if parts > 1 else 0.0
        return math.ceil(pieces / parts) * form.pace * many + join

    forms = [each for each in BLOCK_TILES if not gpu.registers or each.registers <= gpu.registers]
    split = _PARTS if outputs % _FOURS == 0 else _PARTS[:1]
    parts = {math.ceil(pieces / math.ceil(pieces / many)) for many in split}
    tiles = forms or [BLOCK_TILES[-1]]
    return min(((form, many) for form in tiles for many in sorted(parts)), key=time)
