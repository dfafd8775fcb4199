"""Leading zeros of bytes are counted in 32 bits."""

from pathlib import Path

import numpy as np
import pytest
from iree.compiler import ir

from edgec import runtime, toolchain
from edgec.toolchain.passes.legalise.count_zeros import CountZeros
from edgec.toolchain.stablehlo import parse_stablehlo


def count(kind: str) -> str:
    return f"""
func.func @main(%x: tensor<6x{kind}>) -> tensor<6x{kind}> {{
  %0 = stablehlo.count_leading_zeros %x : tensor<6x{kind}>
  return %0 : tensor<6x{kind}>
}}"""


@pytest.mark.parametrize(("kind", "changed"), [("i8", 1), ("i16", 1), ("i32", 0)])
def test_only_narrow_integers_change(kind: str, changed: int) -> None:
    with ir.Context() as context:
        module = parse_stablehlo(count(kind), context)
        assert CountZeros().run(module) == changed
        assert module.operation.verify()
        assert ("tensor<6xi32>" in str(module)) == (kind != "i64")


@pytest.mark.vulkan
@pytest.mark.parametrize(("kind", "dtype"), [("i8", np.int8), ("ui16", np.uint16)])
def test_the_counts_are_right_on_vulkan(kind: str, dtype: type, tmp_path: Path) -> None:
    (tmp_path / "case.mlir").write_text(count(kind))
    module = toolchain.compile(tmp_path / "case.mlir", "vulkan")
    x = np.array([0, 1, 7, 100, 2, 64], dtype)
    width = x.dtype.itemsize * 8
    expected = np.array([width - int(v).bit_length() for v in x], dtype)
    with runtime.load(module) as loaded:
        np.testing.assert_array_equal(loaded.main(x), expected)
