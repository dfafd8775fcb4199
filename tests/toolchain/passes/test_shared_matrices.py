"""Products by a repeated matrix: before and after, and against NumPy."""

import numpy as np
import pytest
from iree.compiler import ir

from edgec.runtime import load
from edgec.toolchain import CompileOptions, compile
from edgec.toolchain.passes.simplify.shared_matrices import SharedMatrices

BEFORE = """
func.func @main(%x: tensor<3x2x4xf32>, %w: tensor<4x5xf32>) -> tensor<3x2x5xf32> {
  %0 = stablehlo.broadcast_in_dim %w, dims = [1, 2] : (tensor<4x5xf32>) -> tensor<3x4x5xf32>
  %1 = stablehlo.reshape %0 : (tensor<3x4x5xf32>) -> tensor<3x4x5xf32>
  %2 = stablehlo.dot_general %x, %1, batching_dims = [0] x [0], contracting_dims = [2] x [1]
    : (tensor<3x2x4xf32>, tensor<3x4x5xf32>) -> tensor<3x2x5xf32>
  return %2 : tensor<3x2x5xf32>
}
"""


def rewritten(text: str) -> tuple[str, int]:
    with ir.Context():
        module = ir.Module.parse(text)
        count = SharedMatrices().run(module)
        module.operation.verify()
        return str(module), count


def test_the_matrix_is_used_itself():
    after, count = rewritten(BEFORE)
    assert count == 1
    assert "stablehlo.dot_general %arg0, %arg1, contracting_dims = [2] x [0]" in after


def test_matrices_that_differ_stay_a_batch():
    different = BEFORE.replace(
        "dims = [1, 2] : (tensor<4x5xf32>)", "dims = [0, 1] : (tensor<3x4xf32>)"
    )
    different = different.replace("%w: tensor<4x5xf32>", "%w: tensor<3x4xf32>")
    assert rewritten(different)[1] == 0


@pytest.mark.parametrize("target", ["cpu", "vulkan"])
def test_the_answer_is_that_of_numpy(target, tmp_path):
    source = tmp_path / "p.mlir"
    source.write_text(BEFORE)
    module = compile(source, target, CompileOptions(cache=False, output=tmp_path / "m.vmfb"))
    numbers = np.random.default_rng(0)
    x = numbers.standard_normal((3, 2, 4), np.float32)
    w = numbers.standard_normal((4, 5), np.float32)
    with load(module) as loaded:
        np.testing.assert_allclose(np.asarray(loaded.main(x, w)), x @ w, 1e-5, 1e-6)
