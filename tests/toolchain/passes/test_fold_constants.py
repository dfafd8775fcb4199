"""What follows from constants alone is worked out before anything is recognised."""

import re

import numpy as np
import pytest
from iree.compiler import ir

from edgec.toolchain.passes.simplify.fold_constants import FoldConstants

BEFORE = """func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %nothing = stablehlo.constant dense<0.0> : tensor<f32>
  %nan = stablehlo.constant dense<0x7FC00000> : tensor<4xf32>
  %count = stablehlo.constant dense<24.0> : tensor<f32>
  %0 = stablehlo.convert %zero : (tensor<i32>) -> tensor<f32>
  %1 = stablehlo.subtract %count, %0 : tensor<f32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %3 = stablehlo.divide %x, %2 : tensor<4xf32>
  %4 = stablehlo.compare GT, %1, %nothing, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %5 = stablehlo.select %4, %3, %nan : tensor<i1>, tensor<4xf32>
  return %5 : tensor<4xf32>
}
"""
AFTER = """module {
  func.func @main(%arg0: tensor<4xf32>, %arg1: tensor<4xf32>) -> tensor<4xf32> {
    %cst = stablehlo.constant dense<2.400000e+01> : tensor<4xf32>
    %0 = stablehlo.divide %arg0, %cst : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
"""
ROUNDED = """func.func @main() -> tensor<2x3xi32> {
  %0 = stablehlo.iota dim = 1 : tensor<2x3xf32>
  %1 = stablehlo.constant dense<0.6> : tensor<2x3xf32>
  %2 = stablehlo.multiply %0, %1 : tensor<2x3xf32>
  %3 = stablehlo.convert %2 : (tensor<2x3xf32>) -> tensor<2x3xi32>
  return %3 : tensor<2x3xi32>
}
"""


def folded(text: str) -> tuple[str, int]:
    with ir.Context():
        module = ir.Module.parse(text)
        count = FoldConstants().run(module)
        module.operation.verify()
        return str(module), count


def test_numbers_that_were_left_to_be_worked_out_are() -> None:
    after, count = folded(BEFORE)
    assert (after, count) == (AFTER, 5)


def test_what_is_rounded_is_written_along_the_axis_that_it_changes_along() -> None:
    after, count = folded(ROUNDED)
    numbers = np.trunc(np.arange(3, dtype=np.float32) * np.float32(0.6)).astype(int)
    assert count == 1
    assert f"dense<[[{', '.join(map(str, numbers))}]]> : tensor<1x3xi32>" in after
    assert "stablehlo.multiply" not in after


@pytest.mark.parametrize("kept", ["stablehlo.iota dim = 0 : tensor<8xf32>", "stablehlo.add %x, %x"])
def test_what_is_no_single_number_stays(kept: str) -> None:
    kind = "" if "iota" in kept else " : tensor<8xf32>"
    text = f"""func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {{
      %0 = {kept}{kind}
      %1 = stablehlo.constant dense<2.0> : tensor<8xf32>
      %2 = stablehlo.multiply %0, %1 : tensor<8xf32>
      return %2 : tensor<8xf32>
    }}"""
    assert folded(text)[1] == 0


MATRIX = """func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.iota dim = 1 : tensor<3x3xf32>
  %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<3x3xf32>, tensor<f32>) -> tensor<3xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<3xf32>) -> tensor<3x3xf32>
  %3 = stablehlo.divide %0, %2 : tensor<3x3xf32>
  %4 = stablehlo.dot_general %x, %3, contracting_dims = [1] x [0]
    : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
  return %4 : tensor<2x3xf32>
}
"""


def test_weights_that_follow_from_sizes_are_written_as_numbers() -> None:
    after, _ = folded(MATRIX)
    row = "[0.000000e+00, 0.333333343, 0.666666686]"
    assert f"dense<[{row}, {row}, {row}]> : tensor<3x3xf32>" in after
    assert "stablehlo.reduce" not in after
    assert "stablehlo.divide" not in after


WINDOWS = """func.func @main() -> tensor<1x2x2x3xf32> {
  %one = stablehlo.constant dense<1.0> : tensor<1x5x5x3xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "stablehlo.reduce_window"(%one, %zero) <{
    window_dimensions = array<i64: 1, 3, 3, 1>, window_strides = array<i64: 1, 3, 3, 1>,
    padding = dense<[[0, 0], [0, 1], [1, 0], [0, 0]]> : tensor<4x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %sum = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %sum : tensor<f32>
  }) : (tensor<1x5x5x3xf32>, tensor<f32>) -> tensor<1x2x2x3xf32>
  return %0 : tensor<1x2x2x3xf32>
}
"""


def test_how_many_pixels_a_mean_is_over_is_written_down() -> None:
    """The compiler gives wrong sums of constants inside a loop."""
    after, count = folded(WINDOWS)
    assert count == 1
    assert "reduce_window" not in after
    rows = np.array([3, 2])  # of five and a border below, three at a time
    columns = np.array([2, 3])  # of a border on the left and five
    numbers = [float(n) for n in re.findall(r"(\d\.\d+e[+-]\d+)", after)]
    assert numbers == list(np.outer(rows, columns).ravel())


def test_a_root_that_an_image_is_multiplied_with_is_one_number() -> None:
    """PyTorch writes GELU's as `rsqrt` of 2; turned with the image, no kernel saw what it is."""
    after, count = folded("""func.func @main(%x: tensor<1x4x5x6xf32>) -> tensor<1x4x5x6xf32> {
      %two = stablehlo.constant dense<2.0> : tensor<1x4x5x6xf32>
      %root = stablehlo.rsqrt %two : tensor<1x4x5x6xf32>
      %0 = stablehlo.multiply %x, %root : tensor<1x4x5x6xf32>
      return %0 : tensor<1x4x5x6xf32>
    }""")
    assert count == 1
    assert "rsqrt" not in after
    (number,) = re.findall(r"dense<(\S+)>", after)
    assert np.float32(number) == np.float32(np.sqrt(0.5))
