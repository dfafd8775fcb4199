"""Windows that fit once along an axis, with more behind them than they read, beside JAX."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from iree.compiler import ir
from jax import lax

from edgec import runtime, toolchain
from edgec.toolchain.passes.legalise.trim_unread import TrimUnread
from edgec.toolchain.stablehlo import parse_stablehlo

RANDOM = np.random.default_rng(4)
KERNEL = RANDOM.standard_normal((3, 2, 4, 5)).astype(np.float32)
LAYOUT = ("NHWC", "HWIO", "NHWC")


def mean(x: Any) -> Any:
    return lax.reduce_window(x, 0.0, lax.add, (1, 3, 2, 1), (1, 3, 2, 1), "VALID")


def padded(x: Any) -> Any:
    return lax.reduce_window(
        x, -np.inf, lax.max, (1, 4, 2, 1), (1, 5, 2, 1), [(0, 0), (1, 3), (0, 0), (0, 0)]
    )


def convolved(x: Any) -> Any:
    return lax.conv_general_dilated(x, KERNEL, (3, 2), "VALID", dimension_numbers=LAYOUT)


def spread(x: Any) -> Any:
    """A kernel whose elements are two apart, over rows two apart."""
    return lax.conv_general_dilated(
        x, KERNEL, (9, 2), [(0, 1), (0, 0)], (2, 1), (2, 1), dimension_numbers=LAYOUT
    )


def whole(x: Any) -> Any:
    """Two results along the axis: the compiler takes that."""
    return lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


@pytest.mark.parametrize(
    ("function", "changed"), [(mean, 1), (padded, 1), (convolved, 1), (spread, 1), (whole, 0)]
)
def test_what_is_not_read_goes(
    function: Callable[[Any], Any], changed: int, tmp_path: Path
) -> None:
    x = RANDOM.standard_normal((1, 4, 8, 4)).astype(np.float32)
    text = str(jax.jit(function).lower(x).compiler_ir("stablehlo"))
    with ir.Context() as context:
        module = parse_stablehlo(text, context)
        assert TrimUnread().run(module) == changed
        assert module.operation.verify()
    (tmp_path / "case.mlir").write_text(text)
    with runtime.load(toolchain.compile(tmp_path / "case.mlir", "cpu")) as loaded:
        np.testing.assert_allclose(loaded.main(x), function(x), rtol=1e-5, atol=1e-5)
