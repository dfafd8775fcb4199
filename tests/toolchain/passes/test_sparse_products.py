"""Products by weights with zeros: one dispatch where these are many, and NumPy's answers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from iree.compiler import ir

from edgec.exporters import Bundle, Entry, export
from edgec.runtime import load
from edgec.toolchain import compile_with_report
from edgec.toolchain.kernels.cpu.source import VectorUnit
from edgec.toolchain.passes.place.sparse_products import SparseProducts
from edgec.toolchain.passes.simplify.canonicalise import Canonicalise
from edgec.toolchain.passes.simplify.fold_constants import FoldConstants
from edgec.toolchain.stablehlo import parse_stablehlo

AVX512 = VectorUnit(lanes=16, registers=32, broadcasts=True)
RANDOM = np.random.default_rng(0)


def weights(k: int, n: int, kept: float) -> np.ndarray:
    dense = RANDOM.standard_normal((k, n))
    return (dense * (RANDOM.random((k, n)) < kept)).astype(np.float32)


FEW = weights(150, 131, 0.1)
FEW[:, 5] = 0  # an output that is nothing but zero
ROWS = (1, 3, 20, 130)


def rewritten(function, x) -> tuple[str, int]:
    with ir.Context() as context:
        module = parse_stablehlo(export(function, (x,)).bytecode, context)
        Canonicalise().run(module)
        FoldConstants().run(module)
        count = SparseProducts(unit=AVX512).run(module)
        module.operation.verify()
        text = str(module)
        return text[text.index("func.func public @main") :], count


@pytest.mark.parametrize(
    "function", [lambda x: x @ FEW, lambda x: FEW.T @ x.T, lambda x: jnp.tanh(x @ FEW + 1)]
)
def test_a_product_by_few_numbers_is_one_dispatch(function):
    after, count = rewritten(function, np.ones((20, 150), np.float32))
    assert count == 1
    assert "stablehlo.dot_general" not in after
    assert "flow.dispatch" in after


@pytest.mark.parametrize(("kept", "rows"), [(0.5, 64), (0.2, 2)])
def test_denser_weights_are_left_to_other_kernels(kept, rows):
    matrix = weights(150, 131, kept)
    after, count = rewritten(lambda x: x @ matrix, np.ones((rows, 150), np.float32))
    assert count == 0
    assert "stablehlo.dot_general" in after


def test_answers_are_numpys_for_any_number_of_rows():
    entries = [
        Entry(lambda x: x @ FEW, (np.ones((rows, 150), np.float32),), name=f"right{rows}")
        for rows in ROWS
    ]
    entries.append(Entry(lambda x: FEW.T @ x, (np.ones((150, 20), np.float32),), name="left"))
    entries.append(
        Entry(
            lambda x: jax.nn.relu(jnp.einsum("bik,kn->bin", x, FEW)),
            (np.ones((2, 9, 150), np.float32),),
            name="batch",
        )
    )
    made = compile_with_report(export(Bundle(tuple(entries))), "cpu")
    assert made.report.check.startswith("checked")
    with load(made.module.path) as loaded:
        for rows in ROWS:
            x = RANDOM.standard_normal((rows, 150)).astype(np.float32)
            found = getattr(loaded, f"right{rows}")(x)
            np.testing.assert_allclose(found, x @ FEW, rtol=1e-4, atol=1e-4)
        x = RANDOM.standard_normal((150, 20)).astype(np.float32)
        np.testing.assert_allclose(loaded.left(x), FEW.T @ x, rtol=1e-4, atol=1e-4)
        x = RANDOM.standard_normal((2, 9, 150)).astype(np.float32)
        np.testing.assert_allclose(loaded.batch(x), np.maximum(x @ FEW, 0), rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_a_matrix_of_a_single_number_gives_its_column():
    zeros = np.zeros((150, 131), np.float32)
    zeros[3, 4] = 1
    made = compile_with_report(
        export(lambda x: x @ zeros, (np.ones((20, 150), np.float32),)), "cpu"
    )
    x = RANDOM.standard_normal((20, 150)).astype(np.float32)
    with load(made.module.path) as loaded:
        np.testing.assert_allclose(loaded.main(x), x @ zeros)
