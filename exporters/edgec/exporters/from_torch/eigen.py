"""Eigenvalues and singular values of real matrices by Jacobi's rotations, in PyTorch's operators.

Rows are paired as players in a tournament: in each turn every one meets another one, all pairs are
turned at once, and then all but the first move on by a place; after n - 1 turns each has met each
(R. Brent and F. Luk, 1985). A few sweeps make the matrix diagonal to the last bits. Signs of
vectors are other ones than LAPACK's, as its own are from version to version.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from edgec.exporters.from_torch.factors import factors_of, product_of
from edgec.exporters.from_torch.turns import turned

__all__ = ["eigen"]


def eigen() -> Mapping[Any, Callable[..., Any]]:
    """For `ExportedProgram.run_decompositions`."""
    import torch

    aten = torch.ops.aten
    return {
        aten._linalg_eigh.default: _eigh,
        aten._linalg_svd.default: _svd,
        aten.linalg_pinv.atol_rtol_tensor: _pinv,
    }


def _is_known(x: Any) -> bool:
    """Whether a matrix is real, and all its sizes are numbers, none of them 0."""
    sizes = all(isinstance(size, int) and size > 0 for size in x.shape)
    return sizes and x.is_floating_point()


def _eigh(a: Any, UPLO: str = "L", compute_v: bool = True) -> Any:  # noqa: N803 - torch's name
    """Rising eigenvalues and vectors of a symmetric matrix, of one triangle of it."""
    import torch

    if not _is_known(a):
        return NotImplemented
    half = a.tril() if UPLO.upper() == "L" else a.triu().transpose(-1, -2)
    strict = half.tril(-1)
    whole = strict + strict.transpose(-1, -2) + half * _eye(a, a.shape[-1])
    values, vectors = _rotated(whole)
    values, order = torch.sort(values, dim=-1)
    if not compute_v:
        return values, a.new_empty([0])
    return values, _columns(vectors, order)


def _columns(x: Any, order: Any) -> Any:
    """The columns of a matrix in an order."""
    return x.gather(-1, order.unsqueeze(-2).expand(x.shape))


def _eye(like: Any, rows: int, columns: int | None = None) -> Any:
    import torch

    return torch.eye(rows, columns or rows, dtype=like.dtype, device=like.device)


def _diagonal(x: Any) -> Any:
    return (x * _eye(x, x.shape[-1])).sum(-1)


def _scale(a: Any) -> Any:
    """The largest size of an element: divided by it, none vanishes or overflows when squared."""
    import torch

    largest = a.abs().amax((-2, -1), keepdim=True)
    return torch.where(largest > 0, largest, torch.ones_like(largest))


def _sweeps(a: Any) -> int:
    """Enough rounds of the tournament for all bits; they grow with the logarithm of the size.

    Measured up to 64 rows, with values that are alike or 10^19 apart; f64 converges in no fewer.
    """
    import torch

    precise = a.dtype == torch.float64
    return 5 + math.ceil(math.log2(max(a.shape[-2:]))) + (6 if precise else 0)


def _rotated(a: Any) -> tuple[Any, Any]:
    """Eigenvalues and vectors (as columns) of a symmetric matrix, in no order."""
    import torch

    n = a.shape[-1]
    scale = _scale(a)
    a = a / scale
    if n == 1:
        return (a * scale)[..., 0], torch.ones_like(a)
    odd = n % 2  # one more row then, which nothing turns
    start = torch.nn.functional.pad(a, (0, odd, 0, odd))
    vectors = _eye(a, n + odd).expand(start.shape).clone()
    _, vectors = turned(symmetric_step, _sweeps(a) * (n + odd - 1), [start, vectors])
    values, vectors = _refined(a, vectors[..., :n, :n])
    return values * scale[..., 0], vectors


def symmetric_step(a: Any, vectors: Any) -> Sequence[Any]:
    """All pairs of rows and columns turned, so that nothing is between the two of a pair."""
    half = a.shape[-1] // 2
    diagonal = _diagonal(a)
    turn = _turn(diagonal[..., :half], _diagonal(a[..., :half, half:]), diagonal[..., half:])
    a = _turned(_turned(a, turn).transpose(-1, -2), turn)
    a = _moved(_moved(a).transpose(-1, -2))
    return a, _moved(_turned(vectors, turn))


def _turn(first: Any, between: Any, second: Any) -> tuple[Any, Any]:
    """The turns that make pairs of rows orthogonal: cosine and sine.

    Args:
        first: of each pair, the product of the first with itself.
        between: that of the first with the second.
        second: that of the second with itself.
    """
    import torch

    size = between.abs()
    # What is as good as zero beside a largest element of one is not divided by.
    some = size > torch.finfo(size.dtype).tiny * 2.0**20
    size = torch.where(some, size, torch.ones_like(size))
    apart = (second - first) / 2
    sign = torch.where((apart >= 0) == (between >= 0), 1.0, -1.0).to(size.dtype)
    # The hypotenuse without its square, which may be too small for a number.
    long = torch.maximum(apart.abs(), size)
    hypotenuse = long * torch.sqrt((apart / long) ** 2 + (size / long) ** 2)
    tangent = torch.where(some, sign * size / (apart.abs() + hypotenuse), torch.zeros_like(size))
    cosine = 1 / torch.sqrt(1 + tangent**2)
    return cosine, tangent * cosine


def _turned(x: Any, turn: tuple[Any, Any]) -> Any:
    """A matrix's columns in pairs (one of the first half and the one as far into the second)."""
    import torch

    half = x.shape[-1] // 2
    cosine, sine = (each.unsqueeze(-2) for each in turn)
    first, other = x[..., :half], x[..., half:]
    return torch.cat([cosine * first - sine * other, sine * first + cosine * other], -1)


def _moved(x: Any) -> Any:
    """The next round: all columns but the first one move on, up one half and down the other."""
    import torch

    half = x.shape[-1] // 2
    if half == 1:
        return x
    places = [(0, 1), (half, half + 1), (1, half - 1), (half + 1, 2 * half), (half - 1, half)]
    return torch.cat([x[..., start:stop] for start, stop in places if stop > start], -1)


def _refined(a: Any, vectors: Any) -> tuple[Any, Any]:
    """Eigenvalues and vectors without what thousands of turns have rounded.

    A step of T. Ogita and K. Aishima's refinement (2018), which has only products of matrices, and
    some of Schulz's, that make vectors orthogonal again: the first is right for small changes, and
    those of vectors whose eigenvalues lie close together are not small beside a rounding. Where
    they would be more than a hundredth, vectors are left as they were turned.

    Args:
        a: the symmetric matrix, whose elements are no larger than one.
        vectors: the columns, right but for rounding.
    """
    import torch

    eye = _eye(a, a.shape[-1])
    lack = eye - vectors.transpose(-1, -2) @ vectors
    found = vectors.transpose(-1, -2) @ (a @ vectors)
    values = _diagonal(found) / (1 - _diagonal(lack))
    beside = found - eye * values.unsqueeze(-2)
    sizes = [x.abs().amax((-2, -1), keepdim=True) for x in (beside, lack)]
    least = 128 * (sizes[0] + values.abs().amax(-1)[..., None, None] * sizes[1])
    apart = values.unsqueeze(-2) - values.unsqueeze(-1)
    is_far = apart.abs() > least
    change = (found + values.unsqueeze(-2) * lack) / torch.where(
        is_far, apart, torch.ones_like(apart)
    )
    vectors = vectors + vectors @ torch.where(is_far, change, lack / 2)
    for _ in range(2):
        lack = eye - vectors.transpose(-1, -2) @ vectors
        vectors = vectors + vectors @ lack / 2
    return values, vectors


def _svd(
    a: Any, full_matrices: bool = False, compute_uv: bool = True, *, driver: Any = None
) -> Any:
    """Left vectors, falling singular values, and right vectors as rows."""
    if not _is_known(a):
        return NotImplemented
    if a.shape[-2] < a.shape[-1]:
        right, values, left = _decomposed(a.transpose(-1, -2), full_matrices, compute_uv)
    else:
        left, values, right = _decomposed(a, full_matrices, compute_uv)
    if not compute_uv:
        return a.new_empty([0]), values, a.new_empty([0])
    return left, values, right.transpose(-1, -2)


def _decomposed(a: Any, full: bool, vectors_too: bool) -> tuple[Any, Any, Any]:
    """Left vectors, singular values, right vectors (as columns) of a matrix with no fewer rows.

    Not its columns are turned but the rows of R of its QR factorisation, which are much nearer to
    right angles (Z. Drmac and K. Veselic, 2008).
    """
    import torch

    m, n = a.shape[-2:]
    pad = torch.nn.functional.pad
    odd = n % 2
    scale = _scale(a)
    packed, taus = factors_of(a / scale)
    columns = pad(packed[..., :n, :].triu().transpose(-1, -2), (0, odd))
    turns = _eye(a, n + odd).expand([*a.shape[:-2], n + odd, n + odd]).clone()
    if n > 1:
        columns, turns = turned(column_step, _sweeps(a) * (n + odd - 1), [columns, turns])
    columns, turns = columns[..., :n], turns[..., :n, :n]
    # What turning has rounded in lengths it has rounded in both.
    lengths = torch.sqrt((turns**2).sum(-2))
    turns = turns / lengths.unsqueeze(-2)
    values = torch.sqrt((columns**2).sum(-2)) / lengths
    values, order = torch.sort(values, dim=-1, descending=True)
    columns, turns = _columns(columns, order), _columns(turns, order)
    values = values * scale[..., 0]
    if not vectors_too:
        return turns, values, columns
    more = (m if full else n) - n
    # What is beyond the turns stays where it is.
    beyond = pad(_eye(a, more), (0, 0, n, 0)) if more else a.new_zeros([n, 0])
    wide = torch.cat(
        [pad(turns, (0, 0, 0, more)), beyond.expand([*a.shape[:-2], n + more, more])], -1
    )
    left = product_of(pad(packed, (0, more)), taus) @ wide
    # The columns at right angles to all others, also where a singular value is zero: those of a
    # QR factorisation, but for their sign.
    packed, taus = factors_of(columns)
    sign = torch.where(_diagonal(packed) < 0, -1.0, 1.0).to(a.dtype)
    return left, values, product_of(packed, taus) * sign.unsqueeze(-2)


def column_step(columns: Any, right: Any) -> Sequence[Any]:
    """All pairs of columns turned until they are at right angles."""
    half = columns.shape[-1] // 2
    first, other = columns[..., :half], columns[..., half:]
    turn = _turn((first**2).sum(-2), (first * other).sum(-2), (other**2).sum(-2))
    return _moved(_turned(columns, turn)), _moved(_turned(right, turn))


def _pinv(a: Any, *, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Any:
    """The inverse where singular values are above a least one, 0 where they are not."""
    import torch

    if not _is_known(a):
        return NotImplemented
    if rtol is None:
        # As torch has it: none where an absolute bound is given and is above 0.
        usual = max(a.shape[-2:]) * torch.finfo(a.dtype).eps
        rtol = torch.full_like(a[..., 0, 0], usual)
        rtol = rtol if atol is None else torch.where(atol > 0, torch.zeros_like(rtol), rtol)
    if hermitian:
        values, left = _eigh(a)
        right = left
    else:
        left, values, right = _svd(a)
        right = right.transpose(-1, -2)
    sizes = values.abs()
    least = sizes.amax(-1, keepdim=True) * rtol.unsqueeze(-1)
    if atol is not None:
        least = torch.maximum(least, atol.unsqueeze(-1).expand_as(least))
    is_kept = sizes > least
    by = torch.where(is_kept, 1 / torch.where(is_kept, values, 1.0), 0.0).to(a.dtype)
    return (right * by.unsqueeze(-2)) @ left.transpose(-1, -2)
