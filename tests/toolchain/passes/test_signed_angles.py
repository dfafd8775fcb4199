"""Angles at zero, at infinity and on both sides of the cut are NumPy's."""

from pathlib import Path

import numpy as np
import pytest

from edgec.toolchain.passes.legalise.signed_angles import SignedAngles
from tests.toolchain.passes.before_after import rewrite, run

PARTS = (0.0, -0.0, 6e-3, -6e-3, 0.5, -1.0, 3.0, -50.0, np.inf, -np.inf, np.nan)
ANGLE = """
func.func @main(%y: tensor<11x11xf32>, %x: tensor<11x11xf32>) -> tensor<11x11xf32> {
  %0 = stablehlo.atan2 %y, %x : tensor<11x11xf32>
  return %0 : tensor<11x11xf32>
}"""


@pytest.mark.parametrize("target", ["cpu", pytest.param("vulkan", marks=pytest.mark.vulkan)])
def test_angles_have_the_sign_of_the_height(target: str, tmp_path: Path) -> None:
    y, x = np.meshgrid(np.array(PARTS, np.float32), np.array(PARTS, np.float32))
    if target == "vulkan":  # whose compilers need not know what is no number, nor infinity
        y, x = (np.where(np.isfinite(part), part, 1) for part in (y, x))
    found, want = run(ANGLE, tmp_path, y, x, target=target), np.arctan2(y, x)
    np.testing.assert_allclose(found, want, rtol=1e-5)
    np.testing.assert_array_equal(np.signbit(found[want == 0]), np.signbit(want[want == 0]))


def test_halves_are_right_too(tmp_path: Path) -> None:
    y, x = np.meshgrid(np.array(PARTS, np.float16), np.array(PARTS, np.float16))
    found = run(ANGLE.replace("f32", "f16"), tmp_path, y, x)
    np.testing.assert_allclose(found, np.arctan2(y, x), rtol=2e-3)


def test_angles_of_wide_floats_are_left_to_another_pass() -> None:
    assert rewrite(SignedAngles(), ANGLE)[0] == 1
    assert rewrite(SignedAngles(), ANGLE.replace("f32", "f64"))[0] == 0
