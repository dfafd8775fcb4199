"""Complex matrices turned, and sums of what is computed from complex numbers, for GPUs."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import edgec.runtime as er
from edgec import toolchain
from edgec.exporters import export
from edgec.toolchain.passes.legalise.complex_apart import ComplexApart
from tests.toolchain.passes.before_after import rewrite

TURNED = """func.func public @main(%x: tensor<128x96xcomplex<f32>>) -> tensor<96x128xcomplex<f32>> {
  %0 = stablehlo.transpose %x, dims = [1, 0]
    : (tensor<128x96xcomplex<f32>>) -> tensor<96x128xcomplex<f32>>
  return %0 : tensor<96x128xcomplex<f32>>
}"""
SQUARES = """func.func public @main(%x: tensor<16x12xcomplex<f32>>) -> tensor<16xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %r = stablehlo.real %x : (tensor<16x12xcomplex<f32>>) -> tensor<16x12xf32>
  %s = stablehlo.multiply %r, %r : tensor<16x12xf32>
  %0 = stablehlo.reduce(%s init: %z) applies stablehlo.add across dimensions = [1]
    : (tensor<16x12xf32>, tensor<f32>) -> tensor<16xf32>
  return %0 : tensor<16xf32>
}"""


def _norm(x: jax.Array) -> jax.Array:
    return jnp.linalg.norm(x)


def _rows(x: jax.Array) -> jax.Array:
    return (x * x.conj()).real.sum(1)


def _turn(x: jax.Array) -> jax.Array:
    return x.T * 2


def _centred(x: jax.Array) -> jax.Array:
    return x - x.mean()


@pytest.mark.sweep(fast=3)
@pytest.mark.parametrize("target", ["cuda:sm_90", "rocm:gfx90a"])
@pytest.mark.parametrize("function", [_norm, _rows, _turn, _centred])
def test_ordinary_sizes_compile_for_gpus(target: str, function, tmp_path: Path) -> None:
    program = export(function, (np.ones((128, 96), np.complex64),))
    options = toolchain.CompileOptions(cache=False, check=False, output=tmp_path / "module.vmfb")
    toolchain.compile(program, target, options)
    assert (tmp_path / "module.vmfb").stat().st_size > 0


@pytest.mark.parametrize("text", [TURNED, SQUARES])
def test_the_rewritten_program_gives_what_it_gave(text: str, tmp_path: Path) -> None:
    count, after = rewrite(ComplexApart(), text)
    assert count == 1
    source = tmp_path / "program.mlir"
    source.write_text(after)
    toolchain.compile(source, "cpu", toolchain.CompileOptions(output=tmp_path / "module.vmfb"))
    shape = (128, 96) if text is TURNED else (16, 12)
    rng = np.random.default_rng(0)
    x = (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(np.complex64)
    with er.load(tmp_path / "module.vmfb") as module:
        found = np.asarray(module.main(x))
    np.testing.assert_allclose(found, x.T if text is TURNED else (x.real**2).sum(1), rtol=1e-5)


def test_sums_of_real_and_of_complex_numbers_stay() -> None:
    plain = SQUARES.replace("complex<f32>", "f32").replace("stablehlo.real", "stablehlo.convert")
    assert rewrite(ComplexApart(), plain)[0] == 0
    text = """func.func @main(%x: tensor<4x4xcomplex<f32>>) -> tensor<4xcomplex<f32>> {
      %z = stablehlo.constant dense<(0.0, 0.0)> : tensor<complex<f32>>
      %0 = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [1]
        : (tensor<4x4xcomplex<f32>>, tensor<complex<f32>>) -> tensor<4xcomplex<f32>>
      return %0 : tensor<4xcomplex<f32>>
    }"""
    assert rewrite(ComplexApart(), text)[0] == 0


def test_a_complex_sum_ends_a_kernel_where_it_is_read(tmp_path: Path) -> None:
    text = """func.func @main(%x: tensor<4x4xcomplex<f32>>) -> tensor<4x4xcomplex<f32>> {
      %z = stablehlo.constant dense<(0.0, 0.0)> : tensor<complex<f32>>
      %0 = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [0, 1]
        : (tensor<4x4xcomplex<f32>>, tensor<complex<f32>>) -> tensor<complex<f32>>
      %1 = stablehlo.broadcast_in_dim %0, dims = []
        : (tensor<complex<f32>>) -> tensor<4x4xcomplex<f32>>
      return %1 : tensor<4x4xcomplex<f32>>
    }"""
    count, after = rewrite(ComplexApart(), text)
    assert count == 1
    assert after.count("compute_barrier") == 1
    source = tmp_path / "program.mlir"
    source.write_text(after)
    toolchain.compile(source, "cpu", toolchain.CompileOptions(output=tmp_path / "module.vmfb"))
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(4, 4)) + 1j * rng.normal(size=(4, 4))).astype(np.complex64)
    with er.load(tmp_path / "module.vmfb") as module:
        found = np.asarray(module.main(x))
    np.testing.assert_allclose(found, np.broadcast_to(x.sum(), (4, 4)), rtol=1e-5)
