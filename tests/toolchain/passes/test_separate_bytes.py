"""Bytes are widened apart from the products that use them, and then are right on Vulkan."""

import re

import numpy as np
import pytest

from edgec import runtime, toolchain
from edgec.toolchain.passes.legalise.separate_bytes import SeparateBytes
from tests.toolchain.passes.before_after import rewrite

PRODUCT = """
func.func @main(%x: tensor<4x32xi8>, %w: tensor<32x16xi8>) -> tensor<4x16xi32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<4x32xi8>, tensor<32x16xi8>) -> tensor<4x16xi32>
  return %0 : tensor<4x16xi32>
}"""

SCALED = """
func.func @main(%x: tensor<4x32xui8>, %w: tensor<32x16xf32>) -> tensor<4x16xf32> {
  %s = stablehlo.constant dense<0.0625> : tensor<4x32xf32>
  %0 = stablehlo.convert %x : (tensor<4x32xui8>) -> tensor<4x32xf32>
  %1 = stablehlo.multiply %0, %s : tensor<4x32xf32>
  %2 = stablehlo.dot_general %1, %w, contracting_dims = [1] x [0]
    : (tensor<4x32xf32>, tensor<32x16xf32>) -> tensor<4x16xf32>
  return %2 : tensor<4x16xf32>
}"""

CONVOLUTION = """
func.func @main(%x: tensor<1x8x8x4xi8>, %w: tensor<3x3x4x8xi8>) -> tensor<1x6x6x8xi8> {
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
    window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x8x8x4xi8>, tensor<3x3x4x8xi8>) -> tensor<1x6x6x8xi8>
  return %0 : tensor<1x6x6x8xi8>
}"""


def signed(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).integers(-127, 128, shape).astype(np.int8)


def test_a_product_of_bytes_becomes_one_of_wide_integers_behind_barriers() -> None:
    count, after = rewrite(SeparateBytes(), PRODUCT)
    assert count == 4
    assert after.count("iree_tensor_ext.compute_barrier.start") == 2
    assert "(tensor<4x32xi32>, tensor<32x16xi32>) -> tensor<4x16xi32>" in after
    assert "@main(%arg0: tensor<4x32xi8>, %arg1: tensor<32x16xi8>) -> tensor<4x16xi32>" in after


def test_a_conversion_on_the_way_to_a_product_gets_a_barrier() -> None:
    count, after = rewrite(SeparateBytes(), SCALED)
    assert count == 1
    lines = [line.split(" = ")[1].split(" ")[0] for line in after.splitlines() if " = " in line]
    assert (
        lines.index("iree_tensor_ext.compute_barrier.start") == lines.index("stablehlo.convert") + 1
    )


def test_a_sum_of_bytes_stays_one() -> None:
    _, after = rewrite(SeparateBytes(), CONVOLUTION)
    assert "-> tensor<1x6x6x8xi32>" in after
    assert "(tensor<1x6x6x8xi32>) -> tensor<1x6x6x8xi8>" in after


def test_a_barrier_keeps_sizes_that_are_known_in_the_call_only() -> None:
    text = SCALED.replace("4x32", "?x32").replace("4x16", "?x16")
    text = re.sub(r"  %s = .*\n", "", text).replace("%0, %s", "%0, %0")
    _, after = rewrite(SeparateBytes(), text)
    assert re.search(r"tensor.dim %\d+, %c0", after)
    assert re.search(r"compute_barrier.start %\d+ : tensor<\?x32xf32>\{%dim", after)


def test_conversions_that_meet_no_product_are_left_alone() -> None:
    count, _ = rewrite(
        SeparateBytes(),
        """
    func.func @main(%x: tensor<8xi8>, %a: tensor<2x2xf32>) -> (tensor<8xf32>, tensor<2x2xf32>) {
      %0 = stablehlo.convert %x : (tensor<8xi8>) -> tensor<8xf32>
      %1 = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0]
        : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
      return %0, %1 : tensor<8xf32>, tensor<2x2xf32>
    }""",
    )
    assert count == 0


def test_a_product_in_another_function_counts() -> None:
    count, _ = rewrite(
        SeparateBytes(),
        """
    func.func @main(%x: tensor<4x4xui8>) -> tensor<4x4xf32> {
      %0 = stablehlo.convert %x : (tensor<4x4xui8>) -> tensor<4x4xf32>
      %1 = func.call @square(%0) : (tensor<4x4xf32>) -> tensor<4x4xf32>
      return %1 : tensor<4x4xf32>
    }
    func.func private @square(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
      %0 = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0]
        : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      return %0 : tensor<4x4xf32>
    }""",
    )
    assert count == 1


@pytest.mark.vulkan
@pytest.mark.parametrize(
    ("text", "inputs", "expected"),
    [
        (
            PRODUCT,
            (signed(4, 32), signed(32, 16)),
            signed(4, 32).astype(np.int32) @ signed(32, 16).astype(np.int32),
        ),
        (
            SCALED,
            (signed(4, 32).view(np.uint8), signed(32, 16).astype(np.float32)),
            signed(4, 32).view(np.uint8).astype(np.float32) / 16 @ signed(32, 16),
        ),
    ],
    ids=["bytes", "scaled bytes"],
)
def test_the_answers_are_right_on_vulkan(text, inputs, expected, tmp_path) -> None:
    (tmp_path / "case.mlir").write_text(text)
    module = toolchain.compile(tmp_path / "case.mlir", "vulkan")
    with runtime.load(module) as loaded:
        np.testing.assert_allclose(loaded.main(*inputs), expected, rtol=1e-5)
