"""Eigenvalues and singular values that XLA leaves to LAPACK, by Jacobi's rotations, in JAX itself.

Rows are paired as players in a tournament: in each step every one meets another one, all pairs are
turned at once, and then all but the first move on by a place; after n - 1 steps each has met each
(R. Brent and F. Luk, 1985). A few sweeps make the matrix diagonal to the last bits. Signs and
phases of vectors are other ones than LAPACK's, as its own are from version to version. Complex
matrices are turned as two real ones, real and imaginary parts: no kernel has vector code for pairs.
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
        parts, vectors = carry
        diagonal = jnp.diag(parts[0])
        between = tuple(jnp.diag(x[:half, half:]) for x in parts)
        turn = _turn(diagonal[:half], between, diagonal[half:])
        parts = _turned(_turned(parts, turn, 1), turn, 0)
        parts = tuple(_moved(_moved(x, 0), 1) for x in parts)
        return parts, tuple(_moved(x, 1) for x in _turned(vectors, turn, 1))

    start = _parts(a), _parts(jnp.eye(even, dtype=a.dtype))
    _, vectors = lax.fori_loop(0, _sweeps(a) * (even - 1), step, start)
    found, values = _refined(a[:n, :n], _whole(vectors)[:n, :n])
    return found, values * scale


def _refined(a: Any, vectors: Any) -> tuple[Any, Any]:
    """Vectors and eigenvalues without what thousands of turns have rounded.

    A step of T. Ogita and K. Aishima's refinement (2018), which has only products of matrices, and
    some of Schulz's, that make vectors orthogonal again: the first is right for small changes, and
    those of vectors whose eigenvalues lie close together are not small beside a rounding. Where
    they would be more than a hundredth, vectors are left as they were turned.

    Args:
        a: the Hermitian matrix, whose elements are no larger than one.
        vectors: the columns, right but for rounding.
    """
    import jax.numpy as jnp

    def product(x: Any, y: Any) -> Any:
        return jnp.matmul(x, y, precision="highest")

    lack = jnp.eye(a.shape[0], dtype=a.dtype) - product(vectors.conj().T, vectors)
    found = product(vectors.conj().T, product(a, vectors))
    values = jnp.diag(found).real / (1 - jnp.diag(lack).real)
    beside = found - jnp.diag(values.astype(a.dtype))
    least = 128 * (jnp.abs(beside).max() + jnp.abs(values).max() * jnp.abs(lack).max())
    apart = values - values[:, None]
    is_far = jnp.abs(apart) > least
    change = (found + values.astype(a.dtype) * lack) / jnp.where(is_far, apart, 1).astype(a.dtype)
    vectors = vectors + product(vectors, jnp.where(is_far, change, lack / 2))
    for _ in range(2):
        lack = jnp.eye(a.shape[0], dtype=a.dtype) - product(vectors.conj().T, vectors)
        vectors = vectors + product(vectors, lack / 2)
    return vectors, values


def _decomposed(a: Any, full: bool, vectors_too: bool) -> tuple[Any, Any, Any]:
    """Singular values, left and right vectors (as columns) of a matrix with no fewer rows.

    Not its columns are turned but the rows of R of its QR factorisation, which are much nearer to
    right angles (Z. Drmac and K. Veselic, 2008).
    """
    import jax.numpy as jnp
    from jax import lax

    m, n = a.shape
    even = n + n % 2
    half = even // 2

    def step(_: Any, carry: Any) -> Any:
        first = tuple(x[:, :half] for x in carry[0])
        other = tuple(x[:, half:] for x in carry[0])
        squares = (sum(jnp.sum(x**2, 0) for x in each) for each in (first, other))
        between = tuple(jnp.sum(x, 0) for x in _times(_conjugate(first), other))
        turn = _turn(next(squares), between, next(squares))
        return tuple(tuple(_moved(x, 1) for x in _turned(each, turn, 1)) for each in carry)

    scale = _scale(a)
    factors, taus = geqrf(a / scale.astype(a.dtype))
    columns = jnp.pad(jnp.triu(factors[:n]).conj().T, ((0, 0), (0, even - n)))
    turns = jnp.eye(even, dtype=a.dtype)
    if n > 1:
        start = _parts(columns), _parts(turns)
        columns, turns = map(_whole, lax.fori_loop(0, _sweeps(a) * (even - 1), step, start))
    columns, turns = columns[:, :n], turns[:n, :n]
    # What turning has rounded in lengths it has rounded in both.
    lengths = jnp.sqrt(jnp.sum(jnp.abs(turns) ** 2, 0))
    turns = turns / lengths.astype(a.dtype)
    values = jnp.sqrt(jnp.sum(jnp.abs(columns) ** 2, 0)) / lengths
    order = jnp.argsort(-values)
    values, columns, turns = values[order], columns[:, order], turns[:, order]
    if not vectors_too:
        return values * scale, turns, columns
    width = m if full else n
    wide = jnp.eye(width, dtype=a.dtype).at[:n, :n].set(turns)
    base = householder_product(jnp.pad(factors, ((0, 0), (0, width - n))), taus)
    left = jnp.matmul(base, wide, precision="highest")
    # The columns at right angles to all others, also where a singular value is zero: those of a
    # QR factorisation, but for their phase.
    factors, taus = geqrf(columns)
    edge = jnp.diag(factors)
    size = jnp.abs(edge)
    phase = jnp.where(size > 0, edge / jnp.where(size > 0, size, 1).astype(a.dtype), 1)
    right = householder_product(factors, taus) * phase.astype(a.dtype)
    return values * scale, left, right


def _scale(a: Any) -> Any:
    """The largest size of an element: divided by it, none vanishes or overflows when squared."""
    import jax.numpy as jnp

    largest = jnp.max(jnp.abs(a))
    return jnp.where(largest > 0, largest, 1).astype(largest.dtype)


def _parts(a: Any) -> tuple[Any, ...]:
    """The real part, and the imaginary one where there is one."""
    import jax.numpy as jnp

    return (a.real, a.imag) if jnp.iscomplexobj(a) else (a,)


def _whole(parts: tuple[Any, ...]) -> Any:
    """What these are the parts of."""
    from jax import lax

    return lax.complex(*parts) if len(parts) > 1 else parts[0]


def _conjugate(parts: tuple[Any, ...]) -> tuple[Any, ...]:
    return (parts[0], *(-x for x in parts[1:]))


def _times(first: tuple[Any, ...], second: tuple[Any, ...]) -> tuple[Any, ...]:
    """The parts of a product, element by element."""
    if len(first) == 1:
        return (first[0] * second[0],)
    (a, b), (c, d) = first, second
    return a * c - b * d, a * d + b * c


def _turn(first: Any, between: tuple[Any, ...], second: Any) -> tuple[Any, Any, tuple[Any, ...]]:
    """The turns that make pairs of rows orthogonal: cosine, sine, and the second's phase.

    Args:
        first: of each pair, the product of the first with itself.
        between: the parts of that of the first with the second.
        second: that of the second with itself.
    """
    import jax.numpy as jnp

    size = jnp.abs(_whole(between))
    # What is as good as zero beside a largest element of one is not divided by.
    some = size > float(jnp.finfo(size.dtype).tiny) * 2.0**20
    size = jnp.where(some, size, 1)
    real, *imaginary = _conjugate(between)
    phase = (jnp.where(some, real / size, 1), *(jnp.where(some, x / size, 0) for x in imaginary))
    apart = (second - first) / 2
    sign = jnp.where(apart >= 0, 1, -1).astype(size.dtype)
    # The hypotenuse without its square, which may be too small for a number.
    long = jnp.maximum(jnp.abs(apart), size)
    hypotenuse = long * jnp.sqrt((apart / long) ** 2 + (size / long) ** 2)
    tangent = jnp.where(some, sign * size / (jnp.abs(apart) + hypotenuse), 0)
    cosine = 1 / jnp.sqrt(1 + tangent**2)
    return cosine, tangent * cosine, phase


def _turned(
    parts: tuple[Any, ...], turn: tuple[Any, Any, tuple[Any, ...]], axis: int
) -> tuple[Any, ...]:
    """A matrix's columns, or rows, in pairs (each of the first half and the one as far into the
    second), turned; rows by what turns them as columns of the adjoint matrix.
    """
    import jax.numpy as jnp

    half = turn[0].shape[0]
    cosine, sine, *phase = (x if axis else x[:, None] for x in (*turn[:2], *turn[2]))
    phases = tuple(phase) if axis else _conjugate(tuple(phase))
    first, other = zip(*(jnp.split(x, [half], axis) for x in parts), strict=True)
    return tuple(
        jnp.concatenate([cosine * x - sine * y, sine * x + cosine * y], axis)
        for x, y in zip(first, _times(other, phases), strict=True)
    )


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
    """Enough rounds of the tournament for all bits; they grow with the logarithm of the size.

    Measured up to 64 rows, with values that are alike or 10^19 apart; f64 converges in no fewer.
    """
    import jax.numpy as jnp

    precise = jnp.finfo(a.dtype).bits == 64
    return 5 + math.ceil(math.log2(max(a.shape))) + (6 if precise else 0)
