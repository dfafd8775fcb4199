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
