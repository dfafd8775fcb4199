"""Wide poolings become one along each axis, and give what NumPy's windows do."""

from pathlib import Path

import numpy as np
import pytest
from iree.compiler import ir

from edgec import runtime, toolchain
from edgec.toolchain.passes.simplify.separable_windows import SeparableWindows
from edgec.toolchain.stablehlo import parse_stablehlo

POOL = """
func.func @main(%x: tensor<1x9x11x4xf32>) -> tensor<1x{h}x{w}x4xf32> {{
  %start = stablehlo.constant dense<{start}> : tensor<f32>
  %0 = "stablehlo.reduce_window"(%x, %start) ({{
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.{kind} %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }}) {{window_dimensions = array<i64: 1, {size}, {size}, 1>,
       window_strides = array<i64: 1, {step}, {step}, 1>,
       padding = dense<[[0, 0], [{pad}, {pad}], [{pad}, {pad}], [0, 0]]> : tensor<4x2xi64>}}
    : (tensor<1x9x11x4xf32>, tensor<f32>) -> tensor<1x{h}x{w}x4xf32>
  return %0 : tensor<1x{h}x{w}x4xf32>
}}"""


def pool(kind: str, start: str, *, size: int, step: int = 1, pad: int = 0) -> str:
    height, width = ((n + 2 * pad - size) // step + 1 for n in (9, 11))
    return POOL.format(kind=kind, start=start, size=size, step=step, pad=pad, h=height, w=width)


@pytest.mark.parametrize(
    ("text", "splits"),
    [
        (pool("maximum", "0xFF800000", size=5, pad=2), True),
        (pool("add", "0.0", size=5, pad=2), True),
        (pool("maximum", "1.0", size=5, pad=2), True),
        (pool("add", "1.0", size=5, pad=2), False),  # the beginning counts, and would count twice
        (pool("maximum", "0xFF800000", size=3, pad=1), False),  # too few steps are saved
        (pool("maximum", "0xFF800000", size=4, step=4), False),  # nothing overlaps
    ],
)
def test_windows_that_overlap_are_split(text: str, splits: bool) -> None:
    with ir.Context() as context:
        module = parse_stablehlo(text, context)
        assert SeparableWindows().run(module) == splits
        assert module.operation.verify()
        assert ("stablehlo.reduce_window" in str(module)) != splits
        assert str(module).count("stablehlo.slice") == (10 if splits else 0)


@pytest.mark.parametrize(
    ("kind", "start", "size", "step", "pad"),
    [("maximum", "0xFF800000", 5, 1, 2), ("minimum", "0.0", 7, 2, 3), ("add", "0.0", 5, 1, 1)],
)
def test_the_answers_are_those_of_whole_windows(
    kind: str, start: str, size: int, step: int, pad: int, tmp_path: Path
) -> None:
    (tmp_path / "pool.mlir").write_text(pool(kind, start, size=size, step=step, pad=pad))
    module = toolchain.compile(tmp_path / "pool.mlir", "cpu")
    x = np.random.default_rng(0).standard_normal((1, 9, 11, 4)).astype(np.float32)
    edge = -np.inf if kind == "maximum" else 0.0
    wide = np.pad(x, [(0, 0), (pad, pad), (pad, pad), (0, 0)], constant_values=edge)
    views = np.lib.stride_tricks.sliding_window_view(wide, (size, size), axis=(1, 2))
    function = getattr(np, kind)
    expected = function.reduce(views[:, ::step, ::step], axis=(-1, -2))
    if kind == "minimum":
        expected = np.minimum(expected, 0)
    with runtime.load(module) as loaded:
        np.testing.assert_allclose(loaded.main(x), expected, rtol=1e-5, atol=1e-5)
