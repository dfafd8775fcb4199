"""The compiler's own text on a function becomes a signature."""

import pytest

from edgec.runtime.declaration import parse_declaration
from edgec.runtime.errors import ModuleError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sync func @f() -> ()", "f() -> ()"),
        (
            "sync func @f(%input0: tensor<?x4xf32>, %input1: tensor<4xf32>) -> "
            "(%output0: tensor<?x4xf32>)",
            "f(input0: f32[input0_0=0.., 4], input1: f32[4]) -> (output0: f32[output0_0=0.., 4])",
        ),
        (
            "sync func @f(%input0: tensor<3xi8> {iree.abi.encoding = tensor<3xui8>}, "
            "%input1: tensor<i1>) -> (%output0: tensor<2xcomplex<f32>>)",
            "f(input0: u8[3], input1: bool[]) -> (output0: c64[2])",
        ),
        (
            "sync func @f(%x: tensor<bf16>) -> (tensor<1x2xf64>)",
            "f(x: bf16[]) -> (output0: f64[1, 2])",
        ),
        ('sync func @f(%x: tensor<2xf16> {jax.note = "a, (b"}) -> ()', "f(x: f16[2]) -> ()"),
    ],
)
def test_declarations_become_signatures(text: str, expected: str) -> None:
    assert str(parse_declaration("f", text)) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("async func @f(%input0: tensor<f32>) -> ()", "asynchronous"),
        ("sync func @f(%input0: i32) -> ()", "type i32"),
        ("sync func @f(%input0: !util.list<?>) -> ()", "tensors only"),
        ("sync func @f(%input0: tensor<4xi4>) -> ()", "i4"),
        ("sync func @f(%input0: tensor<4xf32>", "damaged"),
        ("", "does not read"),
    ],
)
def test_others_are_refused(text: str, message: str) -> None:
    with pytest.raises(ModuleError, match=message):
        parse_declaration("f", text)
