"""Reversed slices with strides are slices of reversed arrays."""

from pathlib import Path

import numpy as np
import pytest
from iree.compiler import ir

from edgec import runtime, toolchain
from edgec.toolchain.passes.legalise.reverse_first import ReverseFirst
from edgec.toolchain.stablehlo import parse_stablehlo


def reversed_slice(stride: int, size: int) -> str:
    return f"""
func.func @main(%x: tensor<4x7xf32>) -> tensor<4x{size}xf32> {{
  %0 = stablehlo.slice %x [0:4, 1:6:{stride}] : (tensor<4x7xf32>) -> tensor<4x{size}xf32>
  %1 = stablehlo.reverse %0, dims = [0, 1] : tensor<4x{size}xf32>
  return %1 : tensor<4x{size}xf32>
}}"""


@pytest.mark.parametrize(("stride", "size", "changed"), [(2, 3, 1), (3, 2, 1), (1, 5, 0)])
def test_only_slices_with_strides_change_places(stride: int, size: int, changed: int) -> None:
    with ir.Context() as context:
        module = parse_stablehlo(reversed_slice(stride, size), context)
        assert ReverseFirst().run(module) == changed
        assert module.operation.verify()
        text = str(module)
        last = text.rindex("stablehlo.slice") > text.rindex("stablehlo.reverse")
        assert last == bool(changed)
        assert ("reverse %arg0" in text) == bool(changed)


@pytest.mark.parametrize("target", ["cpu", pytest.param("vulkan", marks=pytest.mark.vulkan)])
def test_the_elements_are_right(target: str, tmp_path: Path) -> None:
    (tmp_path / "case.mlir").write_text(reversed_slice(3, 2))
    x = np.arange(28, dtype=np.float32).reshape(4, 7)
    with runtime.load(toolchain.compile(tmp_path / "case.mlir", target)) as loaded:
        np.testing.assert_array_equal(loaded.main(x), x[:, 1:6:3][::-1, ::-1])
