"""Modules say how many lanes a subgroup must have, where their kernels' sums depend on it."""

from pathlib import Path

import numpy as np
import pytest

from edgec import runtime
from edgec.runtime.errors import EdgecError
from edgec.runtime.spirv import asks_of_subgroups
from edgec.runtime.vmfb import parse
from edgec.toolchain import CompileOptions, compile
from edgec.toolchain.spirv_words import operations
from edgec.toolchain.vulkan_executables import FORMAT, codes, opened
from tests.toolchain.test_spirv import SUM, TANH

NORM = """
func.func public @main(%x: tensor<6x768xf32>) -> tensor<6x768xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %n = stablehlo.constant dense<768.0> : tensor<6xf32>
  %e = stablehlo.constant dense<1.0e-5> : tensor<6xf32>
  %sum = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<6x768xf32>, tensor<f32>) -> tensor<6xf32>
  %mean = stablehlo.divide %sum, %n : tensor<6xf32>
  %means = stablehlo.broadcast_in_dim %mean, dims = [0] : (tensor<6xf32>) -> tensor<6x768xf32>
  %m = stablehlo.subtract %x, %means : tensor<6x768xf32>
  %s = stablehlo.multiply %m, %m : tensor<6x768xf32>
  %squares = stablehlo.reduce(%s init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<6x768xf32>, tensor<f32>) -> tensor<6xf32>
  %v = stablehlo.divide %squares, %n : tensor<6xf32>
  %w = stablehlo.add %v, %e : tensor<6xf32>
  %r = stablehlo.rsqrt %w : tensor<6xf32>
  %f = stablehlo.broadcast_in_dim %r, dims = [0] : (tensor<6xf32>) -> tensor<6x768xf32>
  %y = stablehlo.multiply %m, %f : tensor<6x768xf32>
  return %y : tensor<6x768xf32>
}
"""
PIPELINES, SUBGROUP = 0, 3
MODE, ARRAY, POINTER, CONSTANT = 16, 28, 32, 43
LOCAL_SIZE, WORKGROUP = 17, 4


def compiled(text: str, target: str, folder: Path) -> Path:
    source, module = folder / "m.mlir", folder / "m.vmfb"
    source.write_text(text)
    options = CompileOptions(output=module, check=False, cache=False)
    compile(source, target, options)
    return module


def said_and_done(module: Path) -> list[tuple[int, int]]:
    """Of each kernel, the lanes that its module says and those that its code counts on.

    A subgroup leaves one partial sum in the workgroup's memory: lanes are threads by its places.
    """
    found = []
    data = module.read_bytes()
    for segment in parse(memoryview(data), "m").segments:
        if segment.code == FORMAT:
            content = data[segment.offset : segment.offset + segment.size]
            table = opened(content)
            for pipeline, code in zip(table.tables(PIPELINES), codes(content, table), strict=True):
                words = list(operations(code))
                numbers = {g[1]: g[2] for op, g in words if op == CONSTANT and len(g) == 3}
                (threads,) = (g[2] for op, g in words if op == MODE and g[1] == LOCAL_SIZE)
                sums = [numbers[g[2]] for op, g in words if op == ARRAY and g[2] in numbers]
                shares = any(op == POINTER and g[1] == WORKGROUP for op, g in words)
                found.append((pipeline.u32(SUBGROUP), threads // sums[0] if shares else 0))
    return found


@pytest.mark.parametrize(
    ("target", "lanes"),
    [("vulkan:nvidia-ada", 32), ("vulkan:amd-rdna3", 32), ("vulkan:mali-g77", 16)],
)
def test_a_sum_says_how_many_lanes_its_code_counts_on(
    target: str, lanes: int, tmp_path: Path
) -> None:
    assert said_and_done(compiled(SUM, target, tmp_path)) == [(lanes, lanes)]


@pytest.mark.parametrize(
    ("text", "target"), [(TANH, "vulkan:nvidia-ada"), (SUM, "vulkan")], ids=["tanh", "any"]
)
def test_what_counts_on_no_lanes_says_none(text: str, target: str, tmp_path: Path) -> None:
    assert {said for said, _ in said_and_done(compiled(text, target, tmp_path))} == {0}


@pytest.mark.vulkan
@pytest.mark.parametrize("device", ["vulkan", "edgert://vulkan"])
def test_a_device_with_other_subgroups_refuses_the_module(device: str, tmp_path: Path) -> None:
    module = compiled(SUM, "vulkan:nvidia-ada", tmp_path)
    with pytest.raises(EdgecError, match="subgroup") as caught:
        runtime.load(module, device=device)
    assert "compile the program for this device" in str(caught.value.hint)


@pytest.mark.vulkan
def test_a_kernel_of_edgecs_own_is_right_where_subgroups_are_others(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(6, 768)).astype(np.float32)
    middle = x - x.mean(-1, keepdims=True)
    wanted = middle / np.sqrt((middle**2).mean(-1, keepdims=True) + 1e-5)
    module = compiled(NORM, "vulkan:nvidia-ada", tmp_path)
    assert asks_of_subgroups(module)
    with runtime.load(module, device="edgert://vulkan") as loaded:
        np.testing.assert_allclose(loaded.main(x), wanted, atol=1e-5)
