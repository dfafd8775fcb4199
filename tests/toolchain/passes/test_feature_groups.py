"""Convolutions in groups of batches, the gradients of grouped ones, beside JAX's answers."""

from pathlib import Path

import jax
import numpy as np
import pytest
from jax import lax

from edgec import runtime, toolchain
from edgec.toolchain.passes.legalise.feature_groups import FeatureGroups
from tests.toolchain.passes.before_after import rewrite

RNG = np.random.default_rng(4)
CASES = {  # image, kernel, layout, groups of batches
    "rows and columns": ((4, 6, 6, 3), (3, 3, 3, 4), ("NHWC", "HWIO", "NHWC"), 2),
    "channels first": ((6, 3, 5, 7), (3, 3, 3, 6), ("NCHW", "HWIO", "NCHW"), 3),
    "batch last": ((5, 5, 4, 6), (3, 3, 4, 6), ("HWCN", "HWIO", "HWCN"), 2),
    "one axis": ((4, 9, 3), (3, 3, 4), ("NWC", "WIO", "NWC"), 2),
    "a group for each image": ((16, 8, 8, 4), (3, 3, 4, 32), ("NHWC", "HWIO", "NHWC"), 16),
}


def written(case: str, dtype: type = np.float32) -> tuple[str, list[np.ndarray], np.ndarray]:
    """The program, whole numbers to call it with, and JAX's answer."""
    image, kernel, layout, groups = CASES[case]
    given = [RNG.integers(-3, 4, sizes).astype(dtype) for sizes in (image, kernel)]

    def convolve(x: jax.Array, w: jax.Array) -> jax.Array:
        strides = (1,) * (len(image) - 2)
        return lax.conv_general_dilated(
            x, w, strides, "SAME", dimension_numbers=layout, batch_group_count=groups
        )

    text = jax.jit(convolve).lower(*given).as_text()
    return text, given, np.asarray(convolve(*given))


@pytest.mark.sweep(fast=2)
@pytest.mark.vulkan
@pytest.mark.parametrize("case", CASES)
def test_groups_of_batches_are_right_on_vulkan(case: str, tmp_path: Path) -> None:
    text, given, expected = written(case)
    (tmp_path / "f.mlir").write_text(text)
    with runtime.load(toolchain.compile(tmp_path / "f.mlir", "vulkan")) as loaded:
        np.testing.assert_array_equal(loaded.main(*given), expected)


@pytest.mark.parametrize("case", CASES)
def test_they_become_groups_of_features(case: str) -> None:
    count, after = rewrite(FeatureGroups(), written(case)[0])
    assert count == 1
    assert "batch_group_count = 1" in after
    assert f"feature_group_count = {CASES[case][3]}" in after


@pytest.mark.parametrize("case", ["rows and columns", "one axis"])
def test_halves_have_a_module_for_cuda(case: str, tmp_path: Path) -> None:
    (tmp_path / "f.mlir").write_text(written(case, np.float16)[0])
    assert "cuda" in repr(toolchain.compile(tmp_path / "f.mlir", "cuda:sm_80"))
