"""Fourier transforms of every kind and length, against NumPy."""

from pathlib import Path

import numpy as np
import pytest
from iree.compiler import ir

from edgec.toolchain.passes.legalise.fourier_products import FourierProducts
from edgec.toolchain.stablehlo import parse_stablehlo
from tests.toolchain.passes.before_after import run


def transform(form: str, shape: tuple[int, ...], lengths: tuple[int, ...], kind: str) -> str:
    given, out = list(shape), list(shape)
    if form == "RFFT":
        out[-1] = shape[-1] // 2 + 1
    if form == "IRFFT":
        out[-1] = lengths[-1]
    before = "x".join(map(str, given)) + f"x{kind if form == 'RFFT' else f'complex<{kind}>'}"
    after = "x".join(map(str, out)) + f"x{kind if form == 'IRFFT' else f'complex<{kind}>'}"
    return f"""
func.func @main(%x: tensor<{before}>) -> tensor<{after}> {{
  %0 = stablehlo.fft %x, type = {form}, length = [{", ".join(map(str, lengths))}]
    : (tensor<{before}>) -> tensor<{after}>
  return %0 : tensor<{after}>
}}"""


def values(*shape: int) -> np.ndarray:
    rng = np.random.default_rng(shape)
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


def rewrite(text: str) -> str:
    with ir.Context() as context:
        module = parse_stablehlo(text, context)
        assert FourierProducts().run(module) == 1
        assert module.operation.verify()
        return str(module)


def test_a_short_transform_is_one_product() -> None:
    after = rewrite(transform("FFT", (3, 12), (12,), "f32"))
    assert "stablehlo.fft" not in after
    assert after.count("stablehlo.dot_general") == 1


def test_a_long_transform_is_two_small_products() -> None:
    after = rewrite(transform("FFT", (1, 1000), (1000,), "f32"))
    assert after.count("stablehlo.dot_general") == 2
    assert "tensor<50x50xf32>" in after and "tensor<80x80xf32>" in after


@pytest.mark.sweep(fast=2)
@pytest.mark.parametrize("length", [1, 2, 15, 97, 360, 521], ids=lambda n: f"length {n}")
def test_fft(length: int, tmp_path: Path) -> None:
    x = values(2, length)
    actual = run(transform("FFT", (2, length), (length,), "f32"), tmp_path, x.astype(np.complex64))
    np.testing.assert_allclose(actual, np.fft.fft(x), rtol=1e-4, atol=1e-4 * length**0.5)


@pytest.mark.sweep(fast=2)
@pytest.mark.parametrize("length", [2, 9, 12, 256, 270])
def test_real_transforms_there_and_back(length: int, tmp_path: Path) -> None:
    x = values(2, length).real
    half = np.fft.rfft(x)
    there = run(transform("RFFT", x.shape, (length,), "f64"), tmp_path, x)
    np.testing.assert_allclose(there, half, rtol=1e-11, atol=1e-11)
    back = run(transform("IRFFT", half.shape, (length,), "f64"), tmp_path, half)
    np.testing.assert_allclose(back, x, rtol=1e-11, atol=1e-11)


def test_several_axes(tmp_path: Path) -> None:
    x = values(2, 6, 10)
    actual = run(transform("IFFT", x.shape, (6, 10), "f64"), tmp_path, x)
    np.testing.assert_allclose(actual, np.fft.ifft2(x), rtol=1e-11, atol=1e-11)
