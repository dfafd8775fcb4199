"""Eigenvalues and vectors of any square matrix, compared with LAPACK's through JAX and NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edgec.exporters import export
from edgec.exporters.from_jax.general_eigen import eig

RANDOM = np.random.default_rng(21)
JORDAN = np.diag(np.ones(5, np.float32), 1) + 2 * np.eye(6, dtype=np.float32)
TURN = np.roll(np.eye(5, dtype=np.float32), 1, 0)
"""Eigenvalues all of one size, so that no shift is better than another but Wilkinson's."""


def random(size: int, turned: bool) -> np.ndarray:
    a = RANDOM.standard_normal((size, size))
    if turned:
        return (a + 1j * RANDOM.standard_normal((size, size))).astype(np.complex64)
    return a.astype(np.float32)


def test_eigenvalues_are_found_by_a_compiled_loop(replay) -> None:
    """The sums of their powers, as their order is another one than LAPACK's."""

    def model(a):
        values = jnp.linalg.eigvals(a)
        return jnp.stack([(values**k).sum().real for k in (1, 2, 3)])

    assert replay(export(model, (np.array([[1, -2], [3, 0.5]], np.float32),))) <= 2e-4


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(4, 4), (2, 3, 3)])
def test_what_is_made_of_eigenvalues(shape, replay) -> None:
    """What does not hang on the order of the vectors."""

    def model(a):
        values, vectors = jnp.linalg.eig(a)
        return {
            "apart": jnp.abs(a @ vectors - vectors * values[..., None, :]).max(),
            "powers": jnp.stack([(values**k).sum(-1).real for k in (1, 2, 3)]),
            "lengths": jnp.linalg.norm(vectors, axis=-2),
        }

    assert replay(export(model, (RANDOM.standard_normal(shape).astype(np.float32),))) <= 2e-4


@pytest.mark.sweep(fast=4)
@pytest.mark.parametrize(
    "a",
    [
        *(random(1, False), random(2, False), random(3, True), random(9, False), random(12, True)),
        *(np.zeros((4, 4), np.float32), TURN, TURN * 1e-30, TURN * 1e30, np.triu(random(5, False))),
    ],
    ids=lambda a: f"{a.dtype}-{len(a)}",
)
def test_vectors_are_turned_into_their_multiples(a: np.ndarray) -> None:
    a = a.astype(np.complex64 if np.iscomplexobj(a) else np.float32)
    values, left, right = (np.asarray(x) for x in jax.jit(_eig)(a))
    scale = np.abs(a).max() + np.finfo(np.float32).tiny
    want = np.linalg.eigvals(a.astype(np.complex128))
    apart = np.abs(want[:, None] - values[None])
    assert max(apart.min(0).max(), apart.min(1).max()) < 1e-5 * scale * len(a)
    np.testing.assert_allclose((a @ right - right * values) / scale, 0, atol=1e-5)
    back = left.conj().T
    np.testing.assert_allclose((back @ a - values[:, None] * back) / scale, 0, atol=1e-5)
    for vectors in (left, right):
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=0), 1, rtol=1e-5)
        # The largest element of each is real; several may be as large but for rounding.
        largest = np.abs(vectors) >= np.abs(vectors).max(0) * (1 - 1e-5)
        assert np.abs(np.where(largest, vectors.imag, 1)).min(0).max() < 1e-6


def test_a_matrix_with_one_vector_only_has_it_for_each_eigenvalue() -> None:
    values, _, right = (np.asarray(x) for x in jax.jit(_eig)(JORDAN))
    np.testing.assert_allclose(values, 2)
    np.testing.assert_allclose(np.abs(right[0]), 1, rtol=1e-5)


def test_real_eigenvalues_of_a_real_matrix_have_no_other_part() -> None:
    values, _, _ = jax.jit(_eig)(np.diag([3.0, 1, 2]).astype(np.float32) + np.tri(3, k=-1))
    np.testing.assert_array_equal(np.asarray(values).imag, 0)


def test_what_is_no_number_gives_none() -> None:
    for found in jax.jit(_eig)(np.full((3, 3), np.nan, np.float32)):
        assert np.isnan(found.real).all()
        assert np.isnan(found.imag).all()


def _eig(a):
    return eig(a, compute_left_eigenvectors=True, compute_right_eigenvectors=True)
