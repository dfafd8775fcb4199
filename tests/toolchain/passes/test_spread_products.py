"""Transposed convolutions as products: before and after, against PyTorch and JAX."""

import jax
import numpy as np
import pytest
import torch
from iree.compiler import ir
from torch import nn

from edgec.exporters import export
from edgec.runtime import load
from edgec.toolchain import CompileOptions, compile, run_passes
from edgec.toolchain.passes.simplify.spread_products import SpreadProducts

BEFORE = """
func.func @main(%x: tensor<1x4x5x3xf32>, %w: tensor<2x2x3x6xf32>) -> tensor<1x8x10x6xf32> {
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
    window = {pad = [[1, 1], [1, 1]], lhs_dilate = [2, 2]}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x4x5x3xf32>, tensor<2x2x3x6xf32>) -> tensor<1x8x10x6xf32>
  return %0 : tensor<1x8x10x6xf32>
}
"""


def rewritten(text: str) -> tuple[str, int]:
    with ir.Context():
        module = ir.Module.parse(text)
        count = SpreadProducts().run(module)
        module.operation.verify()
        return str(module), count


def test_one_product_computes_every_block():
    after, count = rewritten(BEFORE)
    assert count == 1
    assert "stablehlo.convolution" not in after
    assert "(tensor<1x4x5x3xf32>, tensor<3x24xf32>) -> tensor<1x4x5x24xf32>" in after


def test_windows_that_overlap_stay():
    text = BEFORE.replace("2x2x3x6", "3x3x3x6").replace(
        "pad = [[1, 1], [1, 1]]", "pad = [[1, 2], [1, 2]]"
    )
    assert rewritten(text)[1] == 0


def answers(function, x, folder, target):
    program = export(function, (x,))
    assert run_passes(program, target).changes["spread-products"] == 1
    module = compile(program, target, CompileOptions(cache=False, output=folder / "m.vmfb"))
    with load(module) as loaded:
        return np.asarray(loaded.main(np.asarray(x)))


@pytest.mark.parametrize("target", ["cpu", "vulkan"])
def test_the_answer_is_that_of_pytorch(target, tmp_path):
    torch.manual_seed(0)
    layer, x = nn.ConvTranspose2d(5, 7, (2, 3), (2, 3)).eval(), torch.randn(2, 5, 4, 6)
    with torch.no_grad():
        answer = answers(layer, x, tmp_path, target)
        np.testing.assert_allclose(answer, layer(x).numpy(), 1e-4, 1e-5)


@pytest.mark.parametrize("flipped", [False, True])
def test_the_answer_is_that_of_jax(flipped, tmp_path):
    numbers = np.random.default_rng(0)
    shape = (2, 2, 6, 5) if flipped else (2, 2, 5, 6)
    w = numbers.standard_normal(shape).astype(np.float32)
    x = numbers.standard_normal((2, 3, 4, 5)).astype(np.float32)

    def up(x):
        return jax.lax.conv_transpose(x, w, (2, 2), "SAME", transpose_kernel=flipped)

    np.testing.assert_allclose(answers(up, x, tmp_path, "cpu"), up(x), 1e-4, 1e-5)
