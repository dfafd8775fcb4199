"""Sizes, quotients and logarithms of complex numbers are NumPy's, from 0 to infinity."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgec.toolchain.passes.legalise.complex_ranges import ComplexRanges
from tests.toolchain.passes.before_after import rewrite, run

TINY = float(np.finfo(np.float32).tiny)
PARTS = (0.0, -0.0, TINY, -TINY, 3e-30, 1e-22, 0.5, -1.0, 1e20, -3e30, 1e38, np.inf, -np.inf)
POINTS = np.array([complex(x, y) for x in PARTS for y in PARTS])

SIZE = """
func.func @main(%x: tensor<169xcomplex<f32>>) -> tensor<169xf32> {
  %0 = stablehlo.abs %x : (tensor<169xcomplex<f32>>) -> tensor<169xf32>
  return %0 : tensor<169xf32>
}"""
LOGARITHM = """
func.func @main(%x: tensor<169xcomplex<f32>>) -> tensor<169xcomplex<f32>> {
  %0 = stablehlo.log %x : tensor<169xcomplex<f32>>
  return %0 : tensor<169xcomplex<f32>>
}"""
QUOTIENT = """
func.func @main(%x: tensor<169xcomplex<f32>>, %y: tensor<169xcomplex<f32>>)
    -> tensor<169xcomplex<f32>> {
  %0 = stablehlo.divide %x, %y : tensor<169xcomplex<f32>>
  return %0 : tensor<169xcomplex<f32>>
}"""


def close(found: np.ndarray, want: np.ndarray) -> None:
    """Within single precision; what is below its normal numbers may be anything there."""
    for part in ("real", "imag"):
        with np.errstate(over="ignore"):
            one, other = getattr(found, part), getattr(want, part).astype(np.float32)
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=4 * TINY)


@pytest.mark.parametrize(
    ("text", "function"), [(SIZE, np.abs), (LOGARITHM, np.log)], ids=["abs", "log"]
)
@pytest.mark.parametrize("wide", [False, True])
def test_parts_of_any_size_are_right(
    text: str, function: Callable[[Any], Any], wide: bool, tmp_path: Path
) -> None:
    kind = np.complex128 if wide else np.complex64
    with np.errstate(divide="ignore"):
        want = function(POINTS)
    text = text.replace("f32", "f64") if wide else text
    close(run(text, tmp_path, POINTS.astype(kind)), want)


@pytest.mark.parametrize("constant_below", [False, True])
def test_quotients_of_finite_numbers_are_right(constant_below: bool, tmp_path: Path) -> None:
    """Those by zero are infinite, as LAPACK's algorithms expect."""
    finite = np.where(np.isfinite(POINTS), POINTS, 1 + 1j)
    constant = np.full(169, 3 - 4j)
    above, below = (finite, constant) if constant_below else (constant, finite)
    found = run(QUOTIENT, tmp_path, above.astype(np.complex64), below.astype(np.complex64))
    is_zero = below == 0
    assert np.isinf(found[is_zero]).all()
    with np.errstate(all="ignore"):
        close(found[~is_zero], (above / below)[~is_zero])


def test_quotients_by_infinity_are_zero(tmp_path: Path) -> None:
    far = POINTS[np.isinf(POINTS)]
    below = np.resize(far, 169).astype(np.complex64)
    found = run(QUOTIENT, tmp_path, np.full(169, 3 - 4j, np.complex64), below)
    np.testing.assert_array_equal(found, np.zeros(169))


@pytest.mark.vulkan
def test_small_and_large_sizes_are_right_on_vulkan(tmp_path: Path) -> None:
    points = np.where(np.isfinite(POINTS), POINTS, 1)
    found = run(SIZE, tmp_path, points.astype(np.complex64), target="vulkan")
    np.testing.assert_allclose(found, np.abs(points), rtol=1e-5, atol=4 * TINY)


def test_real_numbers_are_left_alone() -> None:
    for text in (SIZE, LOGARITHM, QUOTIENT):
        assert rewrite(ComplexRanges(), text)[0] == 1
        assert rewrite(ComplexRanges(), text.replace("complex<f32>", "f32"))[0] == 0
