"""Programs made plain before anything is recognised in them."""

from iree.compiler import ir

from edgec.toolchain.passes.simplify.canonicalise import Canonicalise

BEFORE = """func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %zeros = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<4x4xf32>
  %0 = stablehlo.maximum %x, %zeros : tensor<4x4xf32>
  %1 = stablehlo.maximum %x, %zeros : tensor<4x4xf32>
  %2 = stablehlo.reshape %1 : (tensor<4x4xf32>) -> tensor<16xf32>
  %3 = stablehlo.reshape %2 : (tensor<16xf32>) -> tensor<4x4xf32>
  %4 = stablehlo.convert %3 : tensor<4x4xf32>
  %p = stablehlo.pad %4, %zero, low = [0, 0], high = [0, 0], interior = [0, 0]
    : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %5 = stablehlo.add %p, %0 : tensor<4x4xf32>
  return %5 : tensor<4x4xf32>
}
"""
AFTER = """module {
  func.func @main(%arg0: tensor<4x4xf32>) -> tensor<4x4xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<4x4xf32>
    %0 = stablehlo.maximum %arg0, %cst : tensor<4x4xf32>
    %1 = stablehlo.add %0, %0 : tensor<4x4xf32>
    return %1 : tensor<4x4xf32>
  }
}
"""


def test_repeated_work_and_changes_that_change_nothing_are_taken_out() -> None:
    with ir.Context():
        module = ir.Module.parse(BEFORE)
        assert Canonicalise().run(module) == 6
        assert str(module) == AFTER


def test_a_plain_program_stays_as_it_is() -> None:
    with ir.Context():
        module = ir.Module.parse(AFTER)
        assert Canonicalise().run(module) == 0
        assert str(module) == AFTER
