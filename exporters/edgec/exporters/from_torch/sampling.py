"""Volumes read at places between their elements, of which torch-mlir has no form."""

import itertools
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["sampling"]

_NEAREST, _BICUBIC = 1, 2
_ZEROS, _BORDER, _REFLECTION = range(3)


def sampling() -> Mapping[Any, Callable[..., Any]]:
    """For `ExportedProgram.run_decompositions`."""
    import torch

    return {torch.ops.aten.grid_sampler_3d.default: _grid_sampler_3d}


def _grid_sampler_3d(
    x: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Any:
    """Elements around each place, by how near they are, or the nearest one.

    Args:
        x: (batch, channels, depth, height, width).
        grid: (batch, depth, height, width, 3): places in -1 to 1, along the width first.
        interpolation_mode: 0 for the eight around, 1 for the nearest.
        padding_mode: what is beyond the edges: 0 zeros, 1 the edge, 2 what lies opposite.
        align_corners: whether -1 is the middle of the first element, or its edge.
    """
    import torch

    sizes = x.shape[-3:]
    if interpolation_mode == _BICUBIC or not all(isinstance(size, int) for size in sizes):
        return NotImplemented
    places = [
        _placed(grid[..., 2 - axis], size, padding_mode, align_corners)
        for axis, size in enumerate(sizes)
    ]
    flat = x.flatten(2)
    shape = [*x.shape[:2], *grid.shape[1:-1]]

    def read(corner: list[Any]) -> Any:
        """Elements at whole places; zero beyond the edges."""
        index: Any = 0
        inside: Any = None
        for at, size in zip(corner, sizes, strict=True):
            here = (at >= 0) & (at <= size - 1)
            inside = here if inside is None else inside & here
            index = index * size + at.clamp(0, size - 1).to(torch.int64)
        index = index.flatten(1).unsqueeze(1).expand([*x.shape[:2], -1])
        found = flat.gather(2, index).reshape(shape)
        return torch.where(inside.unsqueeze(1), found, torch.zeros_like(found))

    if interpolation_mode == _NEAREST:
        return read([torch.round(at) for at in places])
    begins = [torch.floor(at) for at in places]
    total: Any = 0
    for steps in itertools.product((0, 1), repeat=3):
        share: Any = 1
        for at, begin, step in zip(places, begins, steps, strict=True):
            share = share * (at - begin if step else begin + 1 - at)
        corner = [begin + step for begin, step in zip(begins, steps, strict=True)]
        total = total + read(corner) * share.unsqueeze(1)
    return total


def _placed(at: Any, size: int, padding_mode: int, align_corners: bool) -> Any:
    """Where -1 to 1 is among elements, counted from the middle of the first one."""
    import torch

    at = (at + 1) * (0.5 * (size - 1)) if align_corners else ((at + 1) * size - 1) * 0.5
    if padding_mode == _ZEROS:
        return at
    if padding_mode == _REFLECTION:
        low, span = (0.0, size - 1) if align_corners else (-0.5, size)
        if span == 0:
            return torch.zeros_like(at)
        away = (at - low).abs()
        turns = torch.floor(away / span)
        rest = away - turns * span
        is_back = turns - 2 * torch.floor(turns * 0.5) == 1
        at = torch.where(is_back, span - rest, rest) + low
    return at.clamp(0, size - 1)
