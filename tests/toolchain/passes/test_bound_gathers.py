"""Indices out of bounds are moved to the nearest inside."""

from pathlib import Path

import numpy as np
from iree.compiler import ir

from edgec.toolchain.passes.legalise.bound_gathers import BoundGathers
from edgec.toolchain.stablehlo import parse_stablehlo
from tests.toolchain.passes.before_after import run

ROWS = """
func.func @main(%x: tensor<5x3xf32>, %i: tensor<4x1xi32>) -> tensor<4x3xf32> {
  %0 = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],
    collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
    slice_sizes = array<i64: 1, 3>}> : (tensor<5x3xf32>, tensor<4x1xi32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}"""
WINDOWS = """
func.func @main(%x: tensor<5x9xf32>, %i: tensor<2x4xi8>) -> tensor<4x2x3xf32> {
  %0 = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1, 2],
    start_index_map = [1, 0], index_vector_dim = 0>,
    slice_sizes = array<i64: 2, 3>}> : (tensor<5x9xf32>, tensor<2x4xi8>) -> tensor<4x2x3xf32>
  return %0 : tensor<4x2x3xf32>
}"""


def test_indices_are_clamped_each_to_its_own_dimension() -> None:
    with ir.Context() as context:
        module = parse_stablehlo(WINDOWS, context)
        assert BoundGathers().run(module) == 1
        assert module.operation.verify()
        after = str(module)
    assert after.count("stablehlo.clamp") == 1
    assert "dense<6> : tensor<1x4xi8>" in after and "dense<3> : tensor<1x4xi8>" in after


def test_rows_out_of_bounds_are_the_first_and_the_last(tmp_path: Path) -> None:
    x = np.arange(15, dtype=np.float32).reshape(5, 3)
    at = np.array([[-4], [1], [800], [5]], np.int32)
    np.testing.assert_array_equal(run(ROWS, tmp_path, x, at), x[[0, 1, 4, 4]])


def test_windows_are_moved_inside_whole(tmp_path: Path) -> None:
    x = np.arange(45, dtype=np.float32).reshape(5, 9)
    at = np.array([[0, 8, -3, 6], [3, 4, 0, 100]], np.int8)
    expected = [x[i : i + 2, j : j + 3] for j, i in ((0, 3), (6, 3), (0, 0), (6, 3))]
    np.testing.assert_array_equal(run(WINDOWS, tmp_path, x, at), np.stack(expected))
