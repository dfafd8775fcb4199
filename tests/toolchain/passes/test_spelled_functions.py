"""CHLO's functions beside SciPy's in 64 bits, over all magnitudes of f32."""

from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
import pytest
import scipy.special
from jax.scipy import special

from edgec import runtime, toolchain
from edgec.toolchain.passes.legalise.spelled_functions import SpelledFunctions
from tests.toolchain.passes.before_after import rewrite

RNG = np.random.default_rng(5)
BOTH_SIGNS = (10.0 ** RNG.uniform(-37, 30, 3000) * RNG.choice([-1, 1], 3000)).astype(np.float32)


def called(function: Callable, inputs: tuple[np.ndarray, ...], target: str, folder: Path):
    (folder / "f.mlir").write_text(jax.jit(function).lower(*inputs).as_text())
    with runtime.load(toolchain.compile(folder / "f.mlir", target)) as loaded:
        return np.asarray(loaded.main(*inputs))


@pytest.mark.parametrize("target", ["cpu", "vulkan"])
def test_digamma_of_any_size(target: str, tmp_path) -> None:
    actual = called(special.digamma, (BOTH_SIGNS,), target, tmp_path)
    expected = scipy.special.digamma(BOTH_SIGNS.astype(np.float64))
    # Beyond 2^24 every number of f32 is whole: digamma has a pole at each negative one.
    meant = BOTH_SIGNS > -(2.0**20)
    np.testing.assert_allclose(actual[meant], expected[meant], rtol=3e-4, atol=1e-5)


@pytest.mark.parametrize(
    "name",
    ["polygamma", "zeta"],
)
def test_functions_of_two_numbers(name: str, tmp_path) -> None:
    function, right = getattr(special, name), getattr(scipy.special, name)
    order = RNG.integers(2, 6, 500).astype(np.int32 if name == "polygamma" else np.float32)
    x = RNG.uniform(0.5, 20, 500).astype(np.float32)
    actual = called(function, (order, x), "cpu", tmp_path)
    np.testing.assert_allclose(actual, right(order.astype(int), x.astype(float)), rtol=2e-4)


def test_half_precision_and_gammas_logarithm(tmp_path) -> None:
    x = RNG.uniform(-3.9, 30, 500).astype(np.float16)
    actual = called(special.gammaln, (x,), "cpu", tmp_path)
    expected = scipy.special.gammaln(x.astype(np.float64))
    np.testing.assert_allclose(actual.astype(float), expected, rtol=2e-3, atol=2e-3)


def test_erf_stays_whole_for_kernels() -> None:
    text = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = chlo.erf %x : tensor<4xf32> -> tensor<4xf32>
  %1 = chlo.digamma %0 : tensor<4xf32> -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
"""
    count, after = rewrite(SpelledFunctions(), text)
    assert count == 1
    assert "chlo.erf" in after
    assert "chlo.digamma" not in after
