"""Matrices made Hessenberg or tridiagonal by reflections, packed as LAPACK packs them, in JAX."""

from typing import Any

from edgec.exporters.from_jax.linalg import batched, reflection

__all__ = ["hessenberg", "tridiagonal"]


def hessenberg(a: Any, **params: Any) -> tuple[Any, Any]:
    """Zeros below the first subdiagonal, as LAPACK's `gehrd`.

    Args:
        a: n x n matrices.

    Returns:
        The Hessenberg matrices, with the reflections' vectors below the subdiagonal, and n - 1
        factors of the reflections.
    """
    return batched(_reflected, a, ranks=(2,))  # type: ignore[no-any-return]


def tridiagonal(a: Any, *, lower: bool, **params: Any) -> tuple[Any, Any, Any, Any]:
    """Three diagonals of a symmetric or Hermitian matrix, as LAPACK's `sytrd` and `hetrd`.

    Args:
        a: n x n matrices.
        lower: the lower triangle is read and written, otherwise the upper one.

    Returns:
        The matrices with the three diagonals and the reflections' vectors in that triangle, the
        diagonal (n real numbers), the one beside it (n - 1 real numbers), and n - 1 factors.
    """
    import jax.numpy as jnp

    def one(a: Any) -> tuple[Any, Any, Any, Any]:
        # The reflections of the upper triangle begin at its other end.
        given = a if lower else a[::-1, ::-1]
        below = jnp.tril(given, -1)
        diagonal = jnp.diag(jnp.diag(given).real.astype(a.dtype))
        packed, taus = _reflected(below + diagonal + below.conj().T)
        middle, beside = jnp.diag(packed).real, jnp.diag(packed, -1).real
        packed = jnp.tril(packed, -1) + jnp.diag(middle.astype(a.dtype)) + jnp.triu(given, 1)
        if lower:
            return packed, middle, beside, taus
        return packed[::-1, ::-1], middle[::-1], beside[::-1], taus[::-1]

    return batched(one, a, ranks=(2,))  # type: ignore[no-any-return]


def _reflected(a: Any) -> tuple[Any, Any]:
    """One matrix and its reflections' vectors below the subdiagonal, and their factors."""
    import jax.numpy as jnp
    from jax import lax

    n = a.shape[0]
    if n == 1:
        return a, jnp.zeros(0, a.dtype)
    rows = jnp.arange(n)

    def column(k: Any, carry: Any) -> Any:
        a, packed, taus = carry
        v, tau, beta = reflection(a[:, k], k + 1)
        a = a - tau * jnp.outer(a @ v, v.conj())
        a = a - tau.conj() * jnp.outer(v, v.conj() @ a)
        found = jnp.where(rows > k + 1, v, jnp.where(rows == k + 1, beta, 0))
        return a, packed.at[:, k].set(found), taus.at[k].set(tau)

    start = a, jnp.zeros_like(a), jnp.zeros(n - 1, a.dtype)
    a, packed, taus = lax.fori_loop(0, n - 1, column, start)
    return jnp.triu(a) + packed, taus
