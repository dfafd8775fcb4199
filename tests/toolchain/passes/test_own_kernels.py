"""Composites that hold code: dispatches where it is for the target, references elsewhere."""

import json

import pytest
from iree.compiler import ir

from edgec.runtime.errors import ProgramError
from edgec.targets import find
from edgec.toolchain.passes.place.own_kernels import OwnKernels

SOURCE = "void twice(const float *x, float *y, int group) { y[group] = 2 * x[group]; }"
C = {"language": "c", "text": SOURCE}
KERNEL = {"name": "twice", "inputs": 1, "codes": [{**C, "entry": "twice", "grid": [4, 1, 1]}]}


def before(kernel):
    text = json.dumps(kernel).replace('"', r"\22")
    return f"""
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
      %0 = stablehlo.composite "edgec.kernel" %x {{
        composite_attributes = {{kernel = "{text}"}}, decomposition = @reference
      }} : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }}
    func.func private @reference(%x: tensor<4xf32>) -> tensor<4xf32> {{
      %0 = stablehlo.add %x, %x : tensor<4xf32>
      return %0 : tensor<4xf32>
    }}
    """


def rewritten(kernel, target):
    with ir.Context():
        module = ir.Module.parse(before(kernel))
        count = OwnKernels(target=find(target)).run(module)
        module.operation.verify()
        return str(module), count


def test_code_for_the_target_is_dispatched():
    after, count = rewritten(KERNEL, "cpu:x86-64-v3")
    assert count == 1
    assert "stablehlo.composite" not in after
    assert "flow.dispatch @own_twice::@own_twice(%arg0)" in after
    assert "call @edgec_own_twice(" in after
    assert "arith.constant 4 : index" in after


@pytest.mark.parametrize("target", ["vulkan", "wasm"])
def test_elsewhere_the_reference_is_called(target):
    after, count = rewritten(KERNEL, target)
    assert count == 0
    assert "call @reference(%arg0)" in after
    assert "flow.dispatch" not in after


@pytest.mark.parametrize(
    "damaged",
    [{}, {**KERNEL, "inputs": 2}, {**KERNEL, "name": "no word"}, {**KERNEL, "codes": [1]}],
)
def test_what_is_damaged_is_refused(damaged):
    with pytest.raises(ProgramError, match="kernel"):
        rewritten(damaged, "cpu:x86-64-v3")
