"""Eigenvalues and vectors of any square matrix, by Schur's form, in JAX itself.

The matrix is made Hessenberg by reflections and then triangular by rotations with Wilkinson's shift
(the implicit QR algorithm: G. Golub and C. Van Loan, Matrix Computations, 7.4 and 7.5), in complex
numbers. Each turn of one loop is one rotation; what is left below the diagonal decides how many
there are. Vectors are solved from the triangle, all at once, and have length one and a largest
element that is real, as LAPACK's have; their order is that in which eigenvalues are found.
"""

import math
from typing import Any, NamedTuple

from edgec.exporters.from_jax.linalg import batched
from edgec.runtime.errors import UnsupportedOp

__all__ = ["REAL_SCHUR", "eig", "schur"]

REAL_SCHUR = 'ask for the form of complex numbers: jax.scipy.linalg.schur(a, output="complex")'
"""What to do where Schur's form of real numbers is refused."""
_MOST_SWEEPS = 30  # for each eigenvalue, as LAPACK's
_STUCK = 10  # sweeps without an eigenvalue, after which one is made with another shift


def eig(
    a: Any, *, compute_left_eigenvectors: bool, compute_right_eigenvectors: bool, **params: Any
) -> Any:
    """Eigenvalues, and the left and right vectors beside them where they are asked for.

    All are complex, and not a number where a matrix has such elements.
    """

    def one(a: Any) -> tuple[Any, ...]:
        return _of_one(a, compute_left_eigenvectors, compute_right_eigenvectors)

    return batched(one, a, ranks=(2,))


def schur(a: Any, *, compute_schur_vectors: bool, **params: Any) -> Any:
    """Schur's triangular form of complex matrices, and the unitary one where it is asked for.

    Both are not a number where a matrix has such elements.

    Raises:
        UnsupportedOp: the numbers are real; that form has blocks of two where eigenvalues are
            complex.
    """
    import jax.numpy as jnp

    if not jnp.iscomplexobj(a):
        raise UnsupportedOp("Schur's form of real numbers", hint=REAL_SCHUR)

    def one(a: Any) -> tuple[Any, ...]:
        scale, is_fine = _scale(a)
        triangle, basis = _schur(*_hessenberg(a / scale.astype(a.dtype)))
        found = [triangle * scale.astype(a.dtype), basis][: 1 + compute_schur_vectors]
        none = jnp.asarray(complex(math.nan, math.nan), a.dtype)
        return tuple(jnp.where(is_fine, x, none) for x in found)

    return batched(one, a, ranks=(2,))


def _scale(a: Any) -> tuple[Any, Any]:
    """The size of the largest element, or 1; and whether all are numbers."""
    import jax.numpy as jnp

    largest = jnp.max(jnp.abs(a))
    scale = jnp.where((largest > 0) & jnp.isfinite(largest), largest, 1).astype(largest.dtype)
    return scale, jnp.isfinite(largest)


def _of_one(a: Any, left: bool, right: bool) -> tuple[Any, ...]:
    import jax.numpy as jnp

    is_real = not jnp.iscomplexobj(a)
    wide = a.astype(jnp.result_type(a.dtype, jnp.complex64))
    scale, is_fine = _scale(a)
    triangle, basis = _schur(*_hessenberg(wide / scale.astype(wide.dtype)))
    values = jnp.diag(triangle)
    if is_real:
        # What an exact algorithm of real numbers would give is real, or has a conjugate; a part
        # that is as small as the error of a sum is one.
        noise = a.shape[0] * jnp.finfo(scale.dtype).eps
        values = jnp.where(jnp.abs(values.imag) > noise, values, values.real.astype(wide.dtype))
    found = [values * scale.astype(wide.dtype)]
    if left:
        found.append(_vectors(triangle, basis, True))
    if right:
        found.append(_vectors(triangle, basis, False))
    none = jnp.asarray(complex(math.nan, math.nan), wide.dtype)
    return tuple(jnp.where(is_fine, x, none) for x in found)


def _hessenberg(a: Any) -> tuple[Any, Any]:
    """Zeros below the first subdiagonal, and the unitary matrix whose columns did it."""
    import jax.numpy as jnp
    from jax import lax

    n = a.shape[0]
    basis = jnp.eye(n, dtype=a.dtype)
    if n < 3:
        return a, basis
    rows = jnp.arange(n)

    def column(k: Any, carry: Any) -> Any:
        a, basis = carry
        x = jnp.where(rows > k, a[:, k], 0)
        head = jnp.where(rows == k + 1, x, 0)
        size = jnp.sqrt(jnp.sum(jnp.abs(x) ** 2))
        first = jnp.sum(head)
        length = jnp.abs(first)
        phase = jnp.where(length > 0, first / jnp.where(length > 0, length, 1).astype(a.dtype), 1)
        v = x + jnp.where(rows == k + 1, phase * size.astype(a.dtype), 0)
        below = jnp.sum(jnp.abs(v) ** 2)
        factor = jnp.where(below > 0, 2 / jnp.where(below > 0, below, 1), 0).astype(a.dtype)
        v, w = v * factor, v
        a = a - jnp.outer(v, w.conj() @ a)
        a = a - jnp.outer(a @ v, w.conj())
        return a, basis - jnp.outer(basis @ v, w.conj())

    a, basis = lax.fori_loop(0, n - 2, column, (a, basis))
    return jnp.triu(a, -1), basis


class _Turn(NamedTuple):
    """What one rotation hands to the next.

    Attributes:
        triangle: the matrix that becomes triangular.
        basis: its columns, Schur's vectors.
        at: the row of the next rotation; -1 where a sweep begins.
        begin, end: the first and last row of the part that a sweep is of.
        shift: what is subtracted from the diagonal in this sweep.
        stuck: sweeps since an eigenvalue was found.
        sweeps: of all; there is an end to them.
        is_open: whether anything is left below the diagonal.
    """

    triangle: Any
    basis: Any
    at: Any
    begin: Any
    end: Any
    shift: Any
    stuck: Any
    sweeps: Any
    is_open: Any


def _schur(a: Any, basis: Any) -> tuple[Any, Any]:
    """The triangle of a Hessenberg matrix, and the basis in which it is one.

    Not a number all over where it does not become one.
    """
    import jax.numpy as jnp
    from jax import lax

    n = a.shape[0]
    if n == 1:
        return a, basis
    zero = jnp.int32(0)
    start = _Turn(
        triangle=a,
        basis=basis,
        at=zero - 1,
        begin=zero,
        end=zero,
        shift=jnp.zeros((), a.dtype),
        stuck=zero,
        sweeps=zero,
        is_open=jnp.bool_(True),
    )
    most = _MOST_SWEEPS * max(10, n)
    end = lax.while_loop(lambda t: t.is_open & (t.sweeps < most), _turn, start)
    values = jnp.triu(end.triangle)
    return jnp.where(end.is_open, jnp.nan, values), end.basis


def _turn(turn: _Turn) -> _Turn:
    """A sweep's beginning where one is due, and a rotation."""
    import jax
    import jax.numpy as jnp

    begun = _begun(turn)
    turn = jax.tree.map(lambda new, old: jnp.where(turn.at < 0, new, old), begun, turn)
    a, k = turn.triangle, turn.at
    first = k == turn.begin
    column = jnp.where(first, k, k - 1)
    x, y = jax.lax.dynamic_slice(a, (k, column), (2, 1))[:, 0]
    x = jnp.where(first, x - turn.shift, x)
    size = jnp.sqrt(jnp.abs(x) ** 2 + jnp.abs(y) ** 2)
    some = (size > 0) & turn.is_open
    safe = jnp.where(some, size, 1).astype(a.dtype)
    cosine, sine = jnp.where(some, x / safe, 1), jnp.where(some, y / safe, 0)
    rotation = (cosine.conj(), sine.conj()), (-sine, cosine)
    rows = jax.lax.dynamic_slice_in_dim(a, k, 2, 0)
    a = jax.lax.dynamic_update_slice_in_dim(a, _product(rotation, rows), k, 0)
    back = (cosine, sine), (-sine.conj(), cosine.conj())
    return turn._replace(
        triangle=_columns(a, k, back),
        basis=_columns(turn.basis, k, back),
        at=jnp.where(turn.is_open & (k + 1 < turn.end), k + 1, -1),
    )


def _begun(turn: _Turn) -> _Turn:
    """Where the next sweep goes: the last part that has something below its diagonal."""
    import jax.numpy as jnp

    a = turn.triangle
    n = a.shape[0]
    places = jnp.arange(n - 1, dtype=jnp.int32)
    size, below = jnp.abs(jnp.diag(a)), jnp.abs(jnp.diag(a, -1))
    near = size[:-1] + size[1:]
    # Beside zeros: what is nothing beside the largest element, which was one.
    is_open = below > jnp.finfo(below.dtype).eps * jnp.where(near > 0, near, 1)
    kept = jnp.diag(jnp.where(is_open, jnp.diag(a, -1), 0), -1)
    a = jnp.triu(a) + kept
    end = jnp.max(jnp.where(is_open, places + 1, 0))
    begin = jnp.max(jnp.where(~is_open & (places < end), places + 1, 0))
    stuck = jnp.where(end == turn.end, turn.stuck + 1, 0)
    some = is_open.any()
    return turn._replace(
        triangle=a,
        at=begin,
        begin=begin,
        end=end,
        shift=_shift(a, end, stuck),
        stuck=stuck,
        sweeps=turn.sweeps + 1,
        is_open=some,
    )


def _shift(a: Any, end: Any, stuck: Any) -> Any:
    """The eigenvalue of the last two rows that is nearer to the last element (Wilkinson)."""
    import jax
    import jax.numpy as jnp

    (p, q), (r, s) = jax.lax.dynamic_slice(a, (end - 1, end - 1), (2, 2))
    half = (p - s) / 2
    root = jnp.sqrt(half * half + q * r)
    longer = jnp.where(jnp.abs(half + root) >= jnp.abs(half - root), half + root, half - root)
    some = jnp.abs(longer) > 0
    near = s - jnp.where(some, q * r / jnp.where(some, longer, 1), 0)
    another = s + 0.75 * jnp.abs(r).astype(a.dtype)
    return jnp.where(stuck % _STUCK == _STUCK - 1, another, near)


def _columns(a: Any, k: Any, rotation: Any) -> Any:
    import jax

    pair = jax.lax.dynamic_slice_in_dim(a, k, 2, 1)
    return jax.lax.dynamic_update_slice_in_dim(a, _product(rotation, pair.T).T, k, 1)


def _product(rotation: Any, rows: Any) -> Any:
    """Two rows turned; written out, as no matrix product is worth it."""
    import jax.numpy as jnp

    return jnp.stack([first * rows[0] + second * rows[1] for first, second in rotation])


def _vectors(triangle: Any, basis: Any, left: bool) -> Any:
    """The left or right vectors of all eigenvalues on a triangle's diagonal, as columns.

    A row of all of them is solved in each turn: upwards for right ones, downwards for left ones.
    """
    import jax.numpy as jnp
    from jax import lax

    n = triangle.shape[0]
    values, rows = jnp.diag(triangle), jnp.arange(n)
    eps = jnp.finfo(triangle.dtype).eps
    least = (eps * jnp.maximum(jnp.max(jnp.abs(triangle)), eps)).astype(triangle.dtype)

    def row(step: Any, x: Any) -> Any:
        j = step if left else n - 1 - step
        from_ = triangle[:, j] if left else triangle[j]
        sums = jnp.where(rows == j, 0, from_) @ x
        apart = values[j] - values
        # Of two equal eigenvalues the second has the vector of one beside it, as in LAPACK.
        apart = jnp.where(jnp.abs(apart) < least.real, least, apart)
        is_due = (rows < j) if left else (rows > j)
        solved = jnp.where(rows == j, 1, jnp.where(is_due, -sums / apart, 0))
        x = lax.dynamic_update_slice_in_dim(x, solved[None].astype(x.dtype), j, 0)
        # The unknowns that follow grow with those before, which may be large by now.
        largest = jnp.max(jnp.abs(x), 0)
        return x / jnp.where(largest > 1, largest, 1).astype(x.dtype)

    x = lax.fori_loop(0, n, row, jnp.zeros_like(triangle)) if n > 1 else jnp.ones_like(triangle)
    x = basis @ (x.conj() if left else x)
    x = x / jnp.sqrt(jnp.sum(jnp.abs(x) ** 2, 0)).astype(x.dtype)
    best = jnp.argmax(jnp.abs(x), 0)
    largest = jnp.sum(jnp.where(rows[:, None] == best, x, 0), 0)
    return x * (largest.conj() / jnp.abs(largest).astype(x.dtype))
