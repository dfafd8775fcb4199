"""JAX's sparse arrays: as arguments and as weights, by indices (BCOO) and by rows (BCSR)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import sparse

from edgec.exporters import Bundle, Entry, export
from edgec.runtime import load
from edgec.runtime.errors import UnsupportedOp
from edgec.toolchain import CompileOptions, compile_with_report

RANDOM = np.random.default_rng(0)
DENSE = (RANDOM.standard_normal((24, 16)) * (RANDOM.random((24, 16)) < 0.2)).astype(np.float32)
X = RANDOM.standard_normal((16, 5)).astype(np.float32)
MATRICES = {"bcoo": sparse.BCOO.fromdense(DENSE), "bcsr": sparse.BCSR.fromdense(DENSE)}


def product(matrix, x):
    return jnp.tanh(matrix @ x)


def test_a_foreign_function_is_refused_by_name_with_how_to_give_it_code():
    def call(x):
        return jax.ffi.ffi_call("my_target", jax.ShapeDtypeStruct(x.shape, x.dtype))(x)

    with pytest.raises(UnsupportedOp, match="main calls my_target, which only XLA") as caught:
        export(call, (X,))
    assert "edgec.kernels.c(source, reference=" in caught.value.hint
    assert "test_from_jax_sparse.py" in caught.value.where


@pytest.fixture(scope="module")
def bundle():
    entries = []
    for name, matrix in MATRICES.items():
        entries.append(Entry(product, (matrix, X), name=f"{name}_given"))
        entries.append(Entry(lambda x, m=matrix: product(m, x), (X,), name=f"{name}_weight"))
    entries.append(Entry(lambda m: m.todense(), (MATRICES["bcsr"],), name="dense"))
    return Bundle(tuple(entries))


def test_the_same_program_compiles_for_cuda(tmp_path):
    options = CompileOptions(output=tmp_path / "sparse.vmfb", check=False)
    made = compile_with_report(
        export(lambda x: product(MATRICES["bcoo"], x), (X,)), "cuda:sm_90", options
    )
    assert str(made.module.signatures["main"].inputs[0]).startswith("x: f32[")
    assert made.module.facts.target == "cuda:sm_90"


@pytest.mark.parametrize(
    "target", ["cpu", pytest.param("vulkan", marks=[pytest.mark.vulkan, pytest.mark.slow])]
)
def test_products_and_dense_forms_are_numpys(bundle, target):
    made = compile_with_report(export(bundle), target)
    assert made.report.check.startswith("checked")
    with load(made.module.path, device=target) as loaded:
        for name in MATRICES:
            found = getattr(loaded, f"{name}_weight")(X)
            np.testing.assert_allclose(found, np.tanh(DENSE @ X), rtol=1e-5, atol=1e-5)
