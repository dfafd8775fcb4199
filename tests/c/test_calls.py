"""Calls in the background, from C under sanitizers, and from Python."""

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgec.runtime import DType
from edgec.runtime.edgert import (
    EdgertCall,
    EdgertDevice,
    EdgertModule,
    EdgertSession,
    EdgertTensor,
)
from edgec.runtime.errors import DeviceError
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
    ("preset", "sanitizer"), [("threads", "thread"), ("vulkan", "address,undefined")]
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
        *("cc", *FLAGS, "-O0", "-DEDGERT_THREADS=0", "-DEDGERT_WITH_PLACES=1"),
        f"-I{SOURCE / 'include'}",
        *(HERE / "calls.c", *SOURCE.glob("src/**/*.c"), "-lm", "-lpthread"),
        *("-o", tmp_path / "calls"),
    )
    run(tmp_path / "calls", compile_text(COUNTER), "0", timeout=60)


Begin = Callable[..., EdgertCall]


@pytest.fixture
def begin(library: object, compile_text: Callable[..., Path]) -> Begin:
    """`begin(done)` → a call of the counter's, the same session every time."""
    device = EdgertDevice("cpu", threads=2, library=library)
    session = EdgertSession(EdgertModule(compile_text(COUNTER), library=library), device)

    def make(done: Callable[[EdgertCall], None] | None = None) -> EdgertCall:
        argument = EdgertTensor.copy(device, np.ones(4, np.float32), DType.F32)
        call = session.begin("main", [argument], done)
        argument.close()
        return call

    return make


def _count(call: EdgertCall) -> int:
    (result,) = call.wait()
    assert isinstance(result, EdgertTensor)
    return int(result.array(DType.F32)[0])


def test_python_begins_calls_and_waits(begin: Begin) -> None:
    calls = [begin() for _ in range(5)]
    assert [_count(call) for call in reversed(calls)] == [5, 4, 3, 2, 1]
    assert all(call.is_done for call in calls)
    assert _count(calls[0]) == 1  # the same answer as often as it is asked
    assert not calls[0].cancel()


def test_python_is_told_and_may_begin_the_next_call(begin: Begin) -> None:
    counts: list[int] = []
    ended = threading.Event()

    def go_on(call: EdgertCall) -> None:
        counts.append(_count(call))
        call.close()
        if len(counts) < 4:
            begin(go_on)
        else:
            ended.set()

    begin(go_on)
    assert ended.wait(60)
    assert counts == [1, 2, 3, 4]


def test_python_cancels_what_has_not_begun(begin: Begin) -> None:
    inside, gate = threading.Event(), threading.Event()

    def hold(call: EdgertCall) -> None:
        inside.set()
        gate.wait(60)

    first = begin(hold)
    assert inside.wait(60)
    second, third = begin(), begin()
    assert second.cancel()
    assert not first.is_done
    assert not second.is_done
    gate.set()
    with pytest.raises(DeviceError, match="cancelled"):
        second.wait()
    assert _count(third) == 2
    assert _count(first) == 1


def test_python_may_forget_a_call(begin: Begin) -> None:
    for _ in range(3):
        begin()
    assert _count(begin()) == 4
