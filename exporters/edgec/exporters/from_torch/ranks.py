"""Medians, smallest but k, and places among sorted numbers, which torch-mlir does not lower."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["ranks"]


def ranks() -> Mapping[Any, Callable[..., Any]]:
    """For `ExportedProgram.run_decompositions`."""
    import torch

    aten = torch.ops.aten
    return {
        aten.median.default: functools.partial(_whole, leave_out=False),
        aten.nanmedian.default: functools.partial(_whole, leave_out=True),
        aten.median.dim: functools.partial(_median, leave_out=False),
        aten.nanmedian.dim: functools.partial(_median, leave_out=True),
        aten.kthvalue.default: _kthvalue,
        aten.searchsorted.Tensor: _searchsorted,
        aten.searchsorted.Scalar: _searchsorted_number,
        aten.bucketize.Tensor: _bucketize,
    }


def _median(x: Any, dim: int = -1, keepdim: bool = False, *, leave_out: bool) -> Any:
    """The lower of the two in the middle, and its place; NaN stands behind all numbers."""
    import torch

    if not x.ndim:
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    values, places = torch.sort(x, dim=dim, stable=True)
    count = x.shape[dim]
    middle = torch.full_like(values.narrow(dim, 0, 1), (count - 1) // 2, dtype=torch.int64)
    if x.dtype.is_floating_point:
        numbers = (~torch.isnan(x)).to(torch.int64).sum(dim, keepdim=True)
        if leave_out:
            middle = ((numbers - 1) // 2).clamp(min=0)
        else:  # the first that is no number
            middle = torch.where(numbers < count, numbers.clamp(max=count - 1), middle)
    found = values.gather(dim, middle), places.gather(dim, middle)
    return found if keepdim else tuple(each.squeeze(dim) for each in found)


def _whole(x: Any, *, leave_out: bool) -> Any:
    return _median(x.reshape(-1), 0, leave_out=leave_out)[0]


def _kthvalue(x: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    import torch

    if not x.ndim:
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    found = [each.narrow(dim, k - 1, 1) for each in torch.sort(x, dim=dim, stable=True)]
    return tuple(each if keepdim else each.squeeze(dim) for each in found)


def _searchsorted(
    boundaries: Any,
    x: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Any:
    """How many of the sorted numbers are smaller (or as large)."""
    import torch

    if sorter is not None:
        boundaries = boundaries.gather(-1, sorter)
    if boundaries.ndim == 1:
        at = boundaries.reshape([1] * x.ndim + [-1])
    else:
        at = boundaries.unsqueeze(-2)
    after = at <= x.unsqueeze(-1) if right or side == "right" else at < x.unsqueeze(-1)
    return after.sum(-1).to(torch.int32 if out_int32 else torch.int64)


def _searchsorted_number(boundaries: Any, x: Any, **how: Any) -> Any:
    return _searchsorted(boundaries, boundaries.new_full((), x), **how)


def _bucketize(x: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    return _searchsorted(boundaries, x, out_int32=out_int32, right=right)
