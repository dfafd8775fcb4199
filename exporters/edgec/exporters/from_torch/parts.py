"""Parts of PyTorch tensors read and written as rows and choices, not element by element.

torch-mlir computes an index for each element of these: Longformer's windows took it over 10 GB.
"""

from collections.abc import Sequence
from typing import Any

__all__ = ["as_strided", "select_scatter", "slice_scatter"]


def as_strided(
    x: Any, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Any:
    """Whole rows: as many of the last axes as lie together in memory."""
    import torch

    order = sorted(range(x.ndim), key=lambda axis: -x.stride(axis))
    rows = x.permute(order)
    offset = x.storage_offset() if storage_offset is None else storage_offset
    numbers = (*size, *stride, offset, *x.shape)
    known = all(isinstance(number, int) for number in numbers)
    if not known or not rows.is_contiguous() or x.storage_offset():
        return NotImplemented
    inner, outer = 1, len(size)
    steps = [offset, *stride]
    while outer and stride[outer - 1] == inner:
        longer = inner * size[outer - 1]
        if any(step % longer for step in steps[:outer]) or x.numel() % longer:
            break
        inner, outer = longer, outer - 1
    place = torch.full((), offset // inner, dtype=torch.int64, device=x.device)
    for count, step in zip(size[:outer], stride[:outer], strict=True):
        place = place.unsqueeze(-1) + torch.arange(count, device=x.device) * (step // inner)
    found = rows.reshape(-1, inner).index_select(0, place.reshape(-1))
    return found.reshape(list(size))


def slice_scatter(
    x: Any, part: Any, dim: int = 0, start: Any = None, end: Any = None, step: Any = 1
) -> Any:
    """What is before, the part, what is after; with steps a choice."""
    import torch

    size = x.shape[dim]
    if not all(isinstance(n, int) for n in (size, start or 0, end or 0, step)):
        return NotImplemented
    first, last, _ = slice(start, end, step).indices(size)
    if step == 1:
        last = max(first, last)
        before, after = x.narrow(dim, 0, first), x.narrow(dim, last, size - last)
        return torch.cat([before, part.expand(*_sizes(x, dim, last - first)), after], dim)
    count = len(range(first, last, step))
    if not count:
        return x.clone()
    at = torch.arange(size, device=x.device) - first
    number = torch.ops.aten.div.Tensor_mode(at, torch.full_like(at, step), rounding_mode="trunc")
    mask = (at >= 0) & (number * step == at) & (number < count)
    spread = [1] * x.ndim
    spread[dim] = size
    found = part.index_select(dim, number.clamp(0, count - 1))
    return torch.where(mask.reshape(spread), found, x)


def _sizes(x: Any, dim: int, size: int) -> list[int]:
    found = list(x.shape)
    found[dim] = size
    return found


def select_scatter(x: Any, part: Any, dim: int, index: Any) -> Any:
    """A slice of one."""
    if not isinstance(index, int) or not isinstance(x.shape[dim], int):
        return NotImplemented
    at = index % x.shape[dim]
    return slice_scatter(x, part.unsqueeze(dim), dim, at, at + 1)
