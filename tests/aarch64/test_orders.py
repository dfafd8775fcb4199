"""Sorts, and searches for the first few, on (emulated) 64-bit Arm."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from edgec import toolchain
from edgec.exporters import export


def test_the_first_are_those_of_numpy(run_on_aarch64, tmp_path: Path) -> None:
    x = np.random.default_rng(6).standard_normal((3, 9000)).astype(np.float32)
    program = export(lambda x: (jnp.argsort(x, 1), *jax.lax.top_k(x, 20), jnp.sort(x, 0)), (x,))
    path = tmp_path / "orders.vmfb"
    toolchain.compile(program, "cpu:arm64-v8.2", toolchain.CompileOptions(output=path))
    places, values, first, columns = run_on_aarch64(path, {"x": x}, outputs=4)
    expected = np.argsort(x, 1, kind="stable")
    np.testing.assert_array_equal(places, expected)
    np.testing.assert_array_equal(first, expected[:, :-21:-1])
    np.testing.assert_array_equal(values, np.sort(x, 1)[:, :-21:-1])
    np.testing.assert_array_equal(columns, np.sort(x, 0))
