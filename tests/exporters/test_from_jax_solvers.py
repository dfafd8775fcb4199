"""JAX's iterative solvers, whose loops stand behind each other and within each other."""

from typing import Any

import jax
import numpy as np
import pytest
from jax._src.scipy.optimize._lbfgs import _minimize_lbfgs as minimize_lbfgs
from jax.scipy.sparse.linalg import bicgstab, cg, gmres

from edgec import runtime, toolchain
from edgec.exporters import export

RANDOM = np.random.default_rng(5)
A = RANDOM.normal(size=(6, 6)).astype(np.float32) + 6 * np.eye(6, dtype=np.float32)
B = RANDOM.normal(size=6).astype(np.float32)


@pytest.mark.parametrize("method", ["incremental", pytest.param("batched", marks=pytest.mark.slow)])
def test_gmres_answers_as_in_jax(method: str) -> None:
    def model(a: Any, b: Any) -> Any:
        return gmres(lambda v: a @ v, b, restart=3, maxiter=4, solve_method=method)[0]

    program = export(model, (A, B))
    with runtime.load(toolchain.compile(program, "cpu")) as loaded:
        np.testing.assert_allclose(loaded.main(A, B), jax.jit(model)(A, B), atol=1e-6)


@pytest.mark.parametrize("solver", [cg, bicgstab])
def test_conjugate_gradients_answer_as_in_jax(solver: Any, replay) -> None:
    def model(a: Any, b: Any) -> Any:
        return solver(lambda v: a @ (a.T @ v), b, maxiter=20)[0]

    assert replay(export(model, (A, B))) <= 1e-4


def test_a_function_of_complex_numbers_is_minimised_as_in_jax(replay) -> None:
    """L-BFGS, whose line search is loops within its loop."""
    least = np.array([1, 2 - 1j], np.complex64)

    def model(z: Any) -> Any:
        return minimize_lbfgs(lambda z: (abs(z - least) ** 2).sum(), z).x_k

    assert replay(export(model, (np.array([0.5j, 0.25], np.complex64),))) <= 1e-4
