"""Integers reach bf16 by way of f32."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from iree.compiler import ir

from edgec import runtime, toolchain
from edgec.toolchain.passes.legalise.brain_conversions import BrainConversions
from edgec.toolchain.stablehlo import parse_stablehlo


def conversion(before: str, after: str) -> str:
    return f"""
func.func @main(%x: tensor<6x{before}>) -> tensor<6x{after}> {{
  %0 = stablehlo.convert %x : (tensor<6x{before}>) -> tensor<6x{after}>
  return %0 : tensor<6x{after}>
}}"""


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [("i1", "bf16", 1), ("ui8", "bf16", 1), ("i32", "f16", 0), ("f32", "bf16", 0)],
)
def test_only_integers_to_bf16_take_two_steps(before: str, after: str, changed: int) -> None:
    with ir.Context() as context:
        module = parse_stablehlo(conversion(before, after), context)
        assert BrainConversions().run(module) == changed
        assert module.operation.verify()
        text = str(module)
        assert text.count("stablehlo.convert") == 1 + changed
        assert (f"(tensor<6x{before}>) -> tensor<6xf32>" in text) == bool(changed)


@pytest.mark.vulkan
@pytest.mark.parametrize(("kind", "dtype"), [("i1", np.bool_), ("i32", np.int32)])
def test_the_numbers_are_right_on_vulkan(kind: str, dtype: type, tmp_path: Path) -> None:
    (tmp_path / "case.mlir").write_text(conversion(kind, "bf16"))
    module = toolchain.compile(tmp_path / "case.mlir", "vulkan")
    x = np.array([0, 1, 7, 200, 0, 64], dtype)
    with runtime.load(module) as loaded:
        np.testing.assert_array_equal(loaded.main(x), x.astype(ml_dtypes.bfloat16))


@pytest.mark.parametrize(
    ("kind", "number"), [("i32", -3), ("i8", -3), ("ui8", 253), ("i1", "true")]
)
def test_one_number_from_a_function_of_its_own(
    kind: str, number: int | str, tmp_path: Path
) -> None:
    """As `jax.grad` writes the edge of `jnp.pad`: the compiler computed it once, in a global."""
    (tmp_path / "case.mlir").write_text(f"""
func.func @main(%x: tensor<3xbf16>) -> tensor<5xbf16> {{
  %c = stablehlo.constant dense<{number}> : tensor<{kind}>
  %0 = call @edge(%x, %c) : (tensor<3xbf16>, tensor<{kind}>) -> tensor<5xbf16>
  return %0 : tensor<5xbf16>
}}
func.func private @edge(%x: tensor<3xbf16>, %e: tensor<{kind}>) -> tensor<5xbf16> {{
  %0 = stablehlo.convert %e : (tensor<{kind}>) -> tensor<bf16>
  %1 = stablehlo.pad %x, %0, low = [1], high = [1], interior = [0]
      : (tensor<3xbf16>, tensor<bf16>) -> tensor<5xbf16>
  return %1 : tensor<5xbf16>
}}""")
    module = toolchain.compile(tmp_path / "case.mlir", "cpu")
    x = np.array([0.5, 1, 2], ml_dtypes.bfloat16)
    edge = 1 if number == "true" else number
    with runtime.load(module) as loaded:
        np.testing.assert_array_equal(loaded.main(x).astype(np.float32), [edge, 0.5, 1, 2, edge])
