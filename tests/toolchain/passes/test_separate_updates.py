"""Scatters of f64 for CUDA, which the compiler refuses where their updates are gathered."""

import jax
import jax.numpy as jnp
import numpy as np

from edgec import toolchain
from edgec.toolchain.passes.legalise.separate_updates import SeparateUpdates
from tests.toolchain.passes.before_after import rewrite

PLACES = np.array([[0, 1, 2], [1, 1, 4]], np.int32)


def gradient(dtype: type) -> str:
    """The program of the gradient of rows that are squared."""
    with jax.enable_x64(True):
        function = jax.grad(lambda x, i: (x[i] ** 2).sum())
        return jax.jit(function).lower(np.ones((5, 4), dtype), PLACES).as_text()


def test_a_gradient_of_rows_has_a_module(tmp_path) -> None:
    (tmp_path / "f.mlir").write_text(gradient(np.float64))
    assert "cuda" in repr(toolchain.compile(tmp_path / "f.mlir", "cuda:sm_80"))


def test_other_scatters_stay() -> None:
    assert rewrite(SeparateUpdates(), gradient(np.float64))[0] == 1
    assert rewrite(SeparateUpdates(), gradient(np.float32))[0] == 0
    assert rewrite(SeparateUpdates(), jax.jit(jnp.sin).lower(np.ones(3)).as_text())[0] == 0
