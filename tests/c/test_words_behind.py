"""Kernels in words behind an executable's own: what is wrong with where they lie is a status."""

import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from edgec.runtime.vmfb import parse
from edgec.toolchain.wordwise.modules import MARK
from tests.c.shim import behind, built

pytestmark = pytest.mark.vulkan

BYTES = """
func.func @main(%x: tensor<6xi8>) -> tensor<6xi8> {
  %y = stablehlo.add %x, %x : tensor<6xi8>
  return %y : tensor<6xi8>
}
"""
MOST = 0xFFFFFFFF
COUNT, MODULE, FIRST, WORDS = range(1, 5)  # where the words of the mark's first entry lie


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a Vulkan that hides 8-bit storage."""
    return built(tmp_path_factory.mktemp("shim"))


@pytest.fixture(scope="module")
def module(compile_text: Callable[..., Path]) -> bytes:
    """A module with bytes in its buffers, and the same in words."""
    return compile_text(BYTES, "vulkan").read_bytes()


def said(data: bytes, shim: Path, build: Callable[[str], Path], folder: Path) -> str:
    """What the command says of a module on a device without 8-bit storage."""
    path = folder / "module.vmfb"
    path.write_bytes(data)
    line = [build("vulkan") / "edgert", "run", path, "--device=vulkan", "--input=1,-2,3,70,-5,6"]
    environment = behind(shim, features="0") | {"ASAN_OPTIONS": "detect_leaks=0"}
    done = subprocess.run(
        line, capture_output=True, text=True, timeout=60, check=False, env=environment
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout + done.stderr


def marked(data: bytes) -> tuple[int, int, int]:
    """Where an executable with a mark starts, where its mark lies, and where it ends."""
    for segment in parse(memoryview(data), "m").segments:
        end = segment.offset + segment.size
        at = data.find(MARK, segment.offset, end)
        if segment.code.startswith("vulkan") and at >= 0:
            return segment.offset, at, end
    raise AssertionError("no executable has a mark")


def test_the_module_runs_as_it_is(
    module: bytes, shim: Path, build: Callable[[str], Path], tmp_path: Path
) -> None:
    assert "-116" in said(module, shim, build, tmp_path)


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({COUNT: MOST}, "capability"),
        ({COUNT: 0}, "capability"),
        ({MODULE: MOST}, "capability"),
        ({FIRST: MOST}, "capability"),
        ({WORDS: MOST}, "capability"),
        ({FIRST: MOST, WORDS: MOST}, "capability"),
        ({FIRST: MOST - 3, WORDS: 8}, "capability"),
        ({FIRST: 0}, "no SPIR-V"),
        ({WORDS: 0}, "no SPIR-V"),
        ({WORDS: 6}, "cut short"),
    ],
    ids=str,
)
def test_entries_that_point_elsewhere_are_a_status(
    changes: dict[int, int],
    wanted: str,
    module: bytes,
    shim: Path,
    build: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    data = bytearray(module)
    _, mark, _ = marked(module)
    for word, value in changes.items():
        struct.pack_into("<I", data, mark + 4 * word, value)
    assert wanted in said(bytes(data), shim, build, tmp_path)


@pytest.mark.parametrize("kept", [0, 4, 8, 12, 20, 40, -4, -1])
def test_words_that_are_cut_off_are_a_status(
    kept: int, module: bytes, shim: Path, build: Callable[[str], Path], tmp_path: Path
) -> None:
    start, mark, end = marked(module)
    size = (mark if kept >= 0 else end) + kept - start
    data = bytearray(module)
    length = struct.pack("<Q", end - start)
    # The first is the module's own; the others are the archive's around it.
    struct.pack_into("<Q", data, data.index(length, 0, start), size)
    assert "capability" in said(bytes(data), shim, build, tmp_path)
