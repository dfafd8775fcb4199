"""Resizing of images without aliases: a product with a matrix of weights along each axis.

torch-mlir has no form of it. The weights are PyTorch's own: a triangle or a cubic (a = -1/2) as
wide as the step from one result to the next, cut at the image's edges and scaled to a sum of one.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["antialiased"]

_Filter = Callable[[Any], Any]


def antialiased() -> Mapping[Any, Callable[..., Any]]:
    """For `ExportedProgram.run_decompositions`."""
    import torch

    aten = torch.ops.aten
    linear, cubic = aten._upsample_bilinear2d_aa, aten._upsample_bicubic2d_aa
    table = {}
    for operator, filter_ in ((linear, _triangle), (cubic, _cubic)):
        table[operator.default] = _sized(filter_)
        table[operator.vec] = _scaled(filter_)
    return table


def _triangle(x: Any) -> Any:
    return (1 - x.abs()).clamp(min=0)


def _cubic(x: Any) -> Any:
    import torch

    x = x.abs()
    near = (1.5 * x - 2.5) * x * x + 1
    far = ((-0.5 * x + 2.5) * x - 4) * x + 2
    return torch.where(x < 1, near, torch.where(x < 2, far, torch.zeros_like(x)))


def _scaled(filter_: _Filter) -> Callable[..., Any]:
    """The operator with one list of sizes or of factors."""

    def resized(x: Any, sizes: Any, align_corners: bool, factors: Sequence[float] | None) -> Any:
        if sizes is None:
            given = zip(x.shape[-2:], factors or (), strict=True)
            sizes = [int(size * factor) for size, factor in given]
        return _sized(filter_)(x, sizes, align_corners, *(factors or (None, None)))

    return resized


def _sized(filter_: _Filter) -> Callable[..., Any]:
    """The operator with two sizes and perhaps two factors."""

    def resized(
        x: Any,
        sizes: Sequence[int],
        align_corners: bool,
        down: float | None = None,
        across: float | None = None,
    ) -> Any:
        before = x.shape[-2:]
        if not all(isinstance(size, int) for size in (*before, *sizes)):
            return NotImplemented
        matrices = []
        for size, count, factor in zip(before, sizes, (down, across), strict=True):
            step = _step(size, count, align_corners, factor)
            matrices.append(_weights(size, count, step, filter_, x))
        high, wide = matrices
        return _along_last(_along_last(x, wide).transpose(-1, -2), high).transpose(-1, -2)

    return resized


def _along_last(x: Any, matrix: Any) -> Any:
    """The last axis resized: one product for all lines of all images."""
    count, size = matrix.shape
    return (x.reshape(-1, size) @ matrix.transpose(0, 1)).reshape(*x.shape[:-1], count)


def _step(size: int, count: int, align_corners: bool, factor: float | None) -> float:
    """How far it is from one result to the next, in elements."""
    if align_corners:
        return (size - 1) / (count - 1) if count > 1 else 0.0
    return 1 / factor if factor else size / count


def _weights(size: int, count: int, step: float, filter_: _Filter, like: Any) -> Any:
    """How much of each element is in each result, [count, size].

    A filter is nothing from where PyTorch's windows end.
    """
    import torch

    places, results = (
        torch.arange(n, dtype=torch.float32, device=like.device) + 0.5 for n in (size, count)
    )
    away = (places - (results * step).reshape(-1, 1)) / max(step, 1.0)
    weights = filter_(away)
    return (weights / weights.sum(-1, keepdim=True)).to(like.dtype)
