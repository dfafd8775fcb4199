"""The gradient of max pooling, in windows that overlap and are padded."""

from pathlib import Path

import numpy as np
import pytest
from iree.compiler import ir

from edgec import runtime, toolchain
from edgec.toolchain.passes.legalise.spread_selected import SpreadSelected
from edgec.toolchain.stablehlo import parse_stablehlo


def pooling(kind: str, direction: str, compare: str) -> str:
    return f"""
func.func @main(%x: tensor<5x6x{kind}>, %y: tensor<3x5x{kind}>) -> tensor<5x6x{kind}> {{
  %c = stablehlo.constant dense<0> : tensor<i32>
  %i = stablehlo.convert %c : (tensor<i32>) -> tensor<{kind}>
  %0 = "stablehlo.select_and_scatter"(%x, %y, %i) <{{window_dimensions = array<i64: 3, 2>,
      window_strides = array<i64: 2, 1>, padding = dense<[[1, 1], [0, 0]]> : tensor<2x2xi64>}}> ({{
    ^bb0(%a: tensor<{kind}>, %b: tensor<{kind}>):
      %1 = stablehlo.compare {direction}, %a, %b, {compare}
        : (tensor<{kind}>, tensor<{kind}>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    }}, {{
    ^bb0(%a: tensor<{kind}>, %b: tensor<{kind}>):
      %1 = stablehlo.add %a, %b : tensor<{kind}>
      stablehlo.return %1 : tensor<{kind}>
    }}) : (tensor<5x6x{kind}>, tensor<3x5x{kind}>, tensor<{kind}>) -> tensor<5x6x{kind}>
  return %0 : tensor<5x6x{kind}>
}}"""


def expected(x: np.ndarray, y: np.ndarray, *, largest: bool) -> np.ndarray:
    """By the definition: the first of the chosen values in each window gets the source."""
    result = np.zeros_like(x)
    for i, j in np.ndindex(3, 5):
        rows, columns = range(max(0, 2 * i - 1), min(5, 2 * i + 2)), range(j, j + 2)
        window = x[rows.start : rows.stop, columns.start : columns.stop]
        at = np.argmax(window) if largest else np.argmin(window)
        row, column = np.unravel_index(at, window.shape)
        result[rows.start + row, columns.start + column] += y[i, j]
    return result


def test_it_becomes_comparisons_and_padded_sums() -> None:
    with ir.Context() as context:
        module = parse_stablehlo(pooling("f32", "GE", "FLOAT"), context)
        assert SpreadSelected().run(module) == 1
        assert module.operation.verify()
        after = str(module)
    assert "select_and_scatter" not in after
    assert after.count("stablehlo.slice") == 6  # one for each place in the window


@pytest.mark.parametrize(
    ("kind", "direction", "largest"),
    [("f32", "GE", True), ("i32", "GE", True), ("i32", "LE", False)],
)
def test_the_sources_go_where_the_window_chose(
    kind: str, direction: str, largest: bool, tmp_path: Path
) -> None:
    rng = np.random.default_rng(6)
    dtype = np.float32 if kind == "f32" else np.int32
    x, y = (rng.integers(-4, 5, s).astype(dtype) for s in ((5, 6), (3, 5)))
    text = pooling(kind, direction, "FLOAT" if kind == "f32" else "SIGNED")
    (tmp_path / "case.mlir").write_text(text)
    module = toolchain.compile(tmp_path / "case.mlir", "cpu")
    with runtime.load(module) as loaded:
        np.testing.assert_array_equal(loaded.main(x, y), expected(x, y, largest=largest))
