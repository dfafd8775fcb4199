"""Calls in the background, from C under sanitizers, and from Python."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.c.conftest import SOURCE, run

HERE = Path(__file__).parent
FLAGS = ("-std=c11", "-g", "-O1", "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra", "-Wpedantic")
COUNTER = """
module @counter {
  util.global private mutable @count = dense<0.0> : tensor<4xf32>
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %c = util.global.load @count : tensor<4xf32>
    %zero = stablehlo.subtract %x, %x : tensor<4xf32>
    %one = stablehlo.constant dense<1.0> : tensor<4xf32>
    %step = stablehlo.add %zero, %one : tensor<4xf32>
    %r = stablehlo.add %c, %step : tensor<4xf32>
    util.global.store %r, @count : tensor<4xf32>
    return %r : tensor<4xf32>
  }
}
"""


@pytest.mark.parametrize(
    ("preset", "sanitizer"), [("threads", "thread"), ("sanitize", "address,undefined")]
)
def test_calls_keep_what_the_header_promises(
    preset: str,
    sanitizer: str,
    build: Callable[[str], Path],
    compile_text: Callable[..., Path],
    tmp_path: Path,
) -> None:
    run(
        *("cc", *FLAGS, "-Werror", f"-fsanitize={sanitizer}", f"-I{SOURCE / 'include'}"),
        *(HERE / "calls.c", build(preset) / "libedgert.a", "-lm", "-lpthread"),
        *("-o", tmp_path / "calls"),
    )
    options = {"TSAN_OPTIONS": "halt_on_error=1"}
    run(tmp_path / "calls", compile_text(COUNTER), "1", env=options, timeout=120)


def test_without_threads_a_call_has_run_when_it_is_begun(
    compile_text: Callable[..., Path], tmp_path: Path
) -> None:
    run(
        *("cc", *FLAGS, "-O0", "-DEDGERT_THREADS=0", f"-I{SOURCE / 'include'}"),
        *(HERE / "calls.c", *SOURCE.glob("src/**/*.c"), "-lm", "-lpthread"),
        *("-o", tmp_path / "calls"),
    )
    run(tmp_path / "calls", compile_text(COUNTER), "0", timeout=60)
