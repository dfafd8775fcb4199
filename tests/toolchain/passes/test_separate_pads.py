"""What is padded twice, by different numbers, compiles and is right."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edgec import exporters, runtime, toolchain
from edgec.toolchain.passes.legalise.separate_pads import SeparatePads
from tests.toolchain.passes.before_after import rewrite

RANDOM = np.random.default_rng(4)
MATRIX, LEFT, RIGHT = (
    RANDOM.normal(size=size).astype(np.float32) for size in ((12, 17), (12, 8), (8, 17))
)
IMAGE, KERNEL = (
    RANDOM.normal(size=size).astype(np.float32) for size in ((1, 8, 8, 4), (3, 3, 4, 8))
)


def pooled(x: Any) -> Any:
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (2,) * x.ndim, (1,) * x.ndim, "SAME")


def padded(x: Any) -> Any:
    return jnp.pad(x, 2, constant_values=1.5)


def convolved(x: Any, kernel: Any) -> Any:
    wide = jnp.pad(jnp.abs(x), ((0, 0), (1, 2), (1, 2), (0, 0)), constant_values=1.5)
    return jax.lax.conv_general_dilated(
        wide, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


CASES: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "pool of padded": (lambda x: pooled(padded(jnp.abs(x))), (MATRIX,)),
    "pool of padded twice": (lambda x: pooled(padded(jnp.abs(padded(x)))), (MATRIX,)),
    "padded pool": (lambda x, y: padded(pooled(pooled(x @ y))), (LEFT, RIGHT)),
    "convolution of padded": (convolved, (IMAGE, KERNEL)),
}


@pytest.mark.sweep(fast=4)
@pytest.mark.parametrize("target", ["cpu", pytest.param("vulkan", marks=pytest.mark.vulkan)])
@pytest.mark.parametrize("case", CASES)
def test_it_is_right(case: str, target: str, tmp_path: Path) -> None:
    function, inputs = CASES[case]
    options = toolchain.CompileOptions(output=tmp_path / "case.vmfb", check=False)
    toolchain.compile(exporters.export(function, inputs), target, options)
    with runtime.load(options.output) as module:
        answer = module["main"].call_flat(list(inputs))[0].numpy()
    np.testing.assert_allclose(answer, function(*inputs), atol=1e-5)


POOL = """
func.func @main(%x: tensor<12x17xf32>) -> tensor<16x21xf32> {{
  %edge = stablehlo.constant dense<1.5> : tensor<f32>
  %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %a = stablehlo.abs %x : tensor<12x17xf32>
  %p = stablehlo.pad %a, %edge, low = [2, 2], high = [2, 2], interior = [0, 0]
    : (tensor<12x17xf32>, tensor<f32>) -> tensor<16x21xf32>
  %y = "stablehlo.reduce_window"(%p, %least) ({{
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %m = stablehlo.maximum %l, %r : tensor<f32>
      stablehlo.return %m : tensor<f32>
  }}) {{window_dimensions = array<i64: {window}>, padding = dense<{padding}> : tensor<2x2xi64>}}
    : (tensor<16x21xf32>, tensor<f32>) -> tensor<16x21xf32>
  return %y : tensor<16x21xf32>
}}"""
PADDED_TWICE = POOL.format(window="2, 2", padding="[[0, 1], [0, 1]]")


@pytest.mark.parametrize(
    ("text", "expected"),
    [(PADDED_TWICE, 1), (POOL.format(window="1, 1", padding="0"), 0)],
    ids=["with padding", "without"],
)
def test_only_windows_with_padding_are_fenced(text: str, expected: int) -> None:
    count, after = rewrite(SeparatePads(), text)
    assert count == expected
    assert after.count("compute_barrier") == expected
