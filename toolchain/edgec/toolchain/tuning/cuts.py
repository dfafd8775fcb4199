"""A kernel's sizes to other ways of cutting it up, the likeliest first."""

from collections.abc import Iterator
from itertools import islice

from edgec.toolchain.kernels.cpu.source import Cut, KernelKey, Result, VectorUnit
from edgec.toolchain.kernels.cpu.source.byte_convolution import DEPTH
from edgec.toolchain.kernels.cpu.source.convolution import Convolution, ranked_tilings, tiling
from edgec.toolchain.kernels.cpu.source.grouped import grouped_tiling

__all__ = ["cuts_for", "split_cuts"]

_SHAPES = 9
_MOST_SPLITS = 4
_PER_VECTORS = 3
_COLUMNS = (1, 2, 3, 4, 6, 7, 8, 10, 12, 14, 16)
_SPLITS = (1, 2, 4, 8, 16, 32)


def cuts_for(key: KernelKey, unit: VectorUnit) -> list[Cut]:
    """Other shapes of tiles than the model's, with as many workgroups; then other numbers of them.

    Strides and padding are not known here; they change what a step of the kernel loads, and
    nothing of what fits.
    """
    model = model_cut(key, unit)
    if grouped_tiling(_convolution(key), unit) is not None:
        near = sorted(_COLUMNS, key=lambda n: abs(n - model.columns))
        shapes = [Cut(columns=n, split=model.split) for n in near if n <= key.width]
    else:
        shapes = list(islice(_shapes(key, unit), _SHAPES))
    return [cut for cut in [*shapes, *split_cuts(model)] if cut != model]


def split_cuts(cut: Cut) -> Iterator[Cut]:
    """The same tiles in other numbers of workgroups: across the tiles, or across the panels."""
    down, across = cut.split
    splits = [(n, across) for n in _SPLITS] + [(1, n) for n in _SPLITS] + [(across, down)]
    near = sorted(
        dict.fromkeys(splits), key=lambda s: abs(s[0] * s[1] - down * across) + (s[1] != across)
    )
    others = (split for split in near if split != cut.split)
    for split in islice(others, _MOST_SPLITS):
        yield Cut(rows=cut.rows, columns=cut.columns, vectors=cut.vectors, split=split)


def model_cut(key: KernelKey, unit: VectorUnit) -> Cut:
    """What the kernel is cut into when nothing was measured."""
    narrow = grouped_tiling(_convolution(key), unit)
    if narrow is not None:
        return Cut(columns=narrow.columns, split=narrow.split)
    made = tiling(_convolution(key), unit)
    return Cut(rows=made.rows, columns=made.columns, vectors=made.vectors, split=made.split)


def _shapes(key: KernelKey, unit: VectorUnit) -> Iterator[Cut]:
    """Tile shapes by the model's cost, a few for each number of vectors."""
    seen: dict[int, int] = {}
    for made in ranked_tilings(_convolution(key), unit):
        seen[made.vectors] = seen.get(made.vectors, 0) + 1
        if seen[made.vectors] <= _PER_VECTORS:
            yield Cut(rows=made.rows, columns=made.columns, vectors=made.vectors, split=made.split)


def _convolution(key: KernelKey) -> Convolution:
    """The kernel's sizes; a step of one over bytes takes several channels at once."""
    steps = key.bytes and key.kind != "depthwise"
    return Convolution(
        height=key.height + key.window[0] - 1,
        width=key.width + key.window[1] - 1,
        channels=-(-key.channels // DEPTH) if steps else key.channels,
        groups=key.channels if key.kind == "depthwise" else key.groups,
        result=Result(height=key.height, width=key.width, channels=key.out_channels),
        window=key.window,
    )
