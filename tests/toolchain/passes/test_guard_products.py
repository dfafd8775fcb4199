"""Unsigned numbers and truths keep their value in matrix products."""

from pathlib import Path

import numpy as np
import pytest

from edgec import runtime, toolchain
from edgec.toolchain.passes.legalise.guard_products import GuardProducts
from tests.toolchain.passes.before_after import rewrite

KINDS = {"ui8": np.uint8, "i8": np.int8, "i1": np.bool_, "i32": np.int32, "f32": np.float32}


def product(left: str, right: str, result: str) -> str:
    return f"""
func.func @main(%x: tensor<4x64x{left}>, %y: tensor<64x5x{right}>) -> tensor<4x5x{result}> {{
  %1 = stablehlo.convert %x : (tensor<4x64x{left}>) -> tensor<4x64x{result}>
  %2 = stablehlo.convert %y : (tensor<64x5x{right}>) -> tensor<64x5x{result}>
  %0 = stablehlo.dot_general %1, %2, contracting_dims = [1] x [0]
    : (tensor<4x64x{result}>, tensor<64x5x{result}>) -> tensor<4x5x{result}>
  return %0 : tensor<4x5x{result}>
}}"""


def test_a_conversion_of_unsigned_bytes_is_kept_apart() -> None:
    count, after = rewrite(GuardProducts(), product("ui8", "i8", "i32"))
    assert count == 1
    assert after.count("stablehlo.maximum") == 1


def test_signed_conversions_are_left_alone() -> None:
    count, _ = rewrite(GuardProducts(), product("i8", "i8", "i32"))
    assert count == 0


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [("ui8", "ui8", "i32"), ("ui8", "i8", "i32"), ("ui8", "ui8", "f32"), ("i1", "i8", "f32")],
)
def test_the_products_are_right(left: str, right: str, result: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    x, y = (rng.integers(0, 256, s).astype(np.uint8) for s in ((4, 64), (64, 5)))
    x = x % 2 == 0 if left == "i1" else x.view(KINDS[left])
    y = y.view(KINDS[right])
    (tmp_path / "case.mlir").write_text(product(left, right, result))
    module = toolchain.compile(tmp_path / "case.mlir", "cpu")
    with runtime.load(module) as loaded:
        actual = loaded.main(x, y)
    np.testing.assert_array_equal(actual, x.astype(KINDS[result]) @ y.astype(KINDS[result]))
