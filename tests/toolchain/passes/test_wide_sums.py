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


PRODUCT = """
func.func @main(%x: tensor<8x1024xf16>, %y: tensor<1024x8xf16>) -> tensor<8x8xf16> {
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]
    : (tensor<8x1024xf16>, tensor<1024x8xf16>) -> tensor<8x8xf16>
  return %0 : tensor<8x8xf16>
}"""


def depthwise(groups: int) -> str:
    inner = 16 // groups
    x, w, y = "tensor<1x9x9x16xf16>", f"tensor<3x3x{inner}x16xf16>", "tensor<1x7x7x16xf16>"
    return f"""
func.func @main(%x: {x}, %w: {w}) -> {y} {{
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
    window = {{}} {{batch_group_count = 1 : i64, feature_group_count = {groups} : i64}}
    : ({x}, {w}) -> {y}
  return %0 : {y}
}}"""


def test_what_is_left_of_products_is_summed_in_f32() -> None:
    for text, kind in ((PRODUCT, "8x8"), (depthwise(1), "1x7x7x16")):
        count, after = widened(text)
        assert count == 1
        assert f"-> tensor<{kind}xf32>" in after
        assert f"(tensor<{kind}xf32>) -> tensor<{kind}xf16>" in after
        assert widened(after)[0] == 0


@pytest.mark.parametrize("target", ["vulkan", "cuda", "cuda:sm_70", "cpu"])
def test_it_is_for_every_target_without_better(target: str, tmp_path) -> None:
    source = tmp_path / "mean.mlir"
    source.write_text(MEAN)
    assert toolchain.run_passes(source, target).changes["wide-sums"] == 1


@pytest.mark.sweep(fast=3)
@pytest.mark.parametrize("target", ["vulkan", "vulkan:adreno", "cuda"])
@pytest.mark.parametrize("groups", [1, 4, 16])
def test_the_compiler_takes_convolutions_of_halves_summed_in_f32(
    target: str, groups: int, tmp_path
) -> None:
    source = tmp_path / "convolution.mlir"
    source.write_text(depthwise(groups))
    options = toolchain.CompileOptions(output=tmp_path / "m.vmfb", check=False)
    toolchain.compile(source, target, options)


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


@pytest.mark.vulkan
def test_a_product_of_many_halves_is_as_good_as_its_rounding(tmp_path) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.uniform(0, 1, shape).astype(np.float16) for shape in ((8, 1024), (1024, 8)))
    source = tmp_path / "product.mlir"
    source.write_text(PRODUCT)
    options = toolchain.CompileOptions(output=tmp_path / "product.vmfb", check=False)
    with runtime.load(toolchain.compile(source, "vulkan", options), device="vulkan") as loaded:
        answer = np.asarray(loaded.main(x, y)).astype(np.float64)
    exact = x.astype(np.float64) @ y.astype(np.float64)
    assert np.abs(answer / exact - 1).max() < 6e-4
