"""Scatters of many elements are right on Vulkan, in pieces."""

from pathlib import Path

import numpy as np
import pytest

from edgec.toolchain.passes.legalise.split_scatters import SplitScatters
from tests.toolchain.passes.before_after import rewrite, run

SCATTER = """
func.func @main(%x: tensor<3x{row}xf32>, %i: tensor<{turns}x1xi32>, %u: tensor<{turns}x{row}xf32>)
    -> tensor<3x{row}xf32> {{
  %y = "stablehlo.scatter"(%x, %i, %u) ({{
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
  }}) {{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [{axes}],
      inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>,
      unique_indices = {unique}}}
    : (tensor<3x{row}xf32>, tensor<{turns}x1xi32>, tensor<{turns}x{row}xf32>)
    -> tensor<3x{row}xf32>
  return %y : tensor<3x{row}xf32>
}}"""


def scatter(turns: int, row: str, unique: str = "false") -> str:
    axes = ", ".join(str(axis + 1) for axis in range(row.count("x") + 1))
    return SCATTER.format(turns=turns, row=row, axes=axes, unique=unique)


MANY = scatter(5, "16384")


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        (scatter(5, "4096"), 0),
        (scatter(5, "16384", "true"), 0),
        (MANY, 3),
        (scatter(5, "128x128"), 3),
        (scatter(2, "40000"), 4),
    ],
    ids=["few", "apart from each other", "rows", "rows of rows", "parts of rows"],
)
def test_those_that_may_meet_are_split(text: str, pieces: int) -> None:
    count, after = rewrite(SplitScatters(), text)
    assert count == min(pieces, 1)
    assert after.count('"stablehlo.scatter"') == max(pieces, 1)


@pytest.mark.vulkan
@pytest.mark.parametrize("row", ["16384", "128x130", "40000"])
def test_rows_that_meet_are_summed_on_vulkan(row: str, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    sizes = tuple(map(int, row.split("x")))
    x, updates = (random.normal(size=(n, *sizes)).astype(np.float32) for n in (3, 5))
    places = np.array([0, 2, 2, 1, 0], np.int32)
    expected = x.copy()
    np.add.at(expected, places, updates)
    answer = run(scatter(5, row), tmp_path, x, places[:, None], updates, target="vulkan")
    np.testing.assert_allclose(answer, expected, atol=1e-5)
