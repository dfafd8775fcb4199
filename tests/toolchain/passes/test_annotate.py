from iree.compiler import ir

from edgec.runtime.dtypes import DType
from edgec.runtime.signature import Signature, TensorSpec
from edgec.toolchain.passes import Annotate

BEFORE = """
func.func private @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }
func.func public @helper(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }
func.func public @edgec_get_state() -> tensor<f32> {
  %0 = stablehlo.constant dense<1.0> : tensor<f32>
  return %0 : tensor<f32>
}
"""


def test_signatures_become_reflection_and_only_they_stay_public():
    spec = TensorSpec(name="x", shape=(), dtype=DType.F32)
    signature = Signature.flat("main", [spec], [spec])
    module = ir.Module.parse(BEFORE, ir.Context())
    Annotate(
        signatures=(signature,), facts={"target": "cpu:host"}, internal=("edgec_get_state",)
    ).run(module)
    assert module.operation.verify()
    functions = {op.name.value: op for op in module.body.operations}
    assert "sym_visibility" not in functions["main"].attributes
    assert functions["helper"].attributes["sym_visibility"].value == "private"
    assert "sym_visibility" not in functions["edgec_get_state"].attributes
    assert "iree.reflection" not in functions["helper"].attributes
    reflection = functions["main"].attributes["iree.reflection"]
    text = {entry.name: entry.attr.value for entry in reflection}
    assert text["edgec.module"] == '{"target": "cpu:host"}'
    assert text["edgec.check"] == "unchecked".ljust(64)
    assert '"name": "main"' in text["edgec.signature"]
