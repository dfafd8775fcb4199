"""What a module's SPIR-V asks of a device, compared with SPIRV-Tools' own reading of it."""

import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from edgec.runtime.spirv import asks_of_subgroups, capabilities
from edgec.runtime.vmfb import parse
from edgec.toolchain import CompileOptions, compile

NUMBERS = {
    "Matrix": 0,
    "Shader": 1,
    "Int64": 11,
    "Int16": 22,
    "Int8": 39,
    "GroupNonUniform": 61,
    "GroupNonUniformArithmetic": 63,
    "GroupNonUniformShuffle": 65,
    "GroupNonUniformShuffleRelative": 66,
    "SignedZeroInfNanPreserve": 4466,
    "VulkanMemoryModel": 5345,
    "PhysicalStorageBufferAddresses": 5347,
}
SUM = """
func.func public @main(%x: tensor<4x1024xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<4x1024xf32>, tensor<f32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
TANH = """
func.func public @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = stablehlo.tanh %x : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
"""


@pytest.mark.parametrize(("text", "asks"), [(SUM, True), (TANH, False)], ids=["sum", "tanh"])
def test_capabilities_are_those_that_a_disassembler_shows(
    text: str, asks: bool, tmp_path: Path
) -> None:
    source, module = tmp_path / "m.mlir", tmp_path / "m.vmfb"
    source.write_text(text)
    compile(source, "vulkan:nvidia-ada", CompileOptions(output=module, check=False, cache=False))
    assert asks_of_subgroups(module) == asks
    tool = shutil.which("spirv-dis")
    if tool is None:
        pytest.skip("no spirv-dis: apt install spirv-tools")
    data = module.read_bytes()
    names: set[str] = set()
    for segment in parse(memoryview(data), "m").segments:
        if segment.code.startswith("vulkan"):
            code = data[segment.offset : segment.offset + segment.size]
            at = code.find(struct.pack("<I", 0x07230203))
            (words,) = struct.unpack_from("<I", code, at - 4)
            (tmp_path / "m.spv").write_bytes(code[at : at + 4 * words])
            said = subprocess.run(
                [tool, tmp_path / "m.spv"], capture_output=True, text=True, check=True
            )
            names |= set(re.findall(r"OpCapability (\w+)", said.stdout))
    assert names
    assert {NUMBERS[name] for name in names} == capabilities(module)


def test_a_module_for_a_cpu_has_none(tmp_path: Path) -> None:
    source, module = tmp_path / "m.mlir", tmp_path / "m.vmfb"
    source.write_text(TANH)
    compile(source, "cpu", CompileOptions(output=module, check=False, cache=False))
    assert capabilities(module) == frozenset()
