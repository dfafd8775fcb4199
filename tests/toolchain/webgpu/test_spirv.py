"""SPIR-V that is read, and SPIR-V that is not."""

import json
import random
import struct

import pytest

from benchmarks.web.chromium import Page
from edgec.runtime.errors import CompileError
from edgec.toolchain.kernels.vulkan.packed_spirv import unpacked
from edgec.toolchain.kernels.vulkan.prebuilt import ARCHIVE
from edgec.toolchain.kernels.vulkan.prebuilt import read as archived
from edgec.toolchain.webgpu.opcodes import Op, name_of
from edgec.toolchain.webgpu.spirv import Unwritable, read
from edgec.toolchain.webgpu.writer import write
from tests.toolchain.webgpu.fuzzing import changed, fault, kernels

_MAGIC = 0x07230203
_MATRIX_UNITS = 6022
_SHADER = 1

_JUDGED = """(async (codes) => {
  const adapter = await navigator.gpu.requestAdapter();
  const device = await adapter.requestDevice();
  return Promise.all(codes.map(async (code) => {
    const { messages } = await device.createShaderModule({ code }).getCompilationInfo();
    return messages.map(({ message }) => message);
  }));
})(%s)"""


def _module(*instructions: tuple[int, ...]) -> bytes:
    """SPIR-V of these instructions: an operation and its words each."""
    words = [_MAGIC, 0x00010300, 0, 100, 0]
    for op, *operands in instructions:
        words += [(len(operands) + 1) << 16 | op, *operands]
    return struct.pack(f"<{len(words)}I", *words)


def _kernels() -> dict[str, bytes]:
    """The kernels that edgec brings along for Vulkan, but those for matrix units."""
    _, files = archived(ARCHIVE)
    found = {name: unpacked(data) for name, data in files.items()}
    return {name: data for name, data in found.items() if not _uses(data, _MATRIX_UNITS)}


def _uses(data: bytes, capability: int) -> bool:
    return struct.pack("<2I", 2 << 16 | Op.CAPABILITY, capability) in data


def test_edgecs_own_kernels_for_vulkan_are_wgsl_that_a_browser_takes(page: Page) -> None:
    codes = []
    for data in _kernels().values():
        kernels = read(data)
        codes += [write(kernels, entry).text for entry in kernels.entries]
    assert len(codes) >= 16
    assert page.run(_JUDGED % json.dumps(codes)) == [[]] * len(codes)


def test_every_kernel_cut_short_is_refused_without_a_crash() -> None:
    data = min(_kernels().values(), key=len)
    for size in range(0, len(data), 52):
        try:
            assert not read(data[:size]).entries  # cut before its function
        except CompileError:
            continue


def test_kernels_changed_at_random_are_written_or_refused() -> None:
    """A short run; `python -m tests.toolchain.webgpu.fuzzing` is for long ones."""
    chance, good = random.Random(3), kernels()[:6]
    faults = [fault(changed(chance.choice(good), chance.choice(good), chance)) for _ in range(300)]
    assert [problem for _, problem in faults if problem] == []
    assert 10 < sum(is_written for is_written, _ in faults) < 290


def test_an_operation_that_is_not_known_is_named() -> None:
    subgroups = _module((Op.CAPABILITY, _SHADER), (350, 1, 2, 3))
    with pytest.raises(Unwritable, match="operation 350"):
        read(subgroups)
    assert name_of(Op.VECTOR_TIMES_SCALAR) == "OpVectorTimesScalar"
    with pytest.raises(CompileError, match="not SPIR-V"):
        read(b"\0" * 32)
