"""Scatters of every dimension form become rows, and drop what is out of bounds."""

from pathlib import Path

import numpy as np
import pytest

from edgec.toolchain.passes.legalise.flatten_scatters import FlattenScatters
from tests.toolchain.passes.before_after import rewrite, run


def scatter(numbers: str, types: str, kind: str = "f32", body: str = "stablehlo.add") -> str:
    first, second, third = types.split(", ")
    return f"""
func.func @main(%x: {first}, %i: {second}, %u: {third}) -> {first} {{
  %0 = "stablehlo.scatter"(%x, %i, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<{numbers}>,
    indices_are_sorted = false, unique_indices = false}}> ({{
  ^bb0(%a: tensor<{kind}>, %b: tensor<{kind}>):
    %1 = {body} %a, %b : tensor<{kind}>
    stablehlo.return %1 : tensor<{kind}>
  }}) : ({first}, {second}, {third}) -> {first}
  return %0 : {first}
}}"""


ROWS = scatter(
    "update_window_dims = [2], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], "
    "index_vector_dim = 2",
    "tensor<5x3xf32>, tensor<2x2x1xi32>, tensor<2x2x3xf32>",
)
BATCHED = scatter(
    "inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [0], "
    "scatter_dims_to_operand_dims = [1], index_vector_dim = 2",
    "tensor<3x4xui8>, tensor<3x2x1xi32>, tensor<3x2xui8>",
    kind="ui8",
    body="stablehlo.maximum",
)
WINDOWS = scatter(
    "update_window_dims = [1, 2], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1",
    "tensor<4x5xf32>, tensor<3x2xi32>, tensor<3x2x2xf32>",
)
ONE = scatter(
    "update_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 0",
    "tensor<4x5xf32>, tensor<2xi32>, tensor<2x2xf32>",
)


def test_two_batch_dimensions_become_one() -> None:
    count, after = rewrite(FlattenScatters(), ROWS)
    assert count == 1
    assert "(tensor<5x3xf32>, tensor<4x1xi32>, tensor<4x3xf32>) -> tensor<5x3xf32>" in after


@pytest.mark.parametrize(
    "text",
    [
        ROWS.replace("stablehlo.add", "stablehlo.power"),
        ROWS.replace("unique_indices = false", "unique_indices = true"),
    ],
)
def test_what_no_number_leaves_as_it_is_has_a_spare_row(text: str) -> None:
    _, after = rewrite(FlattenScatters(), text)
    assert "(tensor<6x3xf32>, tensor<4x1xi32>, tensor<4x3xf32>) -> tensor<6x3xf32>" in after


def test_windows_are_scattered_element_by_element() -> None:
    _, after = rewrite(FlattenScatters(), WINDOWS)
    assert "(tensor<20x1xf32>, tensor<12x1xi32>, tensor<12x1xf32>) -> tensor<20x1xf32>" in after


def test_one_window_is_an_updated_slice() -> None:
    _, after = rewrite(FlattenScatters(), ONE)
    assert "stablehlo.scatter" not in after
    assert after.count("stablehlo.dynamic_update_slice") == 1


def test_unsigned_numbers_are_scattered_as_bits() -> None:
    _, after = rewrite(FlattenScatters(), BATCHED)
    assert "(tensor<13x1xi8>, tensor<6x1xi32>, tensor<6x1xi8>) -> tensor<13x1xi8>" in after
    assert "stablehlo.maximum %" in after


@pytest.mark.parametrize("last", [4, 5, -1], ids=["inside", "behind", "before"])
def test_rows_out_of_bounds_are_dropped(last: int, tmp_path: Path) -> None:
    x = np.arange(15, dtype=np.float32).reshape(5, 3)
    at = np.array([[[0], [2]], [[0], [last]]], np.int32)
    update = np.arange(12, dtype=np.float32).reshape(2, 2, 3) + 1
    expected = x.copy()
    for i, u in zip(at.ravel(), update.reshape(4, 3), strict=True):
        if 0 <= i < 5:
            expected[i] += u
    np.testing.assert_array_equal(run(ROWS, tmp_path, x, at, update), expected)


def test_batches_keep_the_larger_unsigned_number(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    x, update = (rng.integers(0, 256, s).astype(np.uint8) for s in ((3, 4), (3, 2)))
    at = rng.integers(-1, 5, (3, 2, 1)).astype(np.int32)
    expected = x.copy()
    for b, j in np.ndindex(3, 2):
        if 0 <= at[b, j, 0] < 4:
            expected[b, at[b, j, 0]] = max(expected[b, at[b, j, 0]], update[b, j])
    np.testing.assert_array_equal(run(BATCHED, tmp_path, x, at, update), expected)


@pytest.mark.parametrize("text", [WINDOWS, ONE], ids=["many", "one"])
def test_windows_that_reach_over_the_edge_are_dropped_whole(text: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    x = rng.standard_normal((4, 5)).astype(np.float32)
    at = np.array([[1, 2], [3, 1], [0, 3]], np.int32)
    update = rng.standard_normal((3, 2, 2)).astype(np.float32)
    if text is ONE:
        at, update = at[:1], update[:1]
    expected = x.copy()
    for (i, j), u in zip(at, update, strict=True):
        if i <= 2 and j <= 3:
            expected[i : i + 2, j : j + 2] += u
    if text is ONE:
        at, update = at[0], update[0]
    np.testing.assert_allclose(run(text, tmp_path, x, at, update), expected, rtol=1e-6)
