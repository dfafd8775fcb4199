"""Sorts, and searches for the first few, in WebAssembly."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edgec import toolchain
from edgec.exporters import export
from tests.js.node import need_node, run_node, write_runtime_once


@pytest.mark.parametrize("target", ["wasm", "wasm:plain"])
def test_the_first_are_those_of_numpy(target: str, tmp_path: Path) -> None:
    need_node()
    x = np.random.default_rng(6).standard_normal((2, 5000)).astype(np.float32)
    program = export(lambda x: (jnp.argsort(x, 1), *jax.lax.top_k(x, 20)), (x,))
    toolchain.compile(program, target, toolchain.CompileOptions(output=tmp_path / "orders.vmfb"))
    write_runtime_once(tmp_path / "edgec-runtime")
    (tmp_path / "x.bin").write_bytes(x.tobytes())
    places, values, first = run_node(
        """
        const { readFileSync } = await import('node:fs');
        const bytes = readFileSync('x.bin');
        const model = await load('orders.vmfb');
        const x = new Float32Array(bytes.buffer, bytes.byteOffset, 10000);
        print(Object.values(await model.main(x)));
        """,
        tmp_path,
    )
    expected = np.argsort(x, 1, kind="stable")
    np.testing.assert_array_equal(places, expected.ravel())
    np.testing.assert_array_equal(first, expected[:, :-21:-1].ravel())
    np.testing.assert_array_equal(np.float32(values), np.sort(x, 1)[:, :-21:-1].ravel())
