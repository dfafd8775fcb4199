"""Products that a program joins into complex numbers itself, for CUDA and CPUs."""

from pathlib import Path

import numpy as np
import pytest

from edgec import runtime, toolchain
from edgec.exporters import export
from edgec.runtime.errors import EdgecError
from edgec.toolchain.passes.legalise.complex_products import ComplexProducts
from tests.toolchain.passes.before_after import rewrite

TEXT = """func.func @main(%x: tensor<2x5x5x6xf32>, %w: tensor<6x4xf32>)
    -> tensor<2x5x5x4xcomplex<f32>> {
  %0 = stablehlo.reshape %x : (tensor<2x5x5x6xf32>) -> tensor<50x6xf32>
  %1 = stablehlo.dot_general %0, %w, contracting_dims = [1] x [0]
    : (tensor<50x6xf32>, tensor<6x4xf32>) -> tensor<50x4xf32>
  %2 = stablehlo.negate %w : tensor<6x4xf32>
  %3 = stablehlo.dot_general %0, %2, contracting_dims = [1] x [0]
    : (tensor<50x6xf32>, tensor<6x4xf32>) -> tensor<50x4xf32>
  %4 = stablehlo.reshape %1 : (tensor<50x4xf32>) -> tensor<2x5x5x4xf32>
  %5 = stablehlo.reshape %3 : (tensor<50x4xf32>) -> tensor<2x5x5x4xf32>
  %6 = stablehlo.add %4, %5 : tensor<2x5x5x4xf32>
  %7 = stablehlo.subtract %4, %5 : tensor<2x5x5x4xf32>
  %8 = stablehlo.complex %6, %7 : tensor<2x5x5x4xcomplex<f32>>
  return %8 : tensor<2x5x5x4xcomplex<f32>>
}
"""
WITHOUT = toolchain.CompileOptions(check=False, cache=False, disabled=("complex-products",))


def test_they_have_a_module_for_cuda(tmp_path: Path) -> None:
    (tmp_path / "f.mlir").write_text(TEXT)
    assert "cuda" in repr(toolchain.compile(tmp_path / "f.mlir", "cuda:sm_80"))


def test_without_the_pass_they_have_none(tmp_path: Path) -> None:
    (tmp_path / "f.mlir").write_text(TEXT)
    with pytest.raises(EdgecError, match="the compiler"):
        toolchain.compile(tmp_path / "f.mlir", "cuda:sm_80", WITHOUT)


def test_what_comes_of_no_product_stays() -> None:
    assert rewrite(ComplexProducts(joins_apart=True), TEXT)[0] == 1
    assert rewrite(ComplexProducts(), TEXT)[0] == 0
    other = """func.func @main(%x: tensor<4xf32>) -> tensor<4xcomplex<f32>> {
  %0 = stablehlo.complex %x, %x : tensor<4xcomplex<f32>>
  return %0 : tensor<4xcomplex<f32>>
}
"""
    assert rewrite(ComplexProducts(joins_apart=True), other)[0] == 0


def test_a_convolution_without_axes_is_numpys_on_a_cpu(tmp_path: Path) -> None:
    """Its product and its join in one kernel are refused there, and then compiled without tiles."""
    import jax

    rng = np.random.default_rng(2)
    x, w = (
        (rng.normal(size=s) + 1j * rng.normal(size=s)).astype(np.complex64)
        for s in ((2, 3), (3, 4))
    )
    numbers = jax.lax.ConvDimensionNumbers((0, 1), (1, 0), (0, 1))
    program = export(
        jax.jit(lambda x, w: jax.lax.conv_general_dilated(x, w, (), [], dimension_numbers=numbers)),
        (x, w),
    )
    options = toolchain.CompileOptions(output=tmp_path / "f.vmfb", check=False)
    made = toolchain.compile_with_report(program, "cpu", options)
    assert not made.report.notes
    with runtime.load(made.module) as loaded:
        found = np.asarray(loaded.main(x, w))
    np.testing.assert_allclose(found, x @ w, rtol=1e-5, atol=1e-6)
