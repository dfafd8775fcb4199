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
