"""The largest of each window and its place, over images whose channels are last."""

from pathlib import Path

import numpy as np

from edgec import runtime, toolchain
from edgec.toolchain.passes.legalise.spread_windows import SpreadWindows
from tests.toolchain.passes.before_after import rewrite

LARGEST = """
func.func @main(%y: tensor<1x3x5x6xf32>, %m: tensor<1x3x5x6xi32>)
    -> (tensor<1x3x3x3xf32>, tensor<1x3x3x3xi32>) {
  %x = stablehlo.transpose %y, dims = [0, 2, 3, 1] : (tensor<1x3x5x6xf32>) -> tensor<1x5x6x3xf32>
  %n = stablehlo.transpose %m, dims = [0, 2, 3, 1] : (tensor<1x3x5x6xi32>) -> tensor<1x5x6x3xi32>
  %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %none = stablehlo.constant dense<-1> : tensor<i32>
  %0:2 = "stablehlo.reduce_window"(%x, %n, %least, %none) <{
      window_dimensions = array<i64: 1, 2, 3, 1>, window_strides = array<i64: 1, 2, 2, 1>,
      window_dilations = array<i64: 1, 2, 1, 1>,
      padding = dense<[[0, 0], [1, 1], [1, 0], [0, 0]]> : tensor<4x2xi64>}> ({
    ^bb0(%a: tensor<f32>, %i: tensor<i32>, %b: tensor<f32>, %j: tensor<i32>):
      %1 = stablehlo.compare GE, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %2 = stablehlo.select %1, %a, %b : tensor<i1>, tensor<f32>
      %3 = stablehlo.select %1, %i, %j : tensor<i1>, tensor<i32>
      stablehlo.return %2, %3 : tensor<f32>, tensor<i32>
    }) : (tensor<1x5x6x3xf32>, tensor<1x5x6x3xi32>, tensor<f32>, tensor<i32>)
      -> (tensor<1x3x3x3xf32>, tensor<1x3x3x3xi32>)
  %4 = stablehlo.transpose %0#0, dims = [0, 3, 1, 2] : (tensor<1x3x3x3xf32>) -> tensor<1x3x3x3xf32>
  %5 = stablehlo.transpose %0#1, dims = [0, 3, 1, 2] : (tensor<1x3x3x3xi32>) -> tensor<1x3x3x3xi32>
  return %4, %5 : tensor<1x3x3x3xf32>, tensor<1x3x3x3xi32>
}"""


def test_it_becomes_a_slice_a_place() -> None:
    count, after = rewrite(SpreadWindows(), LARGEST)
    assert count == 1
    assert "reduce_window" not in after
    assert after.count("stablehlo.slice") == 2 * 6


def test_windows_of_one_value_stay() -> None:
    text = """
func.func @main(%x: tensor<4x6xf32>) -> tensor<3x6xf32> {
  %i = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "stablehlo.reduce_window"(%x, %i) <{window_dimensions = array<i64: 2, 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %1 = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %1 : tensor<f32>
    }) : (tensor<4x6xf32>, tensor<f32>) -> tensor<3x6xf32>
  return %0 : tensor<3x6xf32>
}"""
    assert rewrite(SpreadWindows(), text)[0] == 0


def test_values_and_places_are_right(tmp_path: Path) -> None:
    x = np.random.default_rng(2).permutation(90).reshape(1, 3, 5, 6).astype(np.float32)
    numbers = np.arange(90, dtype=np.int32).reshape(x.shape)
    (tmp_path / "case.mlir").write_text(LARGEST)
    with runtime.load(toolchain.compile(tmp_path / "case.mlir", "cpu")) as loaded:
        values, places = loaded.main(x, numbers)
    wide = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 0)), constant_values=-np.inf)
    for i, j in np.ndindex(3, 3):
        window = wide[0, :, 2 * i : 2 * i + 3 : 2, 2 * j : 2 * j + 3]
        np.testing.assert_array_equal(values[0, :, i, j], window.max((1, 2)))
    np.testing.assert_array_equal(x.reshape(-1)[places], values)
