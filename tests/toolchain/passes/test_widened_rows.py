"""Variances and the like of numbers in a narrower type, on Vulkan and WebGPU."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edgec import runtime, toolchain
from edgec.exporters import export
from edgec.runtime.errors import CompileError
from edgec.toolchain import CompileOptions
from edgec.toolchain.passes.legalise.widened_rows import WidenedRows
from tests.toolchain.passes.before_after import rewrite

ROWS = (4, 2048)
CENTRED = """
func.func @main(%x: tensor<4x2048xf16>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %y = stablehlo.convert %x : (tensor<4x2048xf16>) -> tensor<4x2048xf32>
  %sum = stablehlo.reduce(%y init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<4x2048xf32>, tensor<f32>) -> tensor<4xf32>
  %all = stablehlo.broadcast_in_dim %sum, dims = [0] : (tensor<4xf32>) -> tensor<4x2048xf32>
  %far = stablehlo.subtract %y, %all : tensor<4x2048xf32>
  %size = stablehlo.abs %far : tensor<4x2048xf32>
  %end = stablehlo.reduce(%size init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<4x2048xf32>, tensor<f32>) -> tensor<4xf32>
  return %end : tensor<4xf32>
}"""


def several(x):
    wide = x.astype(jnp.float32)
    far = jnp.abs(wide - wide.mean(-1, keepdims=True)).mean(-1)
    return wide.var(-1), jax.nn.logsumexp(wide * 1, -1), far


def test_what_is_read_twice_is_written() -> None:
    count, after = rewrite(WidenedRows(), CENTRED)
    assert count == after.count("compute_barrier.start") == 1


def test_others_stay() -> None:
    once = CENTRED.replace("subtract %y, %all", "subtract %all, %all")
    assert rewrite(WidenedRows(), once)[0] == 0
    as_wide = CENTRED.replace("xf16", "xf32")
    assert rewrite(WidenedRows(), as_wide)[0] == 0


@pytest.mark.parametrize(
    "target",
    ["vulkan", pytest.param("vulkan:mali-g715", marks=pytest.mark.slow), "webgpu"],
)
def test_small_devices_take_them(target: str, tmp_path: Path) -> None:
    program = export(several, (np.zeros((8, 4096), np.float16),))
    options = CompileOptions(output=tmp_path / "case.vmfb", cache=False, check=False)
    assert toolchain.compile(program, target, options).path.exists()
    without = CompileOptions(
        output=tmp_path / "not.vmfb", cache=False, check=False, disabled=("widened-rows",)
    )
    with pytest.raises(CompileError, match="shared memory"):
        toolchain.compile(program, target, without)


@pytest.mark.vulkan
@pytest.mark.parametrize("kind", [np.float16, np.int8])
def test_they_are_right(kind: type, tmp_path: Path) -> None:
    x = (np.random.default_rng(2).standard_normal(ROWS) * 9).astype(kind)
    program = export(several, (x,))
    options = CompileOptions(output=tmp_path / "case.vmfb", check=False)
    with runtime.load(toolchain.compile(program, "vulkan", options)) as loaded:
        found = loaded.main(x)
    wide = x.astype(np.float64)
    far = np.abs(wide - wide.mean(-1, keepdims=True)).mean(-1)
    for ours, theirs in zip(found, (wide.var(-1), np.log(np.exp(wide).sum(-1)), far), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5)
