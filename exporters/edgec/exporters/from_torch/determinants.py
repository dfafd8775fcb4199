"""Determinants of matrices by elimination, each time with the row whose number is largest.

torch-mlir eliminates without changing rows: with a zero in its way the determinant is NaN, with a
small number imprecise, and of `slogdet` its sign is 0.
"""

from collections.abc import Callable, Mapping
from typing import Any

from edgec.runtime.errors import UnsupportedOp

__all__ = ["determinants"]


def determinants() -> Mapping[Any, Callable[..., Any]]:
    """For `ExportedProgram.run_decompositions`."""
    import torch

    aten = torch.ops.aten
    return {aten.linalg_det.default: _det, aten.linalg_slogdet.default: _slogdet}


def _det(x: Any) -> Any:
    sign, pivots = _eliminated(x)
    return sign * pivots.prod(-1)


def _slogdet(x: Any) -> tuple[Any, Any]:
    sign, pivots = _eliminated(x)
    return sign * pivots.sgn().prod(-1), pivots.abs().log().sum(-1)


def _eliminated(x: Any) -> tuple[Any, Any]:
    """Of matrices (..., n, n): -1 where rows were exchanged an odd number of times, else 1, (...);
    and what then stands on the diagonal, (..., n)."""
    import torch

    size = x.shape[-1]
    if not isinstance(size, int):
        raise UnsupportedOp(
            "the determinant of a matrix whose size is dynamic",
            hint="leave the last two dimensions fixed",
        )
    sign, pivots = torch.ones_like(x[..., :1].sum((-2, -1))), [x.new_ones((*x.shape[:-2], 0))]
    for left in range(size, 0, -1):
        place = x[..., 0].abs().argmax(-1, keepdim=True)
        taken = (torch.arange(left, device=x.device) == place).unsqueeze(-1)
        row = torch.where(taken, x, torch.zeros_like(x)).sum(-2, keepdim=True)
        pivot = row[..., :1]
        pivots.append(pivot.squeeze(-1))
        one = torch.ones_like(sign)
        sign = sign * torch.where(place.squeeze(-1) == 0, one, -one)
        # The first row goes to where the largest was; of a column of zeros nothing is to be taken.
        rest = torch.where(taken, x[..., :1, :], x)[..., 1:, :]
        by = torch.where(pivot == 0, torch.ones_like(pivot), pivot)
        x = rest[..., 1:] - rest[..., :1] / by * row[..., 1:]
    return sign, torch.cat(pivots, -1)
