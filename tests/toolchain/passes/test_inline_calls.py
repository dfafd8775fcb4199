"""Calls inlined: before and after."""

from iree.compiler import ir

from edgec.toolchain.passes.simplify.inline_calls import InlineCalls

BEFORE = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @twice(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = call @twice(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func private @twice(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %x, %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""


def test_calls_become_what_they_call():
    with ir.Context():
        module = ir.Module.parse(BEFORE)
        assert InlineCalls().run(module) == 2
        module.operation.verify()
        after = str(module)
    assert "call @" not in after
    assert after.count("stablehlo.add") == 2
    assert "@twice" not in after


def test_a_composite_that_is_an_operation_becomes_it():
    text = """
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = stablehlo.composite "chlo.erf" %x {decomposition = @erf, version = 1 : i32}
        : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }
    func.func private @erf(%x: tensor<4xf32>) -> tensor<4xf32> {
      return %x : tensor<4xf32>
    }
    """
    with ir.Context():
        module = ir.Module.parse(text)
        assert InlineCalls().run(module) == 1
        module.operation.verify()
        assert "chlo.erf %arg0" in str(module)
        assert "composite" not in str(module)
        assert "@erf" not in str(module)
