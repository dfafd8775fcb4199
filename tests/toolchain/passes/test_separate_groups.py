"""Grouped convolutions become one for each group, and are right on Vulkan."""

from pathlib import Path

import numpy as np
import pytest

from edgec import runtime, toolchain
from edgec.toolchain.passes.legalise.separate_groups import SeparateGroups
from tests.toolchain.passes.before_after import rewrite


def convolution(groups: int, inner: int) -> str:
    return f"""
func.func @main(%x: tensor<1x6x6x4xf32>, %w: tensor<3x3x{inner}x8xf32>) -> tensor<1x4x4x8xf32> {{
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
    window = {{}} {{batch_group_count = 1 : i64, feature_group_count = {groups} : i64}}
    : (tensor<1x6x6x4xf32>, tensor<3x3x{inner}x8xf32>) -> tensor<1x4x4x8xf32>
  return %0 : tensor<1x4x4x8xf32>
}}"""


def test_two_groups_are_two_convolutions() -> None:
    count, after = rewrite(SeparateGroups(), convolution(2, 2))
    assert count == 1
    assert after.count("stablehlo.convolution") == 2
    assert "-> tensor<1x4x4x4xf32>" in after


@pytest.mark.parametrize(("groups", "inner"), [(1, 4), (4, 1)], ids=["whole", "depthwise"])
def test_others_are_left_alone(groups: int, inner: int) -> None:
    assert rewrite(SeparateGroups(), convolution(groups, inner))[0] == 0


@pytest.mark.vulkan
def test_two_groups_are_right_on_vulkan(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((1, 6, 6, 4), (3, 3, 2, 8)))
    (tmp_path / "case.mlir").write_text(convolution(2, 2))
    module = toolchain.compile(tmp_path / "case.mlir", "vulkan")
    windows = np.lib.stride_tricks.sliding_window_view(x[0], (3, 3), axis=(0, 1))
    halves = [
        np.einsum("hwcij,ijco->hwo", windows[:, :, 2 * g : 2 * g + 2], w[..., 4 * g : 4 * g + 4])
        for g in (0, 1)
    ]
    with runtime.load(module) as loaded:
        actual = loaded.main(x, w)
    np.testing.assert_allclose(actual[0], np.concatenate(halves, 2), rtol=1e-4, atol=1e-4)
