import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from edgec.targets import Target, catalogue, find
from edgec.toolchain import CompileOptions, compile
from edgec.toolchain.flags import command_line, compile_flags
from edgec.toolchain.process import compiler_path

FAST = ("cpu:arm64-v8.2", "cpu:armv7", "cpu:riscv64", "vulkan:adreno", "cuda", "rocm", "wasm")
FORMATS = {
    "local-task": "embedded-elf-",
    "wasm": "system-wasm-",
    "vulkan": "vulkan-spirv-",
    "cuda": "cuda-nvptx-",
    "hip": "rocm-hsaco-",
    "metal": "metal-msl-",
    "webgpu": "webgpu-wgsl",
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


def test_the_formats_of_all_drivers_are_known():
    assert FORMATS.keys() == {target.driver for target in catalogue()}


@pytest.mark.slow
@pytest.mark.parametrize("target", catalogue(), ids=lambda target: target.name)
def test_the_compiler_has_code_for_every_target(target: Target, tmp_path: Path):
    check(target, tmp_path)


HALVES = """
func.func @main(%x: tensor<64x64xKIND>, %w: tensor<64x96xKIND>, %i: tensor<1x16x16x32xKIND>,
    %k: tensor<3x3x32x64xKIND>) -> (tensor<64x96xf32>, tensor<1x14x14x64xKIND>) {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<64x64xKIND>, tensor<64x96xKIND>) -> tensor<64x96xf32>
  %1 = stablehlo.convolution(%i, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
    window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x16x16x32xKIND>, tensor<3x3x32x64xKIND>) -> tensor<1x14x14x64xKIND>
  return %0, %1 : tensor<64x96xf32>, tensor<1x14x14x64xKIND>
}
"""


@pytest.mark.parametrize("name", ["cuda:sm_70", "cuda:sm_75"])
@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_halves_are_multiplied_where_matrix_units_are_too_old(
    name: str, kind: str, tmp_path: Path
) -> None:
    (tmp_path / "halves.mlir").write_text(HALVES.replace("KIND", kind))
    options = CompileOptions(output=tmp_path / "halves.vmfb", cache=False)
    module = compile(tmp_path / "halves.mlir", name, options)
    assert module.facts.target == name
    code = module.path.read_bytes()
    assert b".target sm_" + name[-2:].encode() in code
    assert b"mma." not in code


def test_the_compiler_alone_still_takes_newer_matrix_units_there(tmp_path: Path) -> None:
    target = replace(find("cuda:sm_75"), flags=())
    (tmp_path / "halves.mlir").write_text(HALVES.replace("KIND", "f16"))
    line = command_line(
        compiler_path(), tmp_path / "halves.mlir", tmp_path / "m.vmfb", compile_flags(target)
    )
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode != 0, "the compiler takes it now: see whether the target's flags may go"
    assert "mma.m16n8k16" in done.stderr
