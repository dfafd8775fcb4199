"""Factorisations that XLA leaves to LAPACK, written in JAX itself: loops over columns.

Devices have no LAPACK. Cholesky, LU, QR and triangular solves cover `jnp.linalg.solve`, `inv`,
`det`, `slogdet`, `cholesky`, `qr` and `jax.scipy.linalg.expm`; the loops are exact algorithms, but
meant for the small systems inside models. Each function takes one matrix; batches go by `vmap`.
A matrix of one element needs no loop (and iree-compile 3.13.0 takes none of one step).
"""

from collections.abc import Callable
from typing import Any

__all__ = [
    "batched",
    "cholesky",
    "geqrf",
    "householder_product",
    "lu",
    "reflection",
    "triangular_solve",
    "tridiagonal_solve",
]


def batched(function: Callable[..., Any], *arrays: Any, ranks: tuple[int, ...]) -> Any:
    """`function` over all leading dimensions beyond the given ranks."""
    import jax

    for _ in range(arrays[0].ndim - ranks[0]):
        function = jax.vmap(function)
    return function(*arrays)


def cholesky(a: Any, **params: Any) -> Any:
    """The lower factor of a positive definite matrix; not a number where it is none."""
    import jax
    import jax.numpy as jnp

    def one(a: Any) -> Any:
        n = a.shape[0]
        rows = jnp.arange(n)

        def column(j: Any, factor: Any) -> Any:
            rest = a[:, j] - factor @ jnp.conj(factor[j, :])
            diagonal = jnp.sqrt(rest[j].real).astype(a.dtype)
            values = jnp.where(rows > j, rest / diagonal, 0)
            return factor.at[:, j].set(jnp.where(rows == j, diagonal, values))

        factor = jax.lax.fori_loop(0, n, column, jnp.zeros_like(a))
        # As in JAX: no factor at all where the matrix is not positive definite.
        return jnp.where(jnp.isnan(factor).any(), jnp.nan, factor)

    return batched(one, a, ranks=(2,))


def triangular_solve(
    a: Any,
    b: Any,
    *,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    conjugate_a: bool,
    unit_diagonal: bool,
    **params: Any,
) -> Any:
    """x of `a x = b`, or of `x a = b`."""
    import jax
    import jax.numpy as jnp

    if conjugate_a:
        a = jnp.conj(a)
    # x a = b is a' x' = b'.
    if transpose_a == left_side:
        a, lower = a.mT, not lower
    if not left_side:
        b = b.mT

    def one(a: Any, b: Any) -> Any:
        n = a.shape[0]
        if n == 1:
            return b if unit_diagonal else b / a

        def row(step: Any, x: Any) -> Any:
            i = step if lower else n - 1 - step
            # Rows of x that are not solved yet are zero; the diagonal meets one of them.
            rest = jax.lax.dynamic_slice_in_dim(b, i, 1) - a[i] @ x
            solved = rest if unit_diagonal else rest / a[i, i]
            return jax.lax.dynamic_update_slice_in_dim(x, solved, i, 0)

        return jax.lax.fori_loop(0, n, row, jnp.zeros_like(b))

    # iree-compile 3.13.0 fuses the loop with what is around it, and fails on a single column.
    a, b = jax.lax.optimization_barrier((_triangle(a, lower), b))
    x = jax.lax.optimization_barrier(batched(one, a, b, ranks=(2, 2)))
    return x if left_side else x.mT


def _triangle(a: Any, lower: bool) -> Any:
    import jax.numpy as jnp

    return jnp.tril(a) if lower else jnp.triu(a)


def lu(a: Any, **params: Any) -> Any:
    """Both factors in one matrix, the row that each step changed places with, and the order."""
    import jax
    import jax.numpy as jnp

    def one(a: Any) -> Any:
        m, n = a.shape
        if 0 in a.shape:
            return a, jnp.zeros(0, jnp.int32), jnp.arange(m, dtype=jnp.int32)
        if m == n == 1:
            return a, jnp.zeros(1, jnp.int32), jnp.zeros(1, jnp.int32)
        rows, columns = jnp.arange(m), jnp.arange(n)

        def column(k: Any, carry: Any) -> Any:
            a, pivots, order = carry
            size = jnp.where(rows >= k, jnp.abs(a[:, k]), -1)
            best = jnp.argmax(size).astype(jnp.int32)
            swap = jnp.where(rows == k, best, jnp.where(rows == best, k, rows))
            a, order = a[swap], order[swap]
            pivot = a[k, k]
            scaled = jnp.where(pivot == 0, a[:, k], a[:, k] / pivot)
            a = a.at[:, k].set(jnp.where(rows > k, scaled, a[:, k]))
            below = jnp.where(rows > k, a[:, k], 0)
            right = jnp.where(columns > k, a[k, :], 0)
            return a - jnp.outer(below, right), pivots.at[k].set(best), order

        start = (a, jnp.zeros(min(m, n), jnp.int32), jnp.arange(m, dtype=jnp.int32))
        return jax.lax.fori_loop(0, min(m, n), column, start)

    return batched(one, a, ranks=(2,))


def reflection(x: Any, k: Any) -> tuple[Any, Any, Any]:
    """Householder's reflection after which a column is zero below row `k`, as LAPACK's `larfg`.

    Args:
        x: the column, of m elements; those above row `k` count for nothing.
        k: the row.

    Returns:
        The vector v of m elements (zeros above row `k`, 1 in it) and the factor tau of
        I - tau v v^H, whose adjoint is applied, and what row `k` is then: a real number.
    """
    import jax.numpy as jnp

    rows = jnp.arange(x.shape[0])
    alpha = x[k]
    tail = jnp.sum(jnp.where(rows > k, jnp.abs(x) ** 2, 0))
    norm = jnp.sqrt(jnp.abs(alpha) ** 2 + tail)
    beta = jnp.where(alpha.real > 0, -norm, norm).astype(x.dtype)
    # A column that is zero below the diagonal, and real, needs no reflection.
    flat = (tail == 0) & (alpha.imag == 0)
    tau = jnp.where(flat, 0, (beta - alpha) / jnp.where(flat, 1, beta))
    below = jnp.where(rows > k, x / jnp.where(flat, 1, alpha - beta), 0)
    v = jnp.where(rows == k, 1, jnp.where(flat, 0, below)).astype(x.dtype)
    return v, tau, jnp.where(flat, alpha, beta)


def geqrf(a: Any, **params: Any) -> Any:
    """R over Householder's vectors, and their factors."""
    import jax
    import jax.numpy as jnp

    def one(a: Any) -> Any:
        m, n = a.shape
        if m == 1 and not jnp.iscomplexobj(a):
            return a, jnp.zeros(1, a.dtype)
        rows = jnp.arange(m)

        def column(k: Any, carry: Any) -> Any:
            a, taus = carry
            v, tau, beta = reflection(a[:, k], k)
            right = jnp.where(jnp.arange(n) > k, jnp.conj(v) @ a, 0)
            a = a - jnp.conj(tau) * jnp.outer(v, right)
            kept = jnp.where(rows < k, a[:, k], v)
            a = a.at[:, k].set(jnp.where(rows == k, beta, kept))
            return a, taus.at[k].set(tau)

        return jax.lax.fori_loop(0, min(m, n), column, (a, jnp.zeros(min(m, n), a.dtype)))

    return batched(one, a, ranks=(2,))


def householder_product(a: Any, taus: Any, **params: Any) -> Any:
    """Q of the vectors and factors of `geqrf`."""
    import jax
    import jax.numpy as jnp

    def one(a: Any, taus: Any) -> Any:
        m, n = a.shape
        rows = jnp.arange(m)
        count = taus.shape[0]
        if count == 0:
            return jnp.eye(m, n, dtype=a.dtype)
        if m == 1 and not jnp.iscomplexobj(a):
            return jnp.ones_like(a)

        def column(step: Any, q: Any) -> Any:
            k = count - 1 - step
            v = jnp.where(rows == k, 1, jnp.where(rows > k, a[:, k], 0)).astype(a.dtype)
            return q - taus[k] * jnp.outer(v, jnp.conj(v) @ q)

        return jax.lax.fori_loop(0, count, column, jnp.eye(m, n, dtype=a.dtype))

    return batched(one, a, taus, ranks=(2, 1))


def tridiagonal_solve(
    lower: Any, diagonal: Any, upper: Any, b: Any, *, perturb_singular: bool = False, **params: Any
) -> Any:
    """x of `a x = b` for a matrix of three diagonals, each as long as the middle one.

    Rows change places where the one below has the larger pivot, as in LAPACK's `gtsv`, so that a
    zero on the diagonal is no matter.

    Args:
        lower: `lower[i]` is the element left of the diagonal's; the first counts for nothing.
        diagonal: of n elements.
        upper: `upper[i]` is the element right of the diagonal's; the last counts for nothing.
        b: n rows.
        perturb_singular: pivots next to zero become as large as the rounding errors of the largest
            element, so that x is finite; otherwise x is not a number for a singular matrix.
    """
    import jax
    import jax.numpy as jnp

    def size(x: Any) -> Any:
        return jnp.abs(x.real) + jnp.abs(x.imag) if jnp.iscomplexobj(x) else jnp.abs(x)

    def down(row: Any, below: Any) -> Any:
        """Take x of this row from the one below; what is left there, and what this one says."""
        p, q, right = row
        low, middle, up, right_below = below
        stays = size(p) >= size(low)
        chosen = jnp.where(stays, p, low)
        factor = jnp.where(stays, low, p) / jnp.where(chosen == 0, 1, chosen)
        nothing = jnp.zeros_like(up)
        first = jnp.where(stays, q, middle), jnp.where(stays, nothing, up)
        second = jnp.where(stays, middle, q), jnp.where(stays, up, nothing)
        upper_right = jnp.where(stays, right, right_below)
        left = (
            second[0] - factor * first[0],
            second[1] - factor * first[1],
            jnp.where(stays, right_below, right) - factor * upper_right,
        )
        return left, (chosen, *first, upper_right)

    def back(following: Any, row: Any) -> Any:
        next_x, second_x = following
        pivot, first, second, right = row
        x = (right - first * next_x - second * second_x) / pivot
        return (x, next_x), x

    def one(lower: Any, diagonal: Any, upper: Any, b: Any) -> Any:
        start = diagonal[0], upper[0], b[0]
        if diagonal.shape[0] == 1:
            rows = diagonal, jnp.zeros_like(diagonal), jnp.zeros_like(diagonal), b
        else:
            end, rows = jax.lax.scan(down, start, (lower[1:], diagonal[1:], upper[1:], b[1:]))
            nothing = jnp.zeros_like(end[1])
            last = end[0], nothing, nothing, end[2]  # nothing stands right of the last row's pivot
            rows = tuple(jnp.append(x, each[None], 0) for x, each in zip(rows, last, strict=True))
        pivots, firsts, seconds, rights = rows
        if perturb_singular:
            info = jnp.finfo(b.dtype)
            largest = jnp.stack([size(each).max() for each in (pivots, firsts, seconds)]).max()
            least = jnp.maximum(info.eps * largest, info.tiny).astype(pivots.dtype)
            pivots = jnp.where(size(pivots) < size(least), least, pivots)
        zeros = jnp.zeros_like(b[0])
        if diagonal.shape[0] == 1:
            x = b / pivots[:, None]
        else:
            rows = pivots, firsts, seconds, rights
            x = jax.lax.scan(back, (zeros, zeros), rows, reverse=True)[1]
        return x if perturb_singular else jnp.where((pivots == 0).any(), jnp.nan, x)

    return batched(one, lower, diagonal, upper, b, ranks=(1, 1, 1, 2))
