"""Rows of tables in bytes, looked up in WebAssembly: what NumPy looks up in the table of floats."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from edgec.exporters import export
from edgec.quantising import Scheme, quantise
from edgec.toolchain import CompileOptions, compile
from tests.js.node import need_node, run_node, write_runtime_once

TABLE = np.random.default_rng(0).standard_normal((1500, 64)).astype(np.float32)
IDS = np.array([3, 1499, 0, 700, 700, 21], np.int32)
MOST = {"int8": 0.01, "int4-g32": 0.12}

CALL = """
const model = await load('table.vmfb');
const [y] = await model.main(tensor(new Int32Array(ids), [ids.length], 'i32'));
print(Array.from(y));
"""


@pytest.mark.parametrize("target", ["wasm", "wasm:plain"])
@pytest.mark.parametrize("scheme", list(MOST))
def test_rows_are_looked_up_in_bytes(target: str, scheme: str, tmp_path: Path) -> None:
    need_node()
    write_runtime_once(tmp_path / "edgec-runtime")
    program = export(lambda ids: jnp.take(jnp.asarray(TABLE), ids, axis=0), (IDS,))
    path = tmp_path / "table.vmfb"
    compile(quantise(program, Scheme.parse(scheme)).program, target, CompileOptions(output=path))
    assert path.stat().st_size < TABLE.nbytes * 0.28 + 40_000
    found = np.array(run_node(CALL, tmp_path, ids=IDS[::-1].tolist())).reshape(6, 64)
    off = np.sqrt(np.square(found - TABLE[IDS[::-1]]).mean())
    assert MOST[scheme] / 20 < off < MOST[scheme]
