"""Pointwise convolutions as products: before and after, and against JAX on Vulkan."""

import jax
import numpy as np
import pytest
from iree.compiler import ir

from edgec.exporters import export
from edgec.runtime import load
from edgec.toolchain import CompileOptions, compile, run_passes
from edgec.toolchain.passes.simplify.pointwise_products import PointwiseProducts

BEFORE = """
func.func @main(%x: tensor<2x8x6x3xf32>, %w: tensor<1x1x3x5xf32>) -> tensor<2x4x3x5xf32> {
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
    window = {stride = [2, 2]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<2x8x6x3xf32>, tensor<1x1x3x5xf32>) -> tensor<2x4x3x5xf32>
  return %0 : tensor<2x4x3x5xf32>
}
"""


def rewritten(text: str) -> tuple[str, int]:
    with ir.Context():
        module = ir.Module.parse(text)
        count = PointwiseProducts().run(module)
        module.operation.verify()
        return str(module), count


def test_a_stride_becomes_a_slice_before_the_product():
    after, count = rewritten(BEFORE)
    assert count == 1
    assert "stablehlo.convolution" not in after
    assert "stablehlo.slice %arg0 [0:2, 0:8:2, 0:6:2, 0:3]" in after
    assert "(tensor<24x3xf32>, tensor<3x5xf32>) -> tensor<24x5xf32>" in after


WINDOW = BEFORE.replace("1x1x3x5xf32", "2x2x3x5xf32")
PADDED = BEFORE.replace("stride = [2, 2]", "stride = [2, 2], pad = [[1, 0], [0, 1]]")
PADDED = PADDED.replace("2x4x3x5xf32", "2x5x4x5xf32")
GROUPS = BEFORE.replace("feature_group_count = 1", "feature_group_count = 3").replace("3x5", "1x5")
GROUPS = (
    GROUPS.replace("1x5xf32", "1x6xf32").replace("x3x5xf32", "x3x6xf32").replace("4x1x6", "4x3x6")
)


@pytest.mark.parametrize("text", [WINDOW, PADDED, GROUPS], ids=["window", "padded", "groups"])
def test_other_convolutions_stay(text):
    assert rewritten(text)[1] == 0


def test_a_bottleneck_answers_as_jax_does_on_vulkan(tmp_path):
    numbers = np.random.default_rng(0)
    shapes = [(1, 1, 12, 8), (3, 3, 8, 8), (1, 1, 8, 20)]
    kernels = [numbers.standard_normal(s).astype(np.float32) / 3 for s in shapes]

    def bottleneck(x):
        for kernel, stride in zip(kernels, (1, 1, 2), strict=True):
            x = jax.nn.relu(
                jax.lax.conv_general_dilated(
                    x, kernel, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
                )
            )
        return x

    x = numbers.standard_normal((2, 9, 8, 12)).astype(np.float32)
    program = export(bottleneck, (x,))
    assert run_passes(program, "vulkan").changes["pointwise-products"] == 2
    assert "pointwise-products" not in run_passes(program, "cpu").changes
    module = compile(program, "vulkan", CompileOptions(cache=False, output=tmp_path / "m.vmfb"))
    with load(module) as loaded:
        np.testing.assert_allclose(np.asarray(loaded.main(x)), bottleneck(x), 1e-4, 1e-4)
