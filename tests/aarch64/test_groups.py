"""Rows of groups by their matrices, one by one and in blocks, on (emulated) 64-bit Arm."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from edgec import toolchain
from edgec.exporters import export


def test_both_ways_answer_as_jax_does(run_on_aarch64, tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    weights = rng.standard_normal((6, 64, 128), np.float32)
    x = rng.standard_normal((48, 64), np.float32)
    many, few = np.array([20, 0, 7, 1, 16, 2], np.int32), np.array([0, 2, 0, 1, 0, 1], np.int32)

    def ragged(x, many, few):
        table = jnp.asarray(weights)
        return jax.lax.ragged_dot(x, table, many), jax.lax.ragged_dot(x[:5], table, few)

    path = tmp_path / "groups.vmfb"
    program = export(ragged, (x, many, few))
    toolchain.compile(program, "cpu:arm64-v8.2", toolchain.CompileOptions(output=path))
    found = run_on_aarch64(path, {"x": x, "many": many, "few": few}, outputs=2)
    for actual, right in zip(found, ragged(x, many, few), strict=True):
        np.testing.assert_allclose(actual, right, rtol=0, atol=1e-4)
