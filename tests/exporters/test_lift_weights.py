import ml_dtypes
import numpy as np
from iree.compiler import ir

from edgec.exporters.lift_weights import WeightLifter

CALLS = """
func.func private @inner(%x: tensor<512xf32>) -> tensor<512xf32> {
  %w = stablehlo.constant dense<"0xHEX1"> : tensor<512xf32>
  %0 = stablehlo.add %x, %w : tensor<512xf32>
  return %0 : tensor<512xf32>
}
func.func private @middle(%x: tensor<512xf32>) -> tensor<512xf32> {
  %0 = call @inner(%x) : (tensor<512xf32>) -> tensor<512xf32>
  return %0 : tensor<512xf32>
}
func.func public @main(%x: tensor<512xf32>) -> (tensor<512xf32>, tensor<4xf32>) {
  %w = stablehlo.constant dense<"0xHEX2"> : tensor<512xf32>
  %small = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %0 = call @middle(%x) : (tensor<512xf32>) -> tensor<512xf32>
  %1 = call @middle(%0) : (tensor<512xf32>) -> tensor<512xf32>
  %2 = stablehlo.add %1, %w : tensor<512xf32>
  return %2, %small : tensor<512xf32>, tensor<4xf32>
}
"""
ONE = np.arange(512, dtype=np.float32)
TWO = ONE * 2


def calls() -> str:
    return CALLS.replace("HEX1", ONE.tobytes().hex()).replace("HEX2", TWO.tobytes().hex())


def test_constants_are_handed_down_through_calls() -> None:
    with ir.Context():
        module = ir.Module.parse(calls())
        lifter = WeightLifter({"params.two": TWO}, {"w0"})
        assert lifter.lift(module) == {"main": ("params.two", "w1")}
        module.operation.verify()
        text = module.operation.get_asm(large_elements_limit=4)
    np.testing.assert_array_equal(lifter.values["params.two"], TWO)
    np.testing.assert_array_equal(lifter.values["w1"], ONE)
    assert text.count("stablehlo.constant") == 1
    assert "@inner(%arg0: tensor<512xf32>, %arg1: tensor<512xf32>)" in text


def test_a_function_that_is_named_without_a_call_keeps_its_shape() -> None:
    text = calls().replace(
        "%2 = stablehlo.add %1, %w",
        '%2 = stablehlo.composite "my.op" %w {decomposition = @middle}',
    )
    text = text.replace(
        "{decomposition = @middle} : tensor<512xf32>",
        "{decomposition = @middle} : (tensor<512xf32>) -> tensor<512xf32>",
    )
    with ir.Context():
        module = ir.Module.parse(text)
        lifter = WeightLifter({}, set())
        assert lifter.lift(module) == {"main": ("w0",)}
        module.operation.verify()
        printed = module.operation.get_asm(large_elements_limit=4)
    assert "@middle(%arg0: tensor<512xf32>)" in printed
    np.testing.assert_array_equal(lifter.values["w0"], TWO)


def test_equal_constants_of_two_modules_share_a_name() -> None:
    with ir.Context():
        lifter = WeightLifter({}, set())
        first = lifter.lift(ir.Module.parse(calls()))
        assert lifter.lift(ir.Module.parse(calls())) == first
    assert len(lifter.values) == 2


def test_bf16_constants_keep_their_bits() -> None:
    value = (np.arange(1024) % 200).astype(ml_dtypes.bfloat16)
    with ir.Context():
        lifter = WeightLifter({"w": value}, set())
        assert lifter.lift(ir.Module.parse(returning(value, "bf16"))) == {"main": ("w",)}
    assert lifter.values["w"].tobytes() == value.tobytes()


def test_complex_constants_stay() -> None:
    value = np.arange(1024).astype(np.complex64)
    with ir.Context():
        module = ir.Module.parse(returning(value, "complex<f32>"))
        assert WeightLifter({}, set()).lift(module) == {"main": ()}


def returning(value: np.ndarray, kind: str) -> str:
    return (
        f"func.func @main() -> tensor<1024x{kind}> {{\n"
        f'  %0 = stablehlo.constant dense<"0x{value.tobytes().hex()}"> : tensor<1024x{kind}>\n'
        f"  return %0 : tensor<1024x{kind}>\n}}"
    )


def test_splats_and_small_constants_stay() -> None:
    kind = "tensor<999xf32>"
    constant = f"%0 = stablehlo.constant dense<0.5> : {kind}"
    text = f"func.func @main() -> {kind} {{ {constant} return %0 : {kind} }}"
    with ir.Context():
        assert WeightLifter({}, set()).lift(ir.Module.parse(text)) == {"main": ()}
