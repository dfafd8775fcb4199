"""Sums of halves are kept in f32, with what divides them, and rounded once."""

import numpy as np
import pytest
from iree.compiler import ir

from edgec import runtime, toolchain
from edgec.toolchain.passes.legalise.wide_sums import WideSums

MEAN = """
func.func @main(%x: tensor<4x56x56xf16>) -> tensor<4x1x1xf16> {
  %zero = stablehlo.constant dense<0.0> : tensor<f16>
  %count = stablehlo.constant dense<3136.0> : tensor<4x1x1xf16>
  %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1, 2]
    : (tensor<4x56x56xf16>, tensor<f16>) -> tensor<4xf16>
  %1 = stablehlo.reshape %0 : (tensor<4xf16>) -> tensor<4x1x1xf16>
  %2 = stablehlo.divide %1, %count : tensor<4x1x1xf16>
  return %2 : tensor<4x1x1xf16>
}"""


def widened(text: str) -> tuple[int, str]:
    with ir.Context():
        module = ir.Module.parse(text)
        count = WideSums().run(module)
        assert module.operation.verify()
        return count, str(module)


def test_a_sum_and_its_division_are_in_f32_and_rounded_once() -> None:
    count, after = widened(MEAN)
    assert count == 1
    assert "applies stablehlo.add across dimensions = [1, 2] : (tensor<4x56x56xf32>" in after
    assert "stablehlo.divide" in after
    (rounding,) = [line for line in after.splitlines() if "f32>) -> tensor<4x1x1xf16>" in line]
    assert "stablehlo.convert" in rounding


def test_a_sum_that_is_used_twice_is_rounded_before_its_uses() -> None:
    twice = MEAN.replace("stablehlo.divide %1, %count", "stablehlo.multiply %1, %1")
    count, after = widened(twice)
    assert count == 1
    assert "stablehlo.multiply %3, %3 : tensor<4x1x1xf16>" in after.replace("%4", "%3")


def test_windows_are_widened_too() -> None:
    pooled = """
func.func @main(%x: tensor<1x8x8xbf16>) -> tensor<1x4x4xbf16> {
  %zero = stablehlo.constant dense<0.0> : tensor<bf16>
  %0 = "stablehlo.reduce_window"(%x, %zero) <{window_dimensions = array<i64: 1, 2, 2>,
      window_strides = array<i64: 1, 2, 2>}> ({
  ^bb0(%a: tensor<bf16>, %b: tensor<bf16>):
    %1 = stablehlo.add %a, %b : tensor<bf16>
    stablehlo.return %1 : tensor<bf16>
  }) : (tensor<1x8x8xbf16>, tensor<bf16>) -> tensor<1x4x4xbf16>
  return %0 : tensor<1x4x4xbf16>
}"""
    count, after = widened(pooled)
    assert count == 1
    assert "stablehlo.add %arg1, %arg2 : tensor<f32>" in after


@pytest.mark.parametrize(("old", "new"), [("f16", "f32"), ("stablehlo.add", "stablehlo.maximum")])
def test_other_reductions_stay(old: str, new: str) -> None:
    assert widened(MEAN.replace(old, new))[0] == 0


def test_it_is_for_gpus(tmp_path) -> None:
    source = tmp_path / "mean.mlir"
    source.write_text(MEAN)
    for target, changes in (("vulkan", 1), ("cuda", 1), ("cpu", None)):
        assert toolchain.run_passes(source, target).changes.get("wide-sums") == changes


@pytest.mark.vulkan
def test_the_mean_of_many_pixels_is_as_good_as_its_rounding(tmp_path) -> None:
    x = np.random.default_rng(0).uniform(0, 20, (4, 56, 56)).astype(np.float16)
    exact = x.astype(np.float64).mean((1, 2))
    source = tmp_path / "mean.mlir"
    source.write_text(MEAN)
    options = toolchain.CompileOptions(output=tmp_path / "mean.vmfb", check=False)
    module = toolchain.compile(source, "vulkan", options)
    with runtime.load(module, device="vulkan") as loaded:
        answer = np.asarray(loaded.main(x)).reshape(-1).astype(np.float64)
    assert np.abs(answer / exact - 1).max() < 5e-4
