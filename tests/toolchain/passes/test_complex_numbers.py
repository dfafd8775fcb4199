"""Complex products, choices, updates and look-ups, part by part."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from edgec import toolchain
from edgec.exporters import export
from edgec.toolchain.passes.legalise.complex_products import ComplexProducts
from edgec.toolchain.passes.legalise.split_complex import SplitComplex
from tests.toolchain.passes.before_after import rewrite, run

PRODUCT = """
func.func @main(%x: tensor<9x17xcomplex<f32>>, %y: tensor<17x5xcomplex<f32>>)
    -> tensor<9x5xcomplex<f32>> {
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]
    : (tensor<9x17xcomplex<f32>>, tensor<17x5xcomplex<f32>>) -> tensor<9x5xcomplex<f32>>
  return %0 : tensor<9x5xcomplex<f32>>
}"""
CHOICE = """
func.func @main(%x: tensor<6xcomplex<f32>>, %y: tensor<6xcomplex<f32>>) -> tensor<6xcomplex<f32>> {
  %r = stablehlo.real %x : (tensor<6xcomplex<f32>>) -> tensor<6xf32>
  %i = stablehlo.imag %x : (tensor<6xcomplex<f32>>) -> tensor<6xf32>
  %t = stablehlo.compare LT, %r, %i, FLOAT : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xi1>
  %0 = stablehlo.select %t, %x, %y : tensor<6xi1>, tensor<6xcomplex<f32>>
  return %0 : tensor<6xcomplex<f32>>
}"""


def values(*shape: int) -> np.ndarray:
    rng = np.random.default_rng(shape)
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(np.complex64)


def test_a_product_becomes_four() -> None:
    count, after = rewrite(ComplexProducts(), PRODUCT)
    assert count == 1
    assert after.count("stablehlo.dot_general") == 4
    assert after.count("(tensor<9x17xf32>, tensor<17x5xf32>) -> tensor<9x5xf32>") == 4


def test_real_products_are_left_alone() -> None:
    real = PRODUCT.replace("complex<f32>", "f32")
    assert rewrite(ComplexProducts(), real)[0] == 0


def test_a_choice_becomes_two() -> None:
    count, after = rewrite(SplitComplex(), CHOICE)
    assert count == 1
    assert after.count("stablehlo.select") == 2


def test_the_product_is_right(tmp_path: Path) -> None:
    x, y = values(9, 17), values(17, 5)
    np.testing.assert_allclose(run(PRODUCT, tmp_path, x, y), x @ y, rtol=1e-4, atol=1e-4)


@pytest.mark.vulkan
def test_the_choice_compiles_for_vulkan(tmp_path: Path) -> None:
    x, y = values(6), values(6)[::-1].copy()
    actual = run(CHOICE, tmp_path, x, y, target="vulkan")
    np.testing.assert_array_equal(actual, np.where(x.real < x.imag, x, y))


RUNNING = """
func.func @main(%x: tensor<6xcomplex<f32>>) -> tensor<6xcomplex<f32>> {
  %c = stablehlo.constant dense<(1.0, 0.0)> : tensor<complex<f32>>
  %0 = "stablehlo.reduce_window"(%x, %c) <{window_dimensions = array<i64: 6>,
      padding = dense<[[5, 0]]> : tensor<1x2xi64>}> ({
    ^bb0(%a: tensor<complex<f32>>, %b: tensor<complex<f32>>):
      %1 = stablehlo.multiply %a, %b : tensor<complex<f32>>
      stablehlo.return %1 : tensor<complex<f32>>
    }) : (tensor<6xcomplex<f32>>, tensor<complex<f32>>) -> tensor<6xcomplex<f32>>
  return %0 : tensor<6xcomplex<f32>>
}"""


PADDED = """
func.func @main(%x: tensor<3x4xcomplex<f32>>, %y: tensor<complex<f32>>)
    -> tensor<7x5xcomplex<f32>> {
  %0 = stablehlo.pad %x, %y, low = [1, 0], high = [1, 1], interior = [1, 0]
    : (tensor<3x4xcomplex<f32>>, tensor<complex<f32>>) -> tensor<7x5xcomplex<f32>>
  return %0 : tensor<7x5xcomplex<f32>>
}"""


def test_padding_is_right(tmp_path: Path) -> None:
    """The compiler dies of it as it is, also where it is padded with a constant."""
    x, y = values(3, 4), values()
    want = np.full((7, 5), y)
    want[1:6:2, :4] = x
    np.testing.assert_array_equal(run(PADDED, tmp_path, x, y), want)
    zero = PADDED.replace(
        "  %0 =", "  %z = stablehlo.constant dense<(0.0, 0.0)> : tensor<complex<f32>>\n  %0 ="
    ).replace("pad %x, %y", "pad %x, %z")
    want[want == y] = 0
    np.testing.assert_array_equal(run(zero, tmp_path, x, y), want)


def test_windows_take_pairs_for_spirv_only() -> None:
    count, after = rewrite(SplitComplex(spirv=True), RUNNING)
    assert count == 1
    assert "-> (tensor<6xf32>, tensor<6xf32>)" in after
    assert rewrite(SplitComplex(), RUNNING)[0] == 0


@pytest.mark.vulkan
def test_a_running_product_is_right_on_vulkan(tmp_path: Path) -> None:
    x = values(6)
    actual = run(RUNNING, tmp_path, x, target="vulkan")
    np.testing.assert_allclose(actual, np.cumprod(x), rtol=1e-5)


@pytest.mark.parametrize("target", ["cpu", "vulkan", "cuda:sm_86"])
def test_constants_of_complex_numbers_are_no_hindrance(target):
    def function(x):
        return jnp.abs(jnp.exp(1j * x) * (2 + 1j) + jnp.array([1j, 2, 3]))

    report = toolchain.run_passes(export(function, (jnp.ones(3),)), target)
    assert "fold-constants" in report.changes


def test_a_constant_of_wide_complex_numbers_becomes_two(tmp_path: Path) -> None:
    text = """
func.func @main(%x: tensor<2xcomplex<f64>>) -> tensor<2xcomplex<f64>> {
  %a = stablehlo.constant dense<[(1.5, -2.0), (0.25, 4.0)]> : tensor<2xcomplex<f64>>
  %b = stablehlo.constant dense<(0.0, 1.0)> : tensor<2xcomplex<f64>>
  %0 = stablehlo.multiply %x, %a : tensor<2xcomplex<f64>>
  %1 = stablehlo.add %0, %b : tensor<2xcomplex<f64>>
  return %1 : tensor<2xcomplex<f64>>
}"""
    count, after = rewrite(SplitComplex(), text)
    assert count == 1
    assert "dense<[1.500000e+00, 2.500000e-01]> : tensor<2xf64>" in after
    assert after.count("stablehlo.complex") == 1
    x = values(2).astype(np.complex128)
    expected = x * np.array([1.5 - 2j, 0.25 + 4j]) + 1j
    np.testing.assert_allclose(run(text, tmp_path, x), expected, rtol=1e-12)


HELD = """
func.func @main(%x: tensor<3xcomplex<f64>>) -> tensor<8xcomplex<f64>> {
  %c = stablehlo.constant dense<(1.0, -2.0)> : tensor<complex<f64>>
  %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<complex<f64>>) -> tensor<3xcomplex<f64>>
  %1 = stablehlo.pad %x, %c, low = [1], high = [1], interior = [0]
    : (tensor<3xcomplex<f64>>, tensor<complex<f64>>) -> tensor<5xcomplex<f64>>
  %2 = stablehlo.concatenate %0, %1, dim = 0
    : (tensor<3xcomplex<f64>>, tensor<5xcomplex<f64>>) -> tensor<8xcomplex<f64>>
  return %2 : tensor<8xcomplex<f64>>
}"""


def test_kernels_write_what_is_one_wide_complex_number_all_over(tmp_path: Path) -> None:
    count, after = rewrite(SplitComplex(), HELD)
    assert count == 2
    assert after.count("compute_barrier") == 1
    x = values(3).astype(np.complex128)
    padded = np.pad(x, 1, constant_values=1 - 2j)
    expected = np.concatenate([np.full(3, 1 - 2j), padded])
    np.testing.assert_array_equal(run(HELD, tmp_path, x), expected)


def test_a_wide_complex_number_is_returned_as_it_is(tmp_path: Path) -> None:
    text = """
func.func @main() -> tensor<3xcomplex<f64>> {
  %c = stablehlo.constant dense<(1.0, -2.0)> : tensor<3xcomplex<f64>>
  return %c : tensor<3xcomplex<f64>>
}"""
    np.testing.assert_array_equal(run(text, tmp_path), np.full(3, 1 - 2j))


def test_real_numbers_become_wide_complex_ones_in_two_parts(tmp_path: Path) -> None:
    text = """
func.func @main(%x: tensor<3xi32>) -> tensor<3xcomplex<f64>> {
  %0 = stablehlo.convert %x : (tensor<3xi32>) -> tensor<3xcomplex<f64>>
  return %0 : tensor<3xcomplex<f64>>
}"""
    count, after = rewrite(SplitComplex(), text)
    assert count == 1
    assert after.count("stablehlo.complex") == 1
    x = np.array([1, -2, 3], np.int32)
    np.testing.assert_array_equal(run(text, tmp_path, x), x.astype(np.complex128))


TURNS = """
func.func @main(%x: tensor<2x3xcomplex<f32>>) -> tensor<2x3xcomplex<f32>> {
  %turns = stablehlo.constant dense<[(1.0, 0.0), (0.5, -0.5), (0.0, 2.0)]> : tensor<3xcomplex<f32>>
  %all = stablehlo.broadcast_in_dim %turns, dims = [1]
    : (tensor<3xcomplex<f32>>) -> tensor<2x3xcomplex<f32>>
  %turned = stablehlo.multiply %x, %all : tensor<2x3xcomplex<f32>>
  return %turned : tensor<2x3xcomplex<f32>>
}"""


@pytest.mark.vulkan
def test_small_constants_of_complex_numbers_are_right_on_vulkan(tmp_path: Path) -> None:
    assert rewrite(SplitComplex(), TURNS)[0] == 0
    count, after = rewrite(SplitComplex(spirv=True), TURNS)
    assert count == 1
    assert "dense<[1.000000e+00, 5.000000e-01, 0.000000e+00]> : tensor<3xf32>" in after
    x = values(2, 3)
    turns = np.array([1, 0.5 - 0.5j, 2j], np.complex64)
    np.testing.assert_allclose(run(TURNS, tmp_path, x, target="vulkan"), x * turns, rtol=1e-5)
