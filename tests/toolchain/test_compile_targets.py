from pathlib import Path

import pytest

from edgec.targets import Target, catalogue, find
from edgec.toolchain import CompileOptions, compile

FAST = ("cpu:arm64-v8.2", "cpu:armv7", "cpu:riscv64", "vulkan:adreno", "cuda", "rocm", "wasm")
FORMATS = {
    "local-task": "embedded-elf-",
    "wasm": "system-wasm-",
    "vulkan": "vulkan-spirv-",
    "cuda": "cuda-nvptx-",
    "hip": "rocm-hsaco-",
    "metal": "metal-msl-",
}
SOFTMAX = """
func.func @main(%x: tensor<4x16xf32>, %w: tensor<16x7xf32>) -> tensor<4x7xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<4x16xf32>, tensor<16x7xf32>) -> tensor<4x7xf32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %1 = stablehlo.reduce(%0 init: %low) applies stablehlo.maximum across dimensions = [1]
    : (tensor<4x7xf32>, tensor<f32>) -> tensor<4xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<4xf32>) -> tensor<4x7xf32>
  %3 = stablehlo.subtract %0, %2 : tensor<4x7xf32>
  %4 = stablehlo.exponential %3 : tensor<4x7xf32>
  return %4 : tensor<4x7xf32>
}
"""


def check(target: Target, folder: Path) -> None:
    path = folder / "softmax.mlir"
    path.write_text(SOFTMAX)
    module = compile(path, target, CompileOptions(cache=False))
    assert module.facts.target == target.name
    assert module.facts.driver == target.driver
    assert module.facts.cpu_features == target.required_features
    assert [name.startswith(FORMATS[target.driver]) for name in module.formats] == [True]


@pytest.mark.parametrize("name", FAST)
def test_the_compiler_has_code_for_a_target_of_each_kind(name: str, tmp_path: Path):
    check(find(name), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("target", catalogue(), ids=lambda target: target.name)
def test_the_compiler_has_code_for_every_target(target: Target, tmp_path: Path):
    check(target, tmp_path)
