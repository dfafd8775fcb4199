"""Factorisations written out as loops, compared with LAPACK's through JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edgec.exporters import export

RANDOM = np.random.default_rng(11)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def complex_normal(*shape: int) -> np.ndarray:
    return (normal(*shape) + 1j * normal(*shape)).astype(np.complex64)


def positive(a: np.ndarray) -> np.ndarray:
    return a @ np.conj(np.swapaxes(a, -1, -2)) + np.eye(a.shape[-1], dtype=a.dtype)


def test_square_systems(replay) -> None:
    def model(a, s, b):
        return {
            "solve": jnp.linalg.solve(a, b),
            "vector": jnp.linalg.solve(a, b[:, 0]),
            "gradient": jax.grad(lambda a: jnp.linalg.solve(a, b).sum())(a),
            "inverse": jnp.linalg.inv(a),
            "determinant": jnp.linalg.slogdet(a),
            "cholesky": jnp.linalg.cholesky(s),
            "by_cholesky": jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(s), b),
            "exponential": jax.scipy.linalg.expm(a / 8),
        }

    a = normal(5, 5)
    assert replay(export(model, (a, positive(a), normal(5, 2)))) <= 1e-4


def test_no_cholesky_factor_of_a_matrix_that_is_not_positive(replay) -> None:
    program = export(lambda s: jnp.isnan(jnp.linalg.cholesky(s)), (-positive(normal(3, 3)),))
    assert program.golden.calls[0].outputs[0].sum() == 6  # all of the lower triangle
    assert replay(program) == 0


def test_what_a_user_has_refused_in_their_own_functions_is_not_refused_here(replay) -> None:
    def model(a):
        q, r = jnp.linalg.qr(a)
        u, values, v = jnp.linalg.svd(a)
        return q @ r, u @ jnp.diag(values) @ v, jnp.linalg.eigvalsh(a @ a.T)

    with jax.numpy_rank_promotion("raise"), jax.numpy_dtype_promotion("strict"):
        program = export(model, (normal(3, 3),))
    assert replay(program) <= 1e-4


@pytest.mark.slow
def test_rectangles(replay) -> None:
    def model(tall, wide):
        return {
            "tall": jnp.linalg.qr(tall),
            "full": jnp.linalg.qr(tall, mode="complete"),
            "wide": jnp.linalg.qr(wide),
            "lu_tall": jax.scipy.linalg.lu(tall),
            "lu_wide": jax.scipy.linalg.lu(wide),
        }

    assert replay(export(model, (normal(6, 4), normal(3, 5)))) <= 1e-4


@pytest.mark.slow
def test_batches_of_complex_matrices(replay) -> None:
    def model(a, s, b):
        return jnp.linalg.solve(a, b), jnp.linalg.cholesky(s), jnp.linalg.qr(a)

    a = complex_normal(2, 3, 3)
    assert replay(export(model, (a, positive(a), complex_normal(2, 3, 2)))) <= 1e-4


def test_every_kind_of_triangle(replay) -> None:
    solve = jax.scipy.linalg.solve_triangular

    def model(a, b):
        return [
            solve(a, b, lower=lower, trans=trans, unit_diagonal=unit)
            for lower, unit in ((True, False), (False, True))
            for trans in (0, 1, 2)
        ] + [jax.lax.linalg.triangular_solve(a, b.T, left_side=False, lower=True)]

    a = complex_normal(4, 4) + 3 * np.eye(4, dtype=np.complex64)
    assert replay(export(model, (a, complex_normal(4, 2)))) <= 1e-4


@pytest.mark.parametrize("size", [1, 2])
def test_the_smallest_matrices(size: int, replay) -> None:
    def model(a, s):
        return jnp.linalg.inv(a), jnp.linalg.qr(a), jnp.linalg.cholesky(s), jnp.linalg.det(a)

    a = normal(size, size) + 2 * np.eye(size, dtype=np.float32)
    assert replay(export(model, (a, positive(a)))) <= 1e-4
