"""Powers of negative numbers have their sign, and are NumPy's on each target."""

from pathlib import Path

import numpy as np
import pytest

from edgec import runtime, toolchain
from edgec.toolchain.passes.legalise.signed_powers import SignedPowers
from tests.toolchain.passes.before_after import rewrite

BASES = (-2.5, -2, -1, -0.76, 0, 0.5, 1, 3)
EXPONENTS = (0, 1, 2, 3, 5, -2, -3, 0.5, 2.5)


def constant_power(exponent: float) -> str:
    return f"""
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {{
  %c = stablehlo.constant dense<{float(exponent)}> : tensor<f32>
  %y = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> tensor<8xf32>
  %0 = stablehlo.power %x, %y : tensor<8xf32>
  return %0 : tensor<8xf32>
}}"""


ANY = """
func.func @main(%x: tensor<72xf32>, %y: tensor<72xf32>) -> tensor<72xf32> {
  %0 = stablehlo.power %x, %y : tensor<72xf32>
  return %0 : tensor<72xf32>
}"""


@pytest.mark.parametrize(("exponent", "products"), [(1, 0), (4, 2), (5, 3), (-3, 2)])
def test_a_whole_constant_exponent_becomes_products(exponent: float, products: int) -> None:
    count, after = rewrite(SignedPowers(), constant_power(exponent))
    assert count == 1
    assert after.count("stablehlo.multiply") == products
    assert "stablehlo.power" not in after
    assert ("stablehlo.divide" in after) == (exponent < 0)


def test_a_broken_constant_exponent_stays() -> None:
    assert rewrite(SignedPowers(), constant_power(0.5))[0] == 0


def test_any_other_power_is_of_the_size_of_its_base() -> None:
    count, after = rewrite(SignedPowers(), ANY)
    assert count == 1
    sizes = after.index("stablehlo.abs")
    assert sizes < after.index("stablehlo.power") < after.index("stablehlo.negate")


@pytest.mark.parametrize("target", ["cpu", pytest.param("vulkan", marks=pytest.mark.vulkan)])
def test_powers_are_those_of_numpy(target: str, tmp_path: Path) -> None:
    x, y = (v.ravel().astype(np.float32) for v in np.meshgrid(BASES, EXPONENTS))
    with np.errstate(all="ignore"):
        expected = np.power(x, y)
    (tmp_path / "case.mlir").write_text(ANY)
    with runtime.load(toolchain.compile(tmp_path / "case.mlir", target)) as loaded:
        np.testing.assert_allclose(loaded.main(x, y), expected, rtol=1e-4)


@pytest.mark.parametrize("exponent", [0, -3, 17])
def test_constant_powers_are_those_of_numpy(exponent: float, tmp_path: Path) -> None:
    x = np.array(BASES, np.float32)
    with np.errstate(all="ignore"):
        expected = np.power(x, np.float32(exponent))
    (tmp_path / "case.mlir").write_text(constant_power(exponent))
    with runtime.load(toolchain.compile(tmp_path / "case.mlir", "cpu")) as loaded:
        np.testing.assert_allclose(loaded.main(x), expected, rtol=1e-4)
