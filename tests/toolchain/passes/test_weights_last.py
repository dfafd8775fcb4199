"""Products with weights on the left: before and after, and against NumPy."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from iree.compiler import ir

from edgec.exporters import export
from edgec.runtime import load
from edgec.toolchain import CompileOptions, compile, run_passes
from edgec.toolchain.passes.simplify.weights_last import WeightsLast

BEFORE = """
func.func @main(%x: tensor<7x2x4xf32>) -> (tensor<7x2x5xf32>, tensor<5x7x2xf32>) {
  %w = stablehlo.constant dense<0.5> : tensor<5x4xf32>
  %0 = stablehlo.dot_general %w, %x, contracting_dims = [1] x [2]
    : (tensor<5x4xf32>, tensor<7x2x4xf32>) -> tensor<5x7x2xf32>
  %1 = stablehlo.transpose %0, dims = [1, 2, 0] : (tensor<5x7x2xf32>) -> tensor<7x2x5xf32>
  return %1, %0 : tensor<7x2x5xf32>, tensor<5x7x2xf32>
}
"""


def rewritten(text: str) -> tuple[str, int]:
    with ir.Context():
        module = ir.Module.parse(text)
        count = WeightsLast().run(module)
        module.operation.verify()
        return str(module), count


def test_sides_are_exchanged_and_the_transpose_behind_them_is_gone() -> None:
    after, count = rewritten(BEFORE)
    assert count == 1
    assert "stablehlo.dot_general %arg0, %cst, contracting_dims = [2] x [1]" in after
    assert after.count("stablehlo.transpose") == 1
    assert "dims = [2, 0, 1]" in after  # for the one who wants the old order


def test_what_is_computed_on_both_sides_stays() -> None:
    lines = [line for line in BEFORE.splitlines() if "constant" not in line]
    text = "\n".join(lines).replace("(%x: ", "(%w: tensor<5x4xf32>, %x: ")
    assert rewritten(text)[1] == 0


def test_a_layer_mapped_over_rows_is_one_kernel_with_its_bias_and_activation(
    tmp_path: Path,
) -> None:
    random = np.random.default_rng(0)
    w, b = (random.standard_normal(size).astype(np.float32) for size in ((40, 24), (40,)))
    x = random.standard_normal((33, 24)).astype(np.float32)
    program = export(lambda x: jax.vmap(lambda row: jax.nn.relu(w @ row + b))(jnp.sin(x)), (x,))
    share = run_passes(program, "cpu:x86-64-v4").kernels
    assert share is not None
    assert [left.what for left in share.left] == ["sine to 33x24, f32"]
    output = tmp_path / "layer.vmfb"
    compile(program, "cpu", CompileOptions(output=output, check=False))
    with load(output) as module:
        found = np.asarray(module.main(x))
    np.testing.assert_allclose(found, np.maximum(np.sin(x) @ w.T + b, 0), 1e-5, 1e-5)
