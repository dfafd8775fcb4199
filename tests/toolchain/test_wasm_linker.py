"""Kernels for WebAssembly may call the C library's functions that edgert exports, and no others."""

import re
from pathlib import Path

import pytest

from edgec import toolchain
from edgec.targets import find
from edgec.toolchain.wasm_linker import LIBRARY, linker_flag

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


def test_only_webassembly_has_that_linker() -> None:
    module = Path("x.vmfb")
    assert linker_flag(find("wasm"), module) == ["--iree-llvmcpu-wasm-linker-path=x.linker"]
    assert linker_flag(find("cpu:arm64"), module) == []
    assert linker_flag(find("vulkan"), module) == []
