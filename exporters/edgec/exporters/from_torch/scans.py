"""PyTorch's running products, maxima and logarithms of sums, each step twice as far as the last.

torch-mlir has no portable form of them; PyTorch's own decompositions compute all pairs.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["scans"]

Combine = Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]]


def scans() -> Mapping[Any, Callable[..., Any]]:
    """For `ExportedProgram.run_decompositions`."""
    import torch

    aten = torch.ops.aten
    return {
        aten.cumprod.default: _cumprod,
        aten.logcumsumexp.default: _logcumsumexp,
        aten.cummax.default: functools.partial(_extreme, largest=True),
        aten.cummin.default: functools.partial(_extreme, largest=False),
    }


def _scan(combine: Combine, parts: Sequence[Any], dim: int) -> Any:
    """Of all that is before each place along an axis, and it."""
    import torch

    size = parts[0].shape[dim]
    if not isinstance(size, int):
        return NotImplemented
    reach = 1
    while reach < size:
        before = [part.narrow(dim, 0, size - reach) for part in parts]
        later = [part.narrow(dim, reach, size - reach) for part in parts]
        joined = combine(before, later)
        parts = [
            torch.cat([part.narrow(dim, 0, reach), new], dim)
            for part, new in zip(parts, joined, strict=True)
        ]
        reach *= 2
    return parts


def _cumprod(x: Any, dim: int, *, dtype: Any = None) -> Any:
    import torch

    kind = dtype or (x.dtype if x.dtype.is_floating_point or x.is_complex() else torch.int64)
    x = x.to(kind)
    if not x.ndim:
        return x.clone()
    found = _scan(lambda a, b: [a[0] * b[0]], [x], dim % x.ndim)
    return found if found is NotImplemented else found[0]


def _logcumsumexp(x: Any, dim: int) -> Any:
    """Sums of what is divided by the largest before them, which moves along."""
    import torch

    if x.is_complex() or not x.ndim:
        return NotImplemented

    def combine(a: Sequence[Any], b: Sequence[Any]) -> Sequence[Any]:
        most = torch.maximum(a[0], b[0])
        shift = torch.where(torch.isinf(most), torch.zeros_like(most), most)
        return [most, a[1] * torch.exp(a[0] - shift) + b[1] * torch.exp(b[0] - shift)]

    found = _scan(combine, [x, torch.where(torch.isinf(x) & (x < 0), 0.0, 1.0)], dim % x.ndim)
    if found is NotImplemented:
        return found
    # Infinite ones were not divided by themselves.
    return torch.where(torch.isinf(found[0]), found[0], found[0] + torch.log(found[1]))


def _extreme(x: Any, dim: int, *, largest: bool) -> Any:
    """The largest (or smallest) so far and its last place; what is no number stays."""
    import torch

    if not x.ndim:
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    dim %= x.ndim
    spread = [1] * x.ndim
    spread[dim] = x.shape[dim]
    places = torch.arange(x.shape[dim], device=x.device).reshape(spread).expand(x.shape)

    def combine(a: Sequence[Any], b: Sequence[Any]) -> Sequence[Any]:
        later = b[0] >= a[0] if largest else b[0] <= a[0]
        if x.dtype.is_floating_point:
            later = (later | torch.isnan(b[0])) & ~(torch.isnan(a[0]) & ~torch.isnan(b[0]))
        return [torch.where(later, after, before) for before, after in zip(a, b, strict=True)]

    found = _scan(combine, [x, places], dim)
    return found if found is NotImplemented else tuple(found)
