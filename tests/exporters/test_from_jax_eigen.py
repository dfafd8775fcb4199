"""Eigenvalues, singular values and what matrices become by reflections, compared with LAPACK's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import lapack

from edgec.exporters import export
from edgec.exporters.from_jax.eigen import eigh, svd
from edgec.exporters.from_jax.hessenberg import hessenberg, tridiagonal
from edgec.exporters.from_jax.linalg import tridiagonal_solve

RANDOM = np.random.default_rng(12)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def random(kind: type, *shape: int) -> np.ndarray:
    a = normal(*shape)
    return a + 1j * normal(*shape) if kind is np.complex64 else a


def symmetric(a: np.ndarray) -> np.ndarray:
    return a + np.conj(np.swapaxes(a, -1, -2))


def test_what_is_made_of_eigenvalues(replay) -> None:
    def model(s, h):
        values, vectors = jnp.linalg.eigh(s)
        return {
            "values": values,
            "again": vectors * values[..., None, :] @ vectors.mT,
            "hermitian": jnp.linalg.eigvalsh(h),
        }

    h = symmetric(normal(3, 3) + 1j * normal(3, 3)).astype(np.complex64)
    assert replay(export(model, (symmetric(normal(2, 5, 5)), h))) <= 2e-4


@pytest.mark.slow  # More of the loops above, which a compile takes seconds for.
def test_what_else_is_made_of_eigenvalues(replay) -> None:
    def model(s):
        return {
            "upper": jnp.linalg.eigvalsh(s, UPLO="U"),
            "gradient": jax.grad(lambda s: (jnp.linalg.eigvalsh(s[0]) ** 3).sum())(s),
        }

    assert replay(export(model, (symmetric(normal(2, 5, 5)),))) <= 2e-4


def test_what_is_made_of_singular_values(replay) -> None:
    def model(a):
        left, values, right = jnp.linalg.svd(a, full_matrices=False)
        return {
            "values": values,
            "again": (left * values) @ right,
            "rank": jnp.linalg.matrix_rank(a[:, :2] @ a[:2]),
        }

    assert replay(export(model, (normal(6, 4),))) <= 2e-4


@pytest.mark.slow  # More of the loops above, which a compile takes seconds for.
def test_what_else_is_made_of_singular_values(replay) -> None:
    def model(a, b):
        return {
            "inverse": jnp.linalg.pinv(a),
            "least squares": jnp.linalg.lstsq(a, b)[0],
            "gradient": jax.grad(lambda a: jnp.linalg.norm(a, "nuc"))(a),
        }

    assert replay(export(model, (normal(6, 4), normal(6, 2)))) <= 2e-4


def test_three_diagonals_and_a_search_that_may_be_approximate(replay) -> None:
    def model(low, middle, high, b):
        return (
            jax.lax.linalg.tridiagonal_solve(low, middle, high, b),
            jax.lax.approx_max_k(b, 3, reduction_dimension=0),
            jax.lax.approx_min_k(b, 1),
        )

    low, high = normal(7), normal(7)
    low[0] = high[-1] = 0
    assert replay(export(model, (low, normal(7) + 5, high, normal(7, 2)))) <= 1e-4


@pytest.mark.parametrize(
    ("size", "turned"),
    [
        *((1, 0), (2, 1), (33, 0)),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in ((3, 0), (33, 1))),
    ],
)
def test_vectors_are_orthogonal_and_diagonalise(size: int, turned: int) -> None:
    a = normal(size, size) + 1j * normal(size, size) if turned else normal(size, size)
    s = symmetric(a) * np.float32(1e-3)
    vectors, values = (np.asarray(x) for x in eigh(s, lower=True, sort_eigenvalues=True))
    np.testing.assert_allclose(values, np.linalg.eigvalsh(s), atol=2e-5 * abs(s).max() * size)
    np.testing.assert_allclose(vectors.conj().T @ vectors, np.eye(size), atol=1e-5)
    np.testing.assert_allclose(s @ vectors, vectors * values, atol=1e-5 * abs(s).max() * size)


@pytest.mark.parametrize(
    ("shape", "full"),
    [
        ((1, 3), True),
        pytest.param((4, 4), True, marks=pytest.mark.slow),
        ((7, 3), False),
        ((3, 6), True),
    ],
)
def test_a_matrix_of_lower_rank_has_whole_bases(shape: tuple[int, int], full: bool) -> None:
    a = normal(*shape) * np.float32(1e6)
    a[-1] = a[0]
    values, left, right = (np.asarray(x) for x in svd(a, full_matrices=full, compute_uv=True))
    count = min(shape)
    expected = np.linalg.svd(a, full_matrices=full)
    assert (left.shape, right.shape) == (expected.U.shape, expected.Vh.shape)
    np.testing.assert_allclose(values, expected.S, atol=10)
    np.testing.assert_allclose((left[:, :count] * values) @ right[:count], a, atol=10)
    for basis in (left.T @ left, right @ right.T):
        np.testing.assert_allclose(basis, np.eye(len(basis)), atol=1e-5)


def test_a_zero_matrix_has_the_unit_vectors() -> None:
    zero = np.zeros((4, 4), np.float32)
    vectors, values = eigh(zero, lower=True, sort_eigenvalues=True)
    np.testing.assert_array_equal(values, np.zeros(4))
    np.testing.assert_allclose(np.asarray(vectors).T @ vectors, np.eye(4))


@pytest.mark.sweep(fast=1)
@pytest.mark.parametrize("kind", [np.float32, np.complex64])
@pytest.mark.parametrize("is_close", [False, True])
def test_thousands_of_turns_leave_no_more_than_a_few_roundings(kind: type, is_close: bool) -> None:
    """Also of vectors whose eigenvalues are next to each other, or the same."""
    size = 60
    s = symmetric(random(kind, size, size))
    if is_close:
        basis = np.linalg.qr(s)[0]
        s = (basis * np.repeat(np.logspace(-4, 0, size // 5), 5)) @ basis.conj().T
        s = symmetric(s.astype(kind))
    vectors, values = (np.asarray(x) for x in eigh(s, lower=True, sort_eigenvalues=True))
    wide = s.astype(np.complex128)
    rounding = np.finfo(np.float32).eps * np.linalg.norm(wide, 2)
    assert abs(values - np.linalg.eigvalsh(wide)).max() <= 5 * rounding
    assert np.linalg.norm(wide @ vectors - vectors * values) <= 3 * rounding * size**0.5
    np.testing.assert_allclose(vectors.conj().T @ vectors, np.eye(size), atol=2e-6)


@pytest.mark.sweep(fast=2)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("least", [-2, -14])
def test_values_that_are_very_far_apart(kind: type, least: int) -> None:
    """In f64 they need more tournaments; vectors of those that are alike stay at right angles."""
    size = 30
    bases = [np.linalg.qr(normal(size, size).astype(float))[0] for _ in "lr"]
    rounding = float(np.finfo(kind).eps)
    wide = (bases[0] * np.logspace(least, 0, size)) @ bases[0].T
    s = ((wide + wide.T) / 2).astype(kind)
    a = ((bases[0] * np.logspace(least, 0, size)) @ bases[1]).astype(kind)
    with jax.enable_x64(True):
        vectors, values = (np.asarray(x) for x in eigh(s, lower=True, sort_eigenvalues=True))
        found, left, right = (np.asarray(x) for x in svd(a, full_matrices=False, compute_uv=True))
    assert values.dtype == found.dtype == kind
    assert np.abs(s @ vectors - vectors * values).max() <= 10 * rounding
    assert np.abs(found - np.linalg.svd(a.astype(float)).S).max() <= 10 * rounding
    assert np.abs((left * found) @ right - a).max() <= 20 * rounding
    for basis in (vectors, left, right.T):
        np.testing.assert_allclose(basis.T @ basis, np.eye(size), atol=20 * rounding)


@pytest.mark.parametrize("kind", [pytest.param(np.float32, marks=pytest.mark.slow), np.complex64])
def test_three_diagonals_with_zeros_in_the_middle(kind: type) -> None:
    """Rows change places; a matrix without an answer gives none, or one of a matrix beside it."""
    low, middle, high, b = (random(kind, *shape) for shape in ((9,), (9,), (9,), (9, 2)))
    middle[::2] = 0
    middle[1] *= np.float32(1e-6)
    a = np.diag(middle) + np.diag(low[1:], -1) + np.diag(high[:-1], 1)
    a[8, 8] = middle[8] = 0.5
    solved = np.linalg.solve(a.astype(np.complex128), b)
    given = low, middle, high, b
    np.testing.assert_allclose(tridiagonal_solve(*given), solved, atol=3e-5 * abs(solved).max())
    low[4] = middle[4] = high[4] = 0
    assert np.isnan(tridiagonal_solve(*given)).all()
    assert np.isfinite(tridiagonal_solve(*given, perturb_singular=True)).all()
    of_two = [np.stack([each, each[::-1]]) for each in (high, random(kind, 9) + 9, low, b)]
    np.testing.assert_allclose(
        tridiagonal_solve(*of_two)[1], tridiagonal_solve(*(each[1] for each in of_two)), atol=1e-5
    )


@pytest.mark.sweep(fast=2)
@pytest.mark.parametrize("kind", [np.float32, np.complex64])
@pytest.mark.parametrize("size", [1, 2, 3, 12])
def test_reflections_are_packed_as_in_lapack(kind: type, size: int) -> None:
    a = random(kind, size, size)
    letter, name = ("s", "sytrd") if kind is np.float32 else ("c", "hetrd")
    for lower in (True, False):
        *theirs, _ = getattr(lapack, letter + name)(a, lower=lower)
        for ours, each in zip(tridiagonal(a, lower=lower), theirs, strict=True):
            np.testing.assert_allclose(ours, each, atol=5e-4)
    *theirs, _ = getattr(lapack, f"{letter}gehrd")(a)
    for ours, each in zip(hessenberg(a), theirs, strict=True):
        np.testing.assert_allclose(ours, each, atol=5e-4)


def test_what_is_made_of_reflections(replay) -> None:
    def model(a, s, low, b):
        reduced, turned = jax.scipy.linalg.hessenberg(a, calc_q=True)
        triangle, basis = jax.scipy.linalg.schur(a, output="complex")
        return {
            "again": turned @ reduced @ turned.T,
            "three": jax.lax.linalg.tridiagonal(s, lower=False)[1:3],
            "zeros": jax.lax.linalg.tridiagonal_solve(low, 0 * low, low, b),
            "same": basis @ triangle @ basis.conj().T,
        }

    a = normal(4, 4) + 4 * np.eye(4, dtype=np.float32)
    given = (a, symmetric(normal(5, 5)), normal(6), normal(6, 1))
    assert replay(export(model, given)) <= 2e-4


@pytest.mark.slow  # Another form of `same` above.
def test_a_root_is_made_of_reflections(replay) -> None:
    a = normal(4, 4) + 4 * np.eye(4, dtype=np.float32)
    assert replay(export(lambda a: jax.scipy.linalg.sqrtm(a @ a.T), (a,))) <= 2e-4
