"""Windows and convolutions of padded and cut images, beside JAX."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from iree.compiler import ir
from jax import lax

from edgec import runtime, toolchain
from edgec.toolchain.passes.simplify.whole_images import WholeImages
from edgec.toolchain.stablehlo import parse_stablehlo

RANDOM = np.random.default_rng(4)
KERNEL = RANDOM.standard_normal((6, 4, 3, 3)).astype(np.float32)
POINT = RANDOM.standard_normal((6, 4, 1, 1)).astype(np.float32)
ENDS = [(0, 0, 0), (0, 0, 0), (0, 1, 0), (2, 1, 0)]


def largest(x: Any, around: float = -np.inf, step: int = 2) -> Any:
    wide = lax.pad(x, np.float32(around), ENDS)
    return lax.reduce_window(wide, -np.inf, lax.max, (1, 1, 3, 3), (1, 1, step, step), "VALID")


def zeros_before_largest(x: Any) -> Any:
    return largest(x, 0.0)


def mean(x: Any) -> Any:
    wide = lax.pad(x, np.float32(0), ENDS)
    pads = [(0, 0), (0, 0), (1, 0), (0, 1)]
    return lax.reduce_window(wide, 0.0, lax.add, (1, 1, 3, 3), (1, 1, 1, 1), pads) / 9


def convolved(x: Any) -> Any:
    wide = lax.pad(x, np.float32(0), ENDS)
    return lax.conv_general_dilated(wide, KERNEL, (2, 1), [(1, 1), (0, 0)], rhs_dilation=(1, 2))


def other_channels(x: Any) -> Any:
    wide = lax.pad(x[:, :3], np.float32(0), [(0, 0, 0), (0, 1, 0), (0, 0, 0), (0, 0, 0)])
    return lax.conv_general_dilated(wide, KERNEL, (1, 1), "VALID")


def spread(x: Any) -> Any:
    wide = lax.pad(x, np.float32(0), [(0, 0, 0), (0, 0, 0), (0, 0, 1), (0, 0, 1)])
    return lax.conv_general_dilated(wide, KERNEL, (1, 1), "VALID")


def unread(x: Any) -> Any:
    return lax.conv_general_dilated(x[:, :, :9][:, :, :, :7], POINT, (2, 2), "VALID")


def cut(x: Any) -> Any:
    return lax.conv_general_dilated(x[:, :, :8, :7], POINT, (2, 2), "VALID")


def cut_and_padded(x: Any) -> Any:
    return lax.conv_general_dilated(x[:, :, :9], KERNEL, (2, 2), [(0, 1), (0, 0)])


def cut_before(x: Any) -> Any:
    return lax.reduce_window(x[:, :, 1:], np.inf, lax.min, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")


@pytest.mark.parametrize(
    ("function", "changed"),
    [
        (largest, 1),
        (zeros_before_largest, 0),
        (mean, 1),
        (convolved, 1),
        (other_channels, 0),
        (spread, 0),
        (unread, 2),
        (cut, 0),
        (cut_and_padded, 0),
        (cut_before, 0),
    ],
)
def test_windows_read_the_image_where_that_is_the_same(
    function: Callable[[Any], Any], changed: int, tmp_path: Path
) -> None:
    x = RANDOM.standard_normal((1, 4, 10, 8)).astype(np.float32)
    text = str(jax.jit(function).lower(x).compiler_ir("stablehlo"))
    with ir.Context() as context:
        module = parse_stablehlo(text, context)
        assert WholeImages().run(module) == changed
        assert module.operation.verify()
    if not changed:
        return
    (tmp_path / "case.mlir").write_text(text)
    with runtime.load(toolchain.compile(tmp_path / "case.mlir", "cpu")) as loaded:
        np.testing.assert_allclose(loaded.main(x), function(x), rtol=1e-5, atol=1e-5)
