"""Quantised layers on (emulated) 64-bit Arm: products of bytes by `sdot` are exact."""

from pathlib import Path

import numpy as np
import pytest

from edgec import toolchain

PROGRAM = """
func.func public @main(%x: tensor<9x{inner}xf32>) -> tensor<9x29xf32> {{
  %w = stablehlo.constant dense<{weights}> : tensor<{inner}x29xi8>
  %ws = stablehlo.constant dense<0.5> : tensor<{inner}x29xf32>
  %s = stablehlo.constant dense<0.25> : tensor<9x{inner}xf32>
  %z = stablehlo.constant dense<7.0> : tensor<9x{inner}xf32>
  %low = stablehlo.constant dense<0.0> : tensor<9x{inner}xf32>
  %high = stablehlo.constant dense<255.0> : tensor<9x{inner}xf32>
  %t = stablehlo.constant dense<32.0> : tensor<9x29xf32>
  %low2 = stablehlo.constant dense<-128.0> : tensor<9x29xf32>
  %high2 = stablehlo.constant dense<127.0> : tensor<9x29xf32>
  %0 = stablehlo.divide %x, %s : tensor<9x{inner}xf32>
  %1 = stablehlo.round_nearest_even %0 : tensor<9x{inner}xf32>
  %2 = stablehlo.add %1, %z : tensor<9x{inner}xf32>
  %3 = stablehlo.clamp %low, %2, %high : tensor<9x{inner}xf32>
  %4 = stablehlo.subtract %3, %z : tensor<9x{inner}xf32>
  %5 = stablehlo.multiply %4, %s : tensor<9x{inner}xf32>
  %6 = stablehlo.convert %w : (tensor<{inner}x29xi8>) -> tensor<{inner}x29xf32>
  %7 = stablehlo.multiply %6, %ws : tensor<{inner}x29xf32>
  %8 = stablehlo.dot_general %5, %7, contracting_dims = [1] x [0]
    : (tensor<9x{inner}xf32>, tensor<{inner}x29xf32>) -> tensor<9x29xf32>
  %9 = stablehlo.divide %8, %t : tensor<9x29xf32>
  %10 = stablehlo.round_nearest_even %9 : tensor<9x29xf32>
  %11 = stablehlo.clamp %low2, %10, %high2 : tensor<9x29xf32>
  return %11 : tensor<9x29xf32>
}}
"""


@pytest.mark.parametrize("inner", [24, 32], ids=["by fours", "by sixteens"])
def test_products_of_bytes_are_exact(run_on_aarch64, inner: int, tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    weights = random.integers(-128, 128, (inner, 29))
    source = tmp_path / "bytes.mlir"
    source.write_text(PROGRAM.format(weights=weights.tolist(), inner=inner))
    options = toolchain.CompileOptions(output=tmp_path / "bytes.vmfb", cache=False)
    module = toolchain.compile(source, "cpu:arm64-v8.2", options)
    x = (random.integers(-80, 300, (9, inner)) / 8).astype(np.float32)
    (found,) = run_on_aarch64(module.path, {"x": x}, outputs=1)
    # Every scale is a power of two, so that halves are halves here, too.
    steps = np.clip(np.rint(x / 0.25) + 7, 0, 255) - 7
    expected = np.clip(np.rint(steps @ weights * (0.25 * 0.5 / 32)), -128, 127)
    np.testing.assert_array_equal(found, expected)
