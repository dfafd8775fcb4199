"""Triangular and orthogonal factors of real matrices of any size, packed as LAPACK packs them.

A turn of a loop is a column: of L and U after the row whose number is largest, of Q and R by what
turns the column into the first axis (Householder's).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from edgec.exporters.from_torch.systems import solve_triangular
from edgec.exporters.from_torch.turns import turned

__all__ = ["factors", "factors_of", "product_of"]


def factors() -> Mapping[Any, Callable[..., Any]]:
    """For `ExportedProgram.run_decompositions`."""
    import torch

    aten = torch.ops.aten
    return {
        aten.linalg_lu_factor_ex.default: _lu_factor_ex,
        aten.linalg_lu.default: _lu,
        aten.lu_unpack.default: _lu_unpack,
        aten.linalg_lu_solve.default: _lu_solve,
        aten.geqrf.default: lambda x: factors_of(x) if _is_known(x) else NotImplemented,
        aten.linalg_householder_product.default: lambda x, tau: (
            product_of(x, tau) if _is_known(x) and tau.shape[-1] > 0 else NotImplemented
        ),
    }


def _is_known(x: Any) -> bool:
    sizes = all(isinstance(size, int) and size > 0 for size in x.shape)
    return sizes and x.is_floating_point()


def _start(x: Any) -> Any:
    """The number of a turn, which is carried."""
    import torch

    return torch.zeros([1], dtype=torch.int32, device=x.device)


def _places(x: Any, axis: int) -> Any:
    import torch

    return torch.arange(x.shape[axis], dtype=torch.int32, device=x.device)


def _taken(x: Any, is_here: Any, axis: int) -> Any:
    """The one row or column that is marked, and the axis stays."""
    import torch

    return torch.where(is_here, x, torch.zeros_like(x)).sum(axis, keepdim=True)


def _lu_factors(x: Any, pivot: bool) -> tuple[Any, Any, Any, Any]:
    """L and U in one matrix, the exchanges counted from 1, the rows as they stand then, and the
    first column, counted from 1, that has nothing to divide by (0 for none)."""
    import torch

    count, outer = min(x.shape[-2:]), x.shape[:-2]
    rows = _places(x, -2).expand(x.shape[:-1]).clone()
    swaps = torch.zeros([*outer, count], dtype=torch.int32, device=x.device)
    fault = torch.zeros([*outer, 1], dtype=torch.int32, device=x.device)
    step = lu_step if pivot else plain_lu_step
    _, x, rows, swaps, fault = turned(step, count, [_start(x), x, rows, swaps, fault])
    return x, swaps, rows, fault[..., 0]


def lu_step(k: Any, x: Any, rows: Any, swaps: Any, fault: Any) -> Sequence[Any]:
    """A column of L and a row of U, after the row with the largest number has come there."""
    return _lu_step(k, x, rows, swaps, fault, pivot=True)


def plain_lu_step(k: Any, x: Any, rows: Any, swaps: Any, fault: Any) -> Sequence[Any]:
    """The same, of rows as they stand."""
    return _lu_step(k, x, rows, swaps, fault, pivot=False)


def _lu_step(k: Any, x: Any, rows: Any, swaps: Any, fault: Any, *, pivot: bool) -> Sequence[Any]:
    import torch

    down, across = _places(x, -2), _places(x, -1)
    place = k.expand([*x.shape[:-2], 1])
    if pivot:
        column = _taken(x, across == k, -1)[..., 0].abs()
        # Rows above are done, and are not chosen; of what is no number the first is.
        column = torch.where(down < k, -torch.ones_like(column), column)
        place = column.argmax(-1, keepdim=True).to(torch.int32)
        is_here, is_there = down == k, down == place
        wide_here, wide_there = is_here.unsqueeze(-1), is_there.unsqueeze(-1)
        here, there = _taken(x, wide_here, -2), _taken(x, wide_there, -2)
        x = torch.where(wide_here, there, torch.where(wide_there, here, x))
        upper, lower = (
            torch.where(each, rows, torch.zeros_like(rows)).sum(-1, keepdim=True).to(torch.int32)
            for each in (is_here, is_there)
        )
        rows = torch.where(is_here, lower, torch.where(is_there, upper, rows))
    row = _taken(x, (down == k).unsqueeze(-1), -2)
    head = _taken(row, across == k, -1)
    column = _taken(x, across == k, -1)
    below = (down > k).unsqueeze(-1)
    factor = torch.where(
        head == 0, column, column / torch.where(head == 0, torch.ones_like(head), head)
    )
    factor = torch.where(below, factor, torch.zeros_like(factor))
    beside = torch.where(across > k, row, torch.zeros_like(row))
    x = torch.where(below & (across == k), factor, x - factor * beside)
    swaps = torch.where(_places(swaps, -1) == k, place + 1, swaps)
    fault = torch.where((fault == 0) & (head[..., 0] == 0), k + 1, fault)
    return k + 1, x, rows, swaps.to(torch.int32), fault.to(torch.int32)


def _lu_factor_ex(x: Any, *, pivot: bool = True, check_errors: bool = False) -> Any:
    if not _is_known(x):
        return NotImplemented
    found, swaps, _, fault = _lu_factors(x, pivot)
    return found, swaps, fault


def _lu(x: Any, *, pivot: bool = True) -> Any:
    if not _is_known(x):
        return NotImplemented
    found, _, rows, _ = _lu_factors(x, pivot)
    order = _order(rows, x.dtype) if pivot else x.new_empty([0])
    return (order, *_triangles(found))


def _order(rows: Any, kind: Any) -> Any:
    """The matrix that puts rows back to where they came from."""
    return (_places(rows, -1).unsqueeze(-1) == rows.unsqueeze(-2)).to(kind)


def _triangles(found: Any) -> tuple[Any, Any]:
    import torch

    m, n = found.shape[-2:]
    count = min(m, n)
    eye = torch.eye(m, count, dtype=found.dtype, device=found.device)
    return found[..., :count].tril(-1) + eye, found[..., :count, :].triu()


def _lu_unpack(found: Any, swaps: Any, unpack_data: bool = True, unpack_pivots: bool = True) -> Any:
    """The matrix of the exchanges, L and U."""
    if not _is_known(found):
        return NotImplemented
    empty = found.new_empty([0])
    order, triangles = empty, (empty, empty)
    if unpack_pivots:
        rows = _places(found, -2).expand(found.shape[:-1]).clone()
        _, rows, _ = turned(swap_step, swaps.shape[-1], [_start(found), rows, swaps.clone()])
        order = _order(rows, found.dtype)
    if unpack_data:
        triangles = _triangles(found)
    return (order, *triangles)


def _lu_solve(found: Any, swaps: Any, b: Any, *, left: bool = True, adjoint: bool = False) -> Any:
    """X of A X = B, of the factors of A."""
    if not _is_known(found):
        return NotImplemented
    if not left:
        b, adjoint = b.transpose(-1, -2), not adjoint
    order, lower, upper = _lu_unpack(found, swaps)
    if adjoint:
        half = solve_triangular(upper.transpose(-1, -2), b, upper=False)
        lower = lower.transpose(-1, -2)
        answer = order @ solve_triangular(lower, half, upper=True, unitriangular=True)
    else:
        rows = order.transpose(-1, -2) @ b
        half = solve_triangular(lower, rows, upper=False, unitriangular=True)
        answer = solve_triangular(upper, half, upper=True)
    return answer if left else answer.transpose(-1, -2)


def swap_step(k: Any, rows: Any, swaps: Any) -> Sequence[Any]:
    """One exchange of rows."""
    import torch

    places = _places(rows, -1)
    chosen = torch.where(_places(swaps, -1) == k, swaps, torch.zeros_like(swaps))
    place = chosen.sum(-1, keepdim=True) - 1
    is_here, is_there = places == k, places == place
    here, there = (
        torch.where(each, rows, torch.zeros_like(rows)).sum(-1, keepdim=True).to(rows.dtype)
        for each in (is_here, is_there)
    )
    return k + 1, torch.where(is_here, there, torch.where(is_there, here, rows)), swaps


def factors_of(x: Any) -> tuple[Any, Any]:
    """R above, and below it what each column was turned by, with a factor of each, as `geqrf`."""
    count = min(x.shape[-2:])
    taus = x.new_zeros([*x.shape[:-2], count])
    _, x, taus = turned(reflecting_step, count, [_start(x), x, taus])
    return x, taus


def reflecting_step(k: Any, x: Any, taus: Any) -> Sequence[Any]:
    """A column is turned into its axis, and those behind it with it."""
    import torch

    down, across = _places(x, -2).unsqueeze(-1), _places(x, -1)
    is_column = across == k
    column = _taken(x, is_column, -1)
    head = _taken(column, down == k, -2)
    rest = torch.where(down > k, column, torch.zeros_like(column))
    # The length without squares that are too large or too small for a number.
    large = torch.maximum(rest.abs().amax(-2, keepdim=True), head.abs())
    large = torch.where(large > 0, large, torch.ones_like(large))
    length = large * torch.sqrt(((rest / large) ** 2).sum(-2, keepdim=True) + (head / large) ** 2)
    # A column that is there already is left as it is, as LAPACK leaves it.
    is_done = rest.abs().amax(-2, keepdim=True) == 0
    top = torch.where(is_done, head, torch.where(head >= 0, -length, length))
    one = torch.ones_like(head)
    tau = torch.where(
        is_done, torch.zeros_like(head), (top - head) / torch.where(is_done, one, top)
    )
    vector = rest / torch.where(is_done, one, head - top)
    axis = vector + (down == k).to(x.dtype)
    change = tau * axis * (axis * x).sum(-2, keepdim=True)
    packed = torch.where(down > k, vector, torch.where(down == k, top, column))
    x = torch.where(is_column, packed, torch.where(across > k, x - change, x))
    taus = torch.where(_places(taus, -1) == k, tau[..., 0], taus)
    return k + 1, x, taus


def product_of(packed: Any, taus: Any) -> Any:
    """The first columns of Q of what `factors_of` gives, as many as `packed` has."""
    import torch

    m, n = packed.shape[-2:]
    found = torch.eye(m, n, dtype=packed.dtype, device=packed.device)
    found = found.expand(packed.shape).clone()
    _, found, _, _ = turned(
        producing_step, taus.shape[-1], [_start(packed), found, packed.clone(), taus.clone()]
    )
    return found


def producing_step(k: Any, found: Any, packed: Any, taus: Any) -> Sequence[Any]:
    """What one column was turned by, from the last to the first."""
    import torch

    last = taus.shape[-1] - 1 - k
    down = _places(packed, -2).unsqueeze(-1)
    column = _taken(packed, _places(packed, -1) == last, -1)
    axis = torch.where(down > last, column, (down == last).to(column.dtype))
    tau = _taken(taus, _places(taus, -1) == last, -1).unsqueeze(-1)
    change = tau * axis * (axis * found).sum(-2, keepdim=True)
    return k + 1, found - change, packed, taus
