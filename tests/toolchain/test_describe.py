from typing import Any

import pytest
from iree.compiler import ir

from edgec.runtime.errors import ProgramError
from edgec.runtime.signature import Dim
from edgec.toolchain.describe import describe
from edgec.toolchain.program import PROGRAM_ATTRIBUTE, Dialect, Input, Output


def parse(text: str) -> Any:
    return ir.Module.parse(text, ir.Context())


def test_each_public_function_becomes_a_flat_signature():
    info = describe(
        parse(
            """
            func.func @first(%a: tensor<2x3xf32> loc("image"), %b: tensor<ui8> loc("count"))
              -> (tensor<2x3xf32>, tensor<i1>) {
              %t = stablehlo.constant dense<true> : tensor<i1>
              return %a, %t : tensor<2x3xf32>, tensor<i1>
            }
            func.func private @inner(%a: tensor<f32>) -> tensor<f32> { return %a : tensor<f32> }
            func.func public @second(%a: tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>> {
              return %a : tensor<4xcomplex<f32>>
            }
            """
        ),
        "x.mlir",
    )
    assert [str(function.signature) for function in info.functions] == [
        "first(image: f32[2, 3], count: u8[]) -> (out0: f32[2, 3], out1: bool[])",
        "second(arg0: c64[4]) -> (out0: c64[4])",
    ]
    assert info.functions[0].arguments == (Input(index=0), Input(index=1))
    assert info.functions[0].results == (Output(index=0), Output(index=1))
    assert info.dialect is Dialect.STABLEHLO
    assert info.provenance.source == "x.mlir"


def test_arguments_with_one_name_are_numbered():
    info = describe(
        parse(
            """
            func.func @main(%a: tensor<f32> loc("x"), %b: tensor<f32> loc("x")) -> tensor<f32> {
              %0 = stablehlo.add %a, %b : tensor<f32>
              return %0 : tensor<f32>
            }
            """
        ),
        "x.mlir",
    )
    assert [spec.name for spec in info.functions[0].signature.inputs] == ["arg0", "arg1"]


def test_unknown_sizes_become_named_dimensions():
    info = describe(
        parse(
            "func.func @main(%a: tensor<?x3xf32>) -> tensor<?x3xf32> "
            "{ return %a : tensor<?x3xf32> }"
        ),
        "x.mlir",
    )
    assert info.functions[0].signature.inputs[0].shape == (Dim(name="arg0_0", minimum=0), 3)


def test_torch_tensors_are_tensors():
    info = describe(
        parse(
            """
            func.func @main(%a: !torch.vtensor<[?,4],f32>) -> !torch.vtensor<[?,4],f32> {
              %0 = torch.aten.relu %a : !torch.vtensor<[?,4],f32> -> !torch.vtensor<[?,4],f32>
              return %0 : !torch.vtensor<[?,4],f32>
            }
            """
        ),
        "x.mlir",
    )
    assert info.dialect is Dialect.TORCH
    assert (
        str(info.functions[0].signature)
        == "main(arg0: f32[arg0_0=0.., 4]) -> (out0: f32[out0_0=0.., 4])"
    )


@pytest.mark.parametrize(
    "text",
    [
        "module {}",
        "func.func private @inner(%a: tensor<f32>) -> tensor<f32> { return %a : tensor<f32> }",
        "func.func private @outside(tensor<f32>)",
        "func.func @main(%a: index) -> index { return %a : index }",
        "func.func @main(%a: tensor<*xf32>) -> tensor<*xf32> { return %a : tensor<*xf32> }",
        "func.func @main(%a: tensor<4xi4>) -> tensor<4xi4> { return %a : tensor<4xi4> }",
    ],
)
def test_what_cannot_be_called_with_tensors_is_refused(text: str):
    with pytest.raises(ProgramError):
        describe(parse(text), "x.mlir")


def test_a_damaged_description_is_refused():
    with pytest.raises(ProgramError, match="damaged"):
        describe(parse(f'module attributes {{{PROGRAM_ATTRIBUTE} = "{{}}"}} {{}}'), "x.mlir")
