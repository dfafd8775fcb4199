"""Systems of linear equations, inverses and Cholesky's factors, which torch-mlir does not lower.

A step a row is written out, for matrices of fixed sizes; of equations each time with the row whose
number is largest.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from edgec.runtime.errors import UnsupportedOp

__all__ = ["solve_triangular", "systems", "unchecked"]

_LARGEST = 64
"""Rows of a matrix whose elimination is written out."""


def systems() -> Mapping[Any, Callable[..., Any]]:
    """For `ExportedProgram.run_decompositions`."""
    import torch

    aten = torch.ops.aten
    return {
        aten.linalg_inv_ex.default: lambda x, **_: _solved(x, _eye(x).expand(x.shape)),
        aten._linalg_solve_ex.default: _solve_ex,
        aten.linalg_cholesky_ex.default: _cholesky_ex,
        aten.linalg_qr.default: _qr,
        aten.cholesky.default: lambda x, upper=False: _cholesky_ex(x, upper=upper)[0],
        aten.linalg_solve_triangular.default: solve_triangular,
        aten.triangular_solve.default: _old_triangular_solve,
        aten.cholesky_solve.default: _cholesky_solve,
        aten.cholesky_inverse.default: lambda x, upper=False: _cholesky_solve(
            _eye(x).expand(x.shape), x, upper
        ),
    }


@contextlib.contextmanager
def unchecked() -> Iterator[None]:
    """Let `torch.linalg` check nothing while a model is traced: a program cannot raise errors."""
    import torch

    find = torch._library.simple_registry.singleton.find
    effect = find("aten::_linalg_check_errors").effect
    own = effect._effect
    effect._effect = None
    try:
        yield
    finally:
        effect._effect = own


def _eye(x: Any) -> Any:
    import torch

    return torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)


def _solve_ex(a: Any, b: Any, *, left: bool = True, check_errors: bool = False) -> Any:
    """The answer; its factors and exchanges, which `linalg.solve` does not give, are not made."""
    import torch

    is_vector = b.ndim == 1 or (b.ndim == a.ndim - 1 and b.shape == a.shape[:-1])
    if not left:
        a, b = a.transpose(-1, -2), b if is_vector else b.transpose(-1, -2)
    found, fault = _solved(a, b.unsqueeze(-1) if is_vector else b)
    if is_vector:
        found = found.squeeze(-1)
    elif not left:
        found = found.transpose(-1, -2)
    places = torch.ones(a.shape[:-1], dtype=torch.int32, device=a.device)
    return found, torch.zeros_like(a), places, fault


def _rows(x: Any) -> int:
    """How many rows a matrix has, if its elimination can be written out."""
    size = x.shape[-1]
    if not isinstance(size, int) or size > _LARGEST:
        raise UnsupportedOp(
            f"a matrix of {size} rows is factorised: that is written out for up to {_LARGEST}",
            hint="factorise outside of the model, or make the matrices smaller and fixed",
        )
    return size


def _noted(fault: Any, is_wrong: Any, step: int) -> Any:
    """The first step that fails, counted from 1, as LAPACK says it; 0 for none."""
    import torch

    return torch.where((fault == 0) & is_wrong, step + 1, fault)


def _solved(a: Any, b: Any) -> tuple[Any, Any]:
    """X of A X = B, by Gauss and Jordan's elimination, and where it fails."""
    import torch

    size = _rows(a)
    outer = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a = a.expand([*outer, size, size])
    x = torch.cat([a, b.expand([*outer, *b.shape[-2:]])], -1)
    rows = torch.arange(size, device=a.device)
    fault = torch.zeros(outer, dtype=torch.int32, device=a.device)
    for step in range(size):
        # Rows above the step are done, and are not chosen.
        column = torch.where(rows < step, -1.0, x[..., 0].abs())
        place = column.argmax(-1, keepdim=True)
        chosen = (rows == place).unsqueeze(-1)
        here = (rows == step).unsqueeze(-1)
        row = torch.where(chosen, x, torch.zeros_like(x)).sum(-2, keepdim=True)
        x = torch.where(chosen, x.narrow(-2, step, 1), x)
        fault = _noted(fault, row[..., 0, 0] == 0, step)
        row = row / row[..., :1]
        x = torch.where(here, row, x - x[..., :1] * row)[..., 1:]
    return x, fault


def _qr(x: Any, mode: str = "reduced") -> Any:
    """A column after the other is turned into the first axis, as LAPACK turns it."""
    import torch

    rows, columns = x.shape[-2:]
    if x.is_complex() or not all(isinstance(size, int) for size in (rows, columns)):
        return NotImplemented
    count = min(_rows(x), rows)
    turned = torch.eye(rows, dtype=x.dtype, device=x.device).expand([*x.shape[:-2], rows, rows])
    places = torch.arange(rows, device=x.device)
    for step in range(min(count, rows - 1)):
        below = (places > step).to(x.dtype)
        column = x[..., step]
        head = column[..., step : step + 1]
        rest = column * below
        length = torch.sqrt((rest * rest).sum(-1, keepdim=True) + head * head)
        top = torch.where(head >= 0, -length, length)
        # A column that is there already is left as it is, as LAPACK leaves it.
        is_done = (rest * rest).sum(-1, keepdim=True) == 0
        axis = rest + (head - top) * (places == step).to(x.dtype)
        size = (axis * axis).sum(-1, keepdim=True)
        size = torch.where(is_done, torch.ones_like(size), size)
        axis = torch.where(is_done, torch.zeros_like(axis), axis)
        by = (2 / size).unsqueeze(-1)
        x = x - by * axis.unsqueeze(-1) * (axis.unsqueeze(-2) @ x)
        turned = turned - by * (turned @ axis.unsqueeze(-1)) * axis.unsqueeze(-2)
    r = x.triu()
    if mode == "complete":
        return turned, r
    least = min(rows, columns)
    q = turned[..., :least] if mode == "reduced" else x.new_zeros([0])
    return q, r[..., :least, :]


def _cholesky_ex(x: Any, *, upper: bool = False, check_errors: bool = False) -> Any:
    """A column after the other, each taken from what is left."""
    import torch

    size, columns = _rows(x), []
    rest = x.transpose(-1, -2).conj() if upper else x
    fault = torch.zeros(x.shape[:-2], dtype=torch.int32, device=x.device)
    for step in range(size):
        square = rest[..., :1, 0].real if x.is_complex() else rest[..., :1, 0]
        fault = _noted(fault, ~(square[..., 0] > 0), step)
        root = torch.sqrt(square)
        below = rest[..., 1:, 0] / root
        top = rest.new_zeros([*rest.shape[:-2], step])
        columns.append(torch.cat([top, root.to(x.dtype), below], -1))
        rest = rest[..., 1:, 1:] - below.unsqueeze(-1) * below.conj().unsqueeze(-2)
    found = torch.stack(columns, -1)
    return found.transpose(-1, -2).conj() if upper else found, fault


def solve_triangular(
    a: Any, b: Any, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Any:
    """X of A X = B, or of X A = B: an unknown after the other, each taken out of what is left.

    Args:
        a: triangular matrices of no more than 64 rows.
        b: as many rows.
        upper: whether they are upper triangles.
        left: whether they stand on the left.
        unitriangular: whether their diagonal is of ones, whatever is there.

    Raises:
        UnsupportedOp: they are larger, or their size is dynamic.
    """
    import torch

    if not left:
        a, b, upper = a.transpose(-1, -2), b.transpose(-1, -2), not upper
    size, found = _rows(a), []
    outer = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    b = b.expand([*outer, *b.shape[-2:]])
    if upper:
        a, b = a.flip(-1, -2), b.flip(-2)
    for step in range(size):
        row = b[..., :1, :]
        row = row if unitriangular else row / a[..., step : step + 1, step : step + 1]
        found.append(row)
        b = b[..., 1:, :] - a[..., step + 1 :, step : step + 1] * row
    answer = torch.cat(found, -2)
    answer = answer.flip(-2) if upper else answer
    return answer if left else answer.transpose(-1, -2)


def _old_triangular_solve(
    b: Any, a: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Any:
    turned = a.transpose(-1, -2) if transpose else a
    found = solve_triangular(turned, b, upper=upper != transpose, unitriangular=unitriangular)
    return found, a.clone()


def _cholesky_solve(b: Any, factor: Any, upper: bool = False) -> Any:
    lower = factor.transpose(-1, -2).conj() if upper else factor
    half = solve_triangular(lower, b, upper=False)
    return solve_triangular(lower.transpose(-1, -2).conj(), half, upper=True)
