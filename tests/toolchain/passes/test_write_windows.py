"""Scatters that write one window become one update; others stay scatters."""

from pathlib import Path

import numpy as np
import pytest

from edgec.toolchain.passes.simplify.write_windows import WriteWindows
from tests.toolchain.passes.before_after import rewrite, run

SET = "^bb0(%old: tensor<f32>, %new: tensor<f32>):\n stablehlo.return %new : tensor<f32>"
ADD = (
    "^bb0(%old: tensor<f32>, %new: tensor<f32>):\n %sum = stablehlo.add %old, %new : tensor<f32>\n"
    "stablehlo.return %sum : tensor<f32>"
)

# Two heads of a cache of six tokens, a chunk of three: each element has an index of its own.
CACHE = """
func.func @main(%x: tensor<2x6x4xf32>, %u: tensor<2x3x4xf32>, %at: tensor<i32>)
    -> tensor<2x6x4xf32> {
  %low = stablehlo.constant dense<0> : tensor<i32>
  %high = stablehlo.constant dense<HIGH> : tensor<i32>
  %kept = stablehlo.clamp %low, %at, %high : tensor<i32>
  %wide = stablehlo.convert %kept : (tensor<i32>) -> tensor<i64>
  %start = stablehlo.broadcast_in_dim %wide, dims = [] : (tensor<i64>) -> tensor<3xi64>
  %count = stablehlo.constant dense<3> : tensor<1xi64>
  %counted = stablehlo.dynamic_iota %count, dim = 0 : (tensor<1xi64>) -> tensor<3xi64>
  %rows = stablehlo.add %counted, %start : tensor<3xi64>
  %r = stablehlo.broadcast_in_dim %rows, dims = [1] : (tensor<3xi64>) -> tensor<2x3x4x1xi64>
  %h = stablehlo.iota dim = 0 : tensor<2x3x4x1xi64>
  %c = stablehlo.iota dim = 2 : tensor<2x3x4x1xi64>
  %i = stablehlo.concatenate %h, %r, %c, dim = 3
    : (tensor<2x3x4x1xi64>, tensor<2x3x4x1xi64>, tensor<2x3x4x1xi64>) -> tensor<2x3x4x3xi64>
  %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<
    inserted_window_dims = [0, 1, 2], scatter_dims_to_operand_dims = [0, 1, 2],
    index_vector_dim = 3>}> ({
    REGION
  }) : (tensor<2x6x4xf32>, tensor<2x3x4x3xi64>, tensor<2x3x4xf32>) -> tensor<2x6x4xf32>
  return %0 : tensor<2x6x4xf32>
}"""

# Rows of a matrix, the index along the other axis of the update, as bytes.
ROWS = """
func.func @main(%x: tensor<9x4xf32>, %u: tensor<4x3xf32>, %at: tensor<i8>) -> tensor<9x4xf32> {
  %low = stablehlo.constant dense<1> : tensor<i8>
  %high = stablehlo.constant dense<6> : tensor<i8>
  %kept = stablehlo.clamp %low, %at, %high : tensor<i8>
  %start = stablehlo.broadcast_in_dim %kept, dims = [] : (tensor<i8>) -> tensor<3x1xi8>
  %table = stablehlo.constant dense<[[-1], [0], [1]]> : tensor<3x1xi8>
  %i = stablehlo.add %start, %table : tensor<3x1xi8>
  %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<
    update_window_dims = [0], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
    index_vector_dim = 1>}> ({
    REGION
  }) : (tensor<9x4xf32>, tensor<3x1xi8>, tensor<4x3xf32>) -> tensor<9x4xf32>
  return %0 : tensor<9x4xf32>
}"""


def test_a_chunk_of_a_cache_is_one_update() -> None:
    count, after = rewrite(WriteWindows(), CACHE.replace("HIGH", "3").replace("REGION", SET))
    assert count == 1
    assert "stablehlo.dynamic_update_slice" in after
    assert "scatter" not in after and "iota" not in after


@pytest.mark.parametrize("at", [0, 2, 3, 9, -1])
def test_the_chunk_lies_where_the_clamp_says(tmp_path: Path, at: int) -> None:
    x = np.arange(48, dtype=np.float32).reshape(2, 6, 4)
    update = -np.arange(1, 25, dtype=np.float32).reshape(2, 3, 4)
    expected = x.copy()
    start = min(max(at, 0), 3)
    expected[:, start : start + 3] = update
    text = CACHE.replace("HIGH", "3").replace("REGION", SET)
    np.testing.assert_array_equal(run(text, tmp_path, x, update, np.int32(at)), expected)


def test_rows_along_another_axis_of_the_update(tmp_path: Path) -> None:
    text = ROWS.replace("REGION", SET)
    assert rewrite(WriteWindows(), text)[0] == 1
    x, update = np.zeros((9, 4), np.float32), np.arange(12, dtype=np.float32).reshape(4, 3)
    expected = x.copy()
    expected[4:7] = update.T
    np.testing.assert_array_equal(run(text, tmp_path, x, update, np.int8(5)), expected)


@pytest.mark.parametrize(
    "text",
    [
        CACHE.replace("HIGH", "4").replace("REGION", SET),
        CACHE.replace("HIGH", "3").replace("REGION", ADD),
        ROWS.replace("[-1], [0], [1]", "[-1], [0], [0]").replace("REGION", SET),
        ROWS.replace("[-1], [0], [1]", "[1], [0], [-1]").replace("REGION", SET),
        ROWS.replace("dense<6>", "dense<8>").replace("REGION", SET),
        ROWS.replace("dense<6>", "dense<127>").replace("9x4", "200x4").replace("REGION", SET),
    ],
    ids=["past the end", "a sum", "twice one row", "backwards", "a row too far", "wraps"],
)
def test_what_is_no_window_or_may_be_out_of_bounds_stays(text: str) -> None:
    count, after = rewrite(WriteWindows(), text)
    assert count == 0
    assert "stablehlo.scatter" in after
