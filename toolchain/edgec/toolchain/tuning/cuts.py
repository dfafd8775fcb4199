"""A kernel's sizes to other ways of cutting it up, the likeliest first."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice, zip_longest

from edgec.toolchain.kernels.cpu.source import (
    Cut,
    Form,
    KernelKey,
    Result,
    VectorUnit,
    winograd_cuts,
    winograd_tiling,
)
from edgec.toolchain.kernels.cpu.source.byte_convolution import DEPTH
from edgec.toolchain.kernels.cpu.source.convolution import Convolution, ranked_tilings, tiling
from edgec.toolchain.kernels.cpu.source.grouped import grouped_tiling

__all__ = ["cuts_for", "input_size", "split_cuts"]

_SHAPES = 9
_SHAPES_OF_OTHER_FORM = 3
_MOST_SPLITS = 4
_PER_VECTORS = 3
_COLUMNS = (1, 2, 3, 4, 6, 7, 8, 10, 12, 14, 16)
_SPLITS = (1, 2, 4, 8, 16, 32)


def cuts_for(key: KernelKey, unit: VectorUnit) -> list[Cut]:
    """Other shapes of tiles than the model's and other numbers of workgroups, in turns.

    Of a convolution that has two forms, a few of the other one come last: the model's choice
    between the two is seldom wrong.
    """
    model = model_cut(key, unit)
    conv = _convolution(key)
    others: Iterable[Cut] = ()
    if grouped_tiling(conv, unit) is not None:
        near = sorted(_COLUMNS, key=lambda n: abs(n - model.columns))
        shapes = iter([Cut(columns=n, split=model.split) for n in near if n <= key.width])
    else:
        shapes = _shapes(key, unit)
        if not key.bytes:
            forms = {Form.PLAIN: shapes, Form.WINOGRAD: winograd_cuts(conv, unit)}
            shapes = forms.pop(model.form)
            (others,) = forms.values()
    own = (cut for cut in shapes if cut != model)
    return [
        *(
            cut
            for pair in zip_longest(islice(own, _SHAPES), split_cuts(model))
            for cut in pair
            if cut is not None
        ),
        *islice(others, _SHAPES_OF_OTHER_FORM),
    ]


def split_cuts(cut: Cut) -> Iterator[Cut]:
    """The same tiles in other numbers of workgroups: across the tiles, or across the panels."""
    down, across = cut.split
    splits = [(n, across) for n in _SPLITS]
    if cut.form is Form.PLAIN:  # Winograd's workgroups have all panels
        splits += [*((1, n) for n in _SPLITS), (across, down)]
    near = sorted(
        dict.fromkeys(splits), key=lambda s: abs(s[0] * s[1] - down * across) + (s[1] != across)
    )
    others = (split for split in near if split != cut.split)
    for split in islice(others, _MOST_SPLITS):
        yield replace(cut, split=split)


def model_cut(key: KernelKey, unit: VectorUnit) -> Cut:
    """What the kernel is cut into when nothing was measured."""
    conv = _convolution(key)
    narrow = grouped_tiling(conv, unit)
    if narrow is not None:
        return Cut(columns=narrow.columns, split=narrow.split)
    fast = None if key.bytes else winograd_tiling(conv, unit)
    if fast is not None:
        split = (fast.split, 1)
        return Cut(columns=fast.tiles, vectors=fast.vectors, split=split, form=Form.WINOGRAD)
    made = tiling(conv, unit)
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
    height, width = input_size(key)
    return Convolution(
        height=height,
        width=width,
        channels=-(-key.channels // DEPTH) if steps else key.channels,
        groups=key.channels if key.kind == "depthwise" else key.groups,
        result=Result(height=key.height, width=key.width, channels=key.out_channels),
        window=key.window,
        stride=key.stride,
        dilation=key.dilation,
    )


def input_size(key: KernelKey) -> tuple[int, int]:
    """The rows and columns of what a kernel reads, padding included."""
    rows, columns = (
        (size - 1) * stride + (window - 1) * dilation + 1
        for size, stride, window, dilation in zip(
            (key.height, key.width), key.stride, key.window, key.dilation, strict=True
        )
    )
    return rows, columns
