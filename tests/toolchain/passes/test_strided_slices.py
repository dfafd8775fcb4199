"""Slices with gaps between their elements are arrays of their own where they are gathered from.

On CUDA also where they are filters.
"""

from pathlib import Path

import numpy as np
import pytest
from iree.compiler import ir

from edgec import runtime, toolchain
from edgec.toolchain.passes.legalise.strided_slices import StridedSlices
from edgec.toolchain.stablehlo import parse_stablehlo


def reversed_slice(stride: int, size: int) -> str:
    return f"""
func.func @main(%x: tensor<4x7xf32>) -> tensor<4x{size}xf32> {{
  %0 = stablehlo.slice %x [0:4, 1:6:{stride}] : (tensor<4x7xf32>) -> tensor<4x{size}xf32>
  %1 = stablehlo.reverse %0, dims = [0, 1] : tensor<4x{size}xf32>
  return %1 : tensor<4x{size}xf32>
}}"""


COLUMN = """
func.func @main(%x: tensor<9x4x3xf32>, %i: tensor<5xi32>) -> (tensor<5x4xf32>, tensor<4x9xf32>) {
  %0 = stablehlo.slice %x [0:9, 0:4, 1:2] : (tensor<9x4x3xf32>) -> tensor<9x4x1xf32>
  %1 = stablehlo.reshape %0 : (tensor<9x4x1xf32>) -> tensor<9x4xf32>
  %2 = "stablehlo.gather"(%1, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [1],
    collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
    slice_sizes = array<i64: 1, 4>} : (tensor<9x4xf32>, tensor<5xi32>) -> tensor<5x4xf32>
  %3 = stablehlo.transpose %1, dims = [1, 0] : (tensor<9x4xf32>) -> tensor<4x9xf32>
  %4 = stablehlo.reverse %3, dims = [1] : tensor<4x9xf32>
  return %2, %4 : tensor<5x4xf32>, tensor<4x9xf32>
}"""


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        (reversed_slice(2, 3), 1),
        (reversed_slice(3, 2), 1),
        (reversed_slice(1, 5), 0),
        (COLUMN, 2),
        (COLUMN.replace("4x3xf32", "4x1xf32").replace("1:2]", "0:1]"), 0),
    ],
)
def test_only_slices_with_gaps_change(text: str, changed: int) -> None:
    with ir.Context() as context:
        module = parse_stablehlo(text, context)
        assert StridedSlices().run(module) == changed
        assert module.operation.verify()
        assert str(module).count("optimization_barrier") == changed


@pytest.mark.parametrize("target", ["cpu", pytest.param("vulkan", marks=pytest.mark.vulkan)])
def test_the_elements_are_right(target: str, tmp_path: Path) -> None:
    (tmp_path / "strides.mlir").write_text(reversed_slice(3, 2))
    x = np.arange(28, dtype=np.float32).reshape(4, 7)
    with runtime.load(toolchain.compile(tmp_path / "strides.mlir", target)) as loaded:
        np.testing.assert_array_equal(loaded.main(x), x[:, 1:6:3][::-1, ::-1])
    (tmp_path / "column.mlir").write_text(COLUMN)
    x = np.arange(108, dtype=np.float32).reshape(9, 4, 3)
    rows = np.array([0, 8, 3, 3, 5], np.int32)
    with runtime.load(toolchain.compile(tmp_path / "column.mlir", target)) as loaded:
        gathered, turned = loaded.main(x, rows)
        np.testing.assert_array_equal(gathered, x[rows, :, 1])
        np.testing.assert_array_equal(turned, x[:, :, 1].T[:, ::-1])


def rows_of(slice_: str, size: str) -> str:
    return f"""
func.func @main(%x: tensor<9x40xf32>, %i: tensor<5xi32>) -> tensor<5x{size}xf32> {{
  %0 = stablehlo.slice %x [{slice_}] : (tensor<9x40xf32>) -> tensor<6x{size}xf32>
  %1 = "stablehlo.gather"(%0, %i) {{dimension_numbers = #stablehlo.gather<offset_dims = [1],
    collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
    slice_sizes = array<i64: 1, {size}>}}
    : (tensor<6x{size}xf32>, tensor<5xi32>) -> tensor<5x{size}xf32>
  return %1 : tensor<5x{size}xf32>
}}"""


@pytest.mark.parametrize(
    ("text", "changed"),
    [(rows_of("2:8, 3:11", "8"), 1), (rows_of("2:8, 0:40", "40"), 0), (COLUMN, 2)],
    ids=["some columns", "whole rows", "one column"],
)
def test_on_cuda_gaps_between_rows_count(text: str, changed: int) -> None:
    with ir.Context() as context:
        module = parse_stablehlo(text, context)
        assert StridedSlices(by_rows=True).run(module) == changed
        assert module.operation.verify()
        assert str(module).count("compute_barrier.start") == changed


def test_cuda_reads_them_from_an_array_of_their_own(tmp_path: Path) -> None:
    """A copy, or a kernel that copies, stands before the gather."""
    (tmp_path / "rows.mlir").write_text(rows_of("2:8, 3:11", "8"))
    sizes = {}
    for name, disabled in (("with", ()), ("without", ("strided-slices",))):
        options = toolchain.CompileOptions(
            output=tmp_path / f"{name}.vmfb", cache=False, check=False, disabled=disabled
        )
        module = toolchain.compile(tmp_path / "rows.mlir", "cuda:sm_90", options)
        sizes[name] = module.path.read_bytes().count(b".visible .entry")
    assert sizes["with"] > sizes["without"] >= 1


FILTER = """
func.func @main(%x: tensor<2x9x3xf16>, %w: tensor<3x3x4xf16>) -> tensor<2x8x4xf16> {
  %0 = stablehlo.slice %w [0:3:2, 0:3, 0:4] : (tensor<3x3x4xf16>) -> tensor<2x3x4xf16>
  %1 = stablehlo.convolution(%x, %0) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<2x9x3xf16>, tensor<2x3x4xf16>) -> tensor<2x8x4xf16>
  return %1 : tensor<2x8x4xf16>
}"""
TRANSPOSED = """
func.func @main(%x: tensor<2x8x3xf16>, %w: tensor<3x3x4xf16>) -> tensor<2x17x4xf16> {
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f],
    window = {pad = [[2, 2]], lhs_dilate = [2]}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<2x8x3xf16>, tensor<3x3x4xf16>) -> tensor<2x17x4xf16>
  return %0 : tensor<2x17x4xf16>
}"""


@pytest.mark.parametrize(
    ("text", "by_rows", "changed"),
    [(FILTER, True, 1), (FILTER, False, 0), (FILTER.replace("0:3:2", "1:3"), True, 0)],
    ids=["rows apart", "on other devices", "rows that touch"],
)
def test_on_cuda_filters_are_arrays_of_their_own(text: str, by_rows: bool, changed: int) -> None:
    with ir.Context() as context:
        module = parse_stablehlo(text, context)
        assert StridedSlices(by_rows=by_rows).run(module) == changed
        assert module.operation.verify()


@pytest.mark.parametrize("text", [FILTER, TRANSPOSED], ids=["a slice", "of a transposed one"])
def test_cuda_takes_filters_with_gaps(text: str, tmp_path: Path) -> None:
    (tmp_path / "filter.mlir").write_text(text)
    options = toolchain.CompileOptions(output=tmp_path / "f.vmfb", cache=False, check=False)
    assert toolchain.compile(tmp_path / "filter.mlir", "cuda:sm_90", options).path.stat().st_size
