"""Kernels may call functions of the C library: those that edgert exports, or that are linked in."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from edgec import toolchain
from edgec.targets import find
from edgec.toolchain.linker import LIBRARY, linker_flag
from scripts import armv7_functions as functions

MAXIMUM = """
func.func public @main(%x: tensor<4x8xf32>) -> (tensor<4xf32>, tensor<4x8xf32>) {
  %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %three = stablehlo.constant dense<3.0> : tensor<4x8xf32>
  %0 = stablehlo.reduce(%x init: %least) applies stablehlo.maximum across dimensions = [1]
    : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = stablehlo.remainder %x, %three : tensor<4x8xf32>
  return %0, %1 : tensor<4xf32>, tensor<4x8xf32>
}
"""


@pytest.mark.parametrize("target", ["wasm", "wasm:plain"])
def test_maxima_and_remainders_are_imports_that_edgert_has(target: str, tmp_path: Path) -> None:
    source = tmp_path / "maximum.mlir"
    source.write_text(MAXIMUM)
    options = toolchain.CompileOptions(output=tmp_path / "maximum.vmfb")
    data = toolchain.compile(source, target, options).path.read_bytes()
    # In an import section: the length of `env`, `env`, the length of a name, the name, 0: function.
    names = {
        found[2].decode()
        for found in re.finditer(rb"\x03env([\x02-\x10])(\w+)\x00", data)
        if found[1][0] == len(found[2])
    }
    assert "fmodf" in names
    assert names <= set(LIBRARY)


DIVISIONS = """
func.func public @main(%x: tensor<?x4xi32>, %y: tensor<4xi64>) -> (tensor<?x4xi32>, tensor<4xi64>) {
  %seven = stablehlo.constant dense<7> : tensor<4xi64>
  %0 = stablehlo.remainder %x, %x : tensor<?x4xi32>
  %1 = stablehlo.divide %y, %seven : tensor<4xi64>
  return %0, %1 : tensor<?x4xi32>, tensor<4xi64>
}
"""


@pytest.mark.parametrize("text", [MAXIMUM, DIVISIONS])
def test_arm_of_32_bits_gets_its_functions_linked_in(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.mlir").write_text(text)
    options = toolchain.CompileOptions(output=tmp_path / "x.vmfb")
    module = toolchain.compile(tmp_path / "x.mlir", "cpu:armv7", options)
    assert list(module.signatures) == ["main"]


@pytest.mark.slow
def test_those_functions_answer_as_this_machines_library(tmp_path: Path) -> None:
    pytest.importorskip("ziglang")
    if shutil.which("qemu-arm") is None:
        pytest.skip("no qemu-arm: run scripts/setup")
    said = []
    for target, objects, emulator in (
        ("arm-linux-musleabihf", [functions.FOLDER / "functions.o"], ["qemu-arm", "-cpu", "max"]),
        ("native", [], []),
    ):
        program = tmp_path / target
        command = [sys.executable, "-m", "ziglang", "cc", "-target", target, "-O1", "-fno-builtin"]
        # Stripped, as edgert for that machine is: else zig would build another C library.
        command += ["-static", "-s"] if objects else []
        source = Path(__file__).with_name("armv7_functions.c")
        command += [source, *objects, "-lm", "-o", program]
        subprocess.run(command, check=True, cwd=tmp_path)  # as edgert is built
        done = subprocess.run([*emulator, program], capture_output=True, text=True, check=True)
        said.append(done.stdout.splitlines())
    assert len(said[0]) > 1000
    assert said[0] == said[1]


def test_the_object_is_what_its_source_compiles_to(tmp_path: Path) -> None:
    pytest.importorskip("ziglang")
    functions.build(tmp_path / "functions.o")
    built = (tmp_path / "functions.o").read_bytes()
    assert built == (functions.FOLDER / "functions.o").read_bytes()


def test_only_webassembly_and_arm_of_32_bits_have_a_linker_of_their_own() -> None:
    module = Path("x.vmfb")
    flag = "--iree-llvmcpu-embedded-linker-path=x.linker"
    assert linker_flag(find("cpu:armv7"), module) == [flag]
    assert linker_flag(find("wasm"), module) == ["--iree-llvmcpu-wasm-linker-path=x.linker"]
    assert linker_flag(find("cpu:arm64"), module) == []
    assert linker_flag(find("vulkan"), module) == []
