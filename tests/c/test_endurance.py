"""Nothing is left of many calls and sessions, nor of processes that were killed in one.

A hundred thousand calls and a thousand sessions: `pytest tests/c/test_endurance.py -m slow -s`.
"""

import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.c.conftest import SOURCE, run

DEVICES = ["cpu", pytest.param("vulkan", marks=pytest.mark.vulkan)]
TEXT = """
func.func public @main(%x: tensor<16x32xf32>, %n: tensor<16xi32>)
    -> (tensor<16x16xf32>, tensor<i32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1.5> : tensor<32x16xf32>
  %two = stablehlo.constant dense<0.25> : tensor<16x16xf32>
  %0 = stablehlo.dot_general %x, %one, contracting_dims = [1] x [0]
    : (tensor<16x32xf32>, tensor<32x16xf32>) -> tensor<16x16xf32>
  %1 = stablehlo.add %0, %two : tensor<16x16xf32>
  %2 = stablehlo.tanh %1 : tensor<16x16xf32>
  %3 = stablehlo.reduce(%n init: %zero) applies stablehlo.add across dimensions = [0]
    : (tensor<16xi32>, tensor<i32>) -> tensor<i32>
  return %2, %3 : tensor<16x16xf32>, tensor<i32>
}
"""


@pytest.fixture(scope="module")
def endure(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program `endure`, with edgert and its driver for Vulkan."""
    folder = tmp_path_factory.mktemp("endure")
    run(sys.executable, SOURCE / "amalgamate.py", folder / "edgert")
    run(
        *("cc", "-std=c11", "-O1", "-Wall", "-Wextra", "-D_POSIX_C_SOURCE=200809L"),
        *("-DEDGERT_WITH_VULKAN=1", f"-I{folder}", Path(__file__).with_name("endure.c")),
        *(folder / "edgert" / "edgert.c", "-lm", "-lpthread", "-ldl", "-o", folder / "endure"),
    )
    return folder / "endure"


def _module(compile_text: Callable[..., Path], device: str) -> Path:
    return compile_text(TEXT, "vulkan" if device == "vulkan" else "cpu")


@pytest.mark.parametrize("device", DEVICES)
def test_nothing_is_left_of_some_calls_and_sessions(
    device: str, endure: Path, compile_text: Callable[..., Path]
) -> None:
    print(run(endure, _module(compile_text, device), device, "300", "20"))


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
def test_nothing_is_left_of_a_hundred_thousand_calls_and_a_thousand_sessions(
    device: str, endure: Path, compile_text: Callable[..., Path]
) -> None:
    print(run(endure, _module(compile_text, device), device, "100000", "1000", timeout=3600))


@pytest.mark.parametrize("device", DEVICES)
def test_a_process_that_is_killed_in_a_call_leaves_nothing_that_harms(
    device: str, endure: Path, compile_text: Callable[..., Path], tmp_path: Path
) -> None:
    """Killed at any moment, also while it writes what it keeps; the next process is right."""
    module, cache = _module(compile_text, device), tmp_path / "kernels"
    begun = time.monotonic()
    run(endure, module, device, "1", "1", cache)
    whole = time.monotonic() - begun
    moments = random.Random(4)
    for _ in range(8):
        if moments.random() < 0.5:
            cache.unlink(missing_ok=True)
        command = [endure, module, device, "1000000", "0", cache]
        child = subprocess.Popen([str(word) for word in command])
        time.sleep(moments.uniform(0, 1.5 * whole))
        child.kill()
        child.wait()
        run(endure, module, device, "1", "1", cache)
