"""Eigenvalues and singular values that XLA leaves to LAPACK, by Jacobi's rotations, in JAX itself.

Rows are paired as players in a tournament: in each step every one meets another one, all pairs are
turned at once, and then all but the first move on by a place; after n - 1 steps each has met each
(R. Brent and F. Luk, 1985). A few sweeps make the matrix diagonal to the last bits. Signs and
phases of vectors are other ones than LAPACK's, as its own are from version to version.
"""

import math
from typing import Any

from edgec.exporters.from_jax.linalg import batched, geqrf, householder_product

__all__ = ["eigh", "svd"]


def eigh(a: Any, *, lower: bool, sort_eigenvalues: bool, **params: Any) -> Any:
    """Vectors and rising eigenvalues of a symmetric or Hermitian matrix, of one triangle of it.

    Raises:
        NotImplementedError: only some of the eigenvalues are asked for.
    """
    import jax.numpy as jnp

    if params.get("subset_by_index") not in (None, (0, a.shape[-1])):
        raise NotImplementedError("a part of the eigenvalues")

    def one(a: Any) -> tuple[Any, Any]:
        half = jnp.tril(a) if lower else jnp.triu(a).conj().T
        diagonal = jnp.diag(jnp.diag(half).real).astype(a.dtype)
        strict = jnp.tril(half, -1)
        vectors, values = _rotated(strict + strict.conj().T + diagonal)
        if sort_eigenvalues:
            order = jnp.argsort(values)
            vectors, values = vectors[:, order], values[order]
        return vectors, values

    return batched(one, a, ranks=(2,))


def svd(a: Any, *, full_matrices: bool, compute_uv: bool, **params: Any) -> Any:
    """Falling singular values, and the matrices beside them where they are asked for.

    Raises:
        NotImplementedError: only some of the singular values are asked for.
    """
    if params.get("subset_by_index") not in (None, (0, min(a.shape[-2:]))):
        raise NotImplementedError("a part of the singular values")

    def one(a: Any) -> tuple[Any, ...]:
        if 0 in a.shape:
            return _of_nothing(a, full_matrices)
        if a.shape[0] < a.shape[1]:
            values, right, left = _decomposed(a.conj().T, full_matrices, compute_uv)
        else:
            values, left, right = _decomposed(a, full_matrices, compute_uv)
        return (values, left, right.conj().T) if compute_uv else (values,)

    return batched(one, a, ranks=(2,))


def _of_nothing(a: Any, full: bool) -> tuple[Any, ...]:
    """What is beside no singular values: any basis."""
    import jax.numpy as jnp

    m, n = a.shape
    values = jnp.zeros(0, jnp.finfo(a.dtype).dtype)
    return (
        values,
        jnp.eye(m, m if full else 0, dtype=a.dtype),
        jnp.eye(n if full else 0, n, dtype=a.dtype),
    )


def _rotated(a: Any) -> tuple[Any, Any]:
    """Vectors and eigenvalues of a Hermitian matrix, in no order."""
    import jax.numpy as jnp
    from jax import lax

    n = a.shape[0]
    if n == 1:
        return jnp.ones_like(a), a[0].real
    even = n + n % 2
    scale = _scale(a)
    a = jnp.pad(a / scale.astype(a.dtype), (0, even - n))  # one more row, which nothing turns
    half = even // 2

    def step(_: Any, carry: Any) -> Any:
        a, vectors = carry
        diagonal = jnp.diag(a).real
        turn = _turn(diagonal[:half], jnp.diag(a[:half, half:]), diagonal[half:])
        a = _turned(_turned(a, turn).conj().T, turn).conj().T
        return _moved(_moved(a, 0), 1), _moved(_turned(vectors, turn), 1)

    start = (a, jnp.eye(even, dtype=a.dtype))
    a, vectors = lax.fori_loop(0, _sweeps(a) * (even - 1), step, start)
    return vectors[:n, :n], jnp.diag(a).real[:n] * scale


def _decomposed(a: Any, full: bool, vectors_too: bool) -> tuple[Any, Any, Any]:
    """Singular values, left and right vectors (as columns) of a matrix with no fewer rows."""
    import jax.numpy as jnp
    from jax import lax

    m, n = a.shape
    even = n + n % 2
    half = even // 2

    def step(_: Any, carry: Any) -> Any:
        columns, right = carry
        left, other = columns[:, :half], columns[:, half:]
        first, second = (jnp.sum(jnp.abs(x) ** 2, 0) for x in (left, other))
        turn = _turn(first, jnp.sum(left.conj() * other, 0), second)
        return tuple(_moved(_turned(x, turn), 1) for x in (columns, right))

    right = jnp.eye(even, dtype=a.dtype)
    scale = _scale(a)
    columns = jnp.pad(a / scale.astype(a.dtype), ((0, 0), (0, even - n)))
    if n > 1:
        columns, right = lax.fori_loop(0, _sweeps(a) * (even - 1), step, (columns, right))
    columns, right = columns[:, :n], right[:n, :n]
    values = jnp.sqrt(jnp.sum(jnp.abs(columns) ** 2, 0))
    order = jnp.argsort(-values)
    values, columns, right = values[order], columns[:, order], right[:, order]
    if not vectors_too:
        return values * scale, columns, right
    # The columns at right angles to all others, also where a singular value is zero: those of a
    # QR factorisation, but for their phase.
    factors, taus = geqrf(columns)
    wide = jnp.pad(factors, ((0, 0), (0, (m if full else n) - n)))
    left = householder_product(wide, taus)
    edge = jnp.diag(factors)
    size = jnp.abs(edge)
    phase = jnp.where(size > 0, edge / jnp.where(size > 0, size, 1).astype(a.dtype), 1)
    phase = jnp.pad(phase.astype(a.dtype), (0, left.shape[1] - n), constant_values=1)
    return values * scale, left * phase, right


def _scale(a: Any) -> Any:
    """The largest size of an element: divided by it, none vanishes or overflows when squared."""
    import jax.numpy as jnp

    largest = jnp.max(jnp.abs(a))
    return jnp.where(largest > 0, largest, 1).astype(largest.dtype)


def _turn(first: Any, between: Any, second: Any) -> tuple[Any, Any, Any]:
    """The turns that make pairs of rows orthogonal: cosine, sine, and the second's phase."""
    import jax.numpy as jnp

    size = jnp.abs(between)
    # What is as good as zero beside a largest element of one is not divided by.
    some = size > float(jnp.finfo(size.dtype).tiny) * 2.0**20
    size = jnp.where(some, size, 1)
    phase = jnp.where(some, between.conj() / size.astype(between.dtype), 1)
    apart = (second - first) / 2
    sign = jnp.where(apart >= 0, 1, -1).astype(size.dtype)
    # The hypotenuse without its square, which may be too small for a number.
    long = jnp.maximum(jnp.abs(apart), size)
    hypotenuse = long * jnp.sqrt((apart / long) ** 2 + (size / long) ** 2)
    tangent = jnp.where(some, sign * size / (jnp.abs(apart) + hypotenuse), 0)
    cosine = 1 / jnp.sqrt(1 + tangent**2)
    return cosine, tangent * cosine, phase.astype(between.dtype)


def _turned(columns: Any, turn: tuple[Any, Any, Any]) -> Any:
    """The columns in pairs (each of the first half and the one as far into the second), turned."""
    import jax.numpy as jnp

    cosine, sine, phase = turn
    half = cosine.shape[0]
    kind = columns.dtype
    cosine, sine = cosine.astype(kind), sine.astype(kind)
    first, second = columns[:, :half], columns[:, half:] * phase
    return jnp.concatenate([cosine * first - sine * second, sine * first + cosine * second], 1)


def _moved(array: Any, axis: int) -> Any:
    """The next round: all but the first one move on, up one half and down the other."""
    import jax.numpy as jnp
    from jax import lax

    half = array.shape[axis] // 2

    def part(start: int, stop: int) -> Any:
        return lax.slice_in_dim(array, start, stop, axis=axis)

    if half == 1:
        return array
    return jnp.concatenate(
        [
            part(0, 1),
            part(half, half + 1),
            part(1, half - 1),
            part(half + 1, 2 * half),
            part(half - 1, half),
        ],
        axis,
    )


def _sweeps(a: Any) -> int:
    """Enough rounds of the tournament for all bits; they grow with the logarithm of the size."""
    import jax.numpy as jnp

    precise = jnp.finfo(a.dtype).bits == 64
    return 5 + math.ceil(math.log2(max(a.shape))) + (2 if precise else 0)
