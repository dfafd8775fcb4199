import signal
from pathlib import Path

import pytest

from edgec.runtime.errors import CompileError, CompilerCrash
from edgec.targets import find
from edgec.toolchain import CompileOptions, compile
from edgec.toolchain.diagnostics import explain, explain_unreadable, messages
from edgec.toolchain.process import Finished

LOG = Path("/logs/x.log")
# As iree-compile 3.13 prints them, shortened.
NESTED = """\
/env/lib/python3.11/site-packages/flax/linen.py:80:3: error: failed to legalize operation \
'stablehlo.fft' that was explicitly marked illegal: %1 = "stablehlo.fft"(%0) : (tensor<15xf32>)
    return jnp.fft.fft(x)
  ^
/models/model.py:12:43: note: called from
    y = fft(x)
/models/train.py:23:10: note: called from
/models/model.py:12:43: note: see current operation: %1 = "stablehlo.fft"(%0)
"""
STACK = """\
model.py:3:4: error: 'func.func' op exceeded stack allocation limit of 32768 bytes for function. \
Got 65536 bytes
"""
UNKNOWN_PLACE = """\
<unknown>:0: error: failed to legalize operation 'vector.bitcast': %40 = "vector.bitcast"(%19) : \
(vector<4xf16>) -> vector<2xi32>
<unknown>:0: note: see current operation: %40 = "vector.bitcast"(%19)
/models/model.py:22:22: error: failed to run translation of source executable to target executable
"""
ASSERTION = """\
iree-compile: /src/X.cpp:77: Assertion `a == b' failed.
Please report issues to https://github.com/iree-org/iree/issues and include the crash backtrace.
Stack dump:
0.\tProgram arguments: iree-compile
"""


def failed(text: str, code: int = 1) -> Finished:
    return Finished(code=code, stderr=text, seconds=1.0)


def test_the_place_is_the_innermost_of_the_users_own():
    error = explain(failed(NESTED), find("cpu"), LOG)
    assert "Fourier transform" in error.what
    assert error.where == "/models/model.py:12"
    assert error.log == str(LOG)
    assert error.hint


def test_the_place_may_stand_in_a_later_message():
    error = explain(failed(UNKNOWN_PLACE), find("vulkan:adreno"), LOG)
    assert error.what == "matrix products in f16 have no code for vulkan:adreno"
    assert error.where == "/models/model.py:22"


def test_a_stack_limit_names_both_sizes_and_the_flag():
    error = explain(failed(STACK), find("cpu"), LOG)
    assert "65536" in error.what
    assert "32768" in error.what
    assert "--iree-arg=--iree-llvmcpu-stack-allocation-limit" in (error.hint or "")


def test_divisions_that_a_gpu_has_no_integers_for_are_said_without_a_line_of_torchs() -> None:
    pooling = "/x/site-packages/torch/nn/modules/pooling.py:1512:0"
    text = (
        f"{pooling}: error: failed to legalize operation 'arith.divsi' that was explicitly marked "
        'illegal: %47 = "arith.divsi"(%46, %9) : (i64, i64) -> i64\n'
        "torch/fx/passes/runtime_assert.py:24:0: note: called from\n"
    )
    error = explain(failed(text), find("vulkan"), LOG)
    assert "has no 64-bit integers, and the program divides" in error.what
    assert error.where == "/x/site-packages/torch/nn/modules/pooling.py:1512"


def test_an_unknown_message_is_passed_on_in_one_line():
    text = 'a.py:1:2: error: something   new: %1 = "x.y"() : () -> tensor<4xf32>\n' + "junk\n" * 99
    error = explain(failed(text), find("cpu"), None)
    assert error.what == "the compiler refused the program for cpu:host: something new"
    assert error.where == "a.py:1"


def test_silence_is_an_error_too():
    assert "exit status 7" in explain(failed("", 7), find("cpu"), None).what


def test_a_place_in_standard_input_is_one_in_the_users_file():
    found = list(messages("-:7:3: error: no\n", Path("m.mlir")))
    assert found[0].places == ("m.mlir:7",)


@pytest.mark.parametrize("code", [-signal.SIGABRT, 128 + signal.SIGABRT])
def test_an_assertion_is_a_crash(code: int):
    error = explain(failed(ASSERTION, code), find("cpu"), LOG)
    assert isinstance(error, CompilerCrash)
    assert "SIGABRT" in error.what
    assert "a == b" in error.what


def test_a_killed_compiler_points_to_memory():
    error = explain(failed("", -signal.SIGKILL), find("cpu"), LOG)
    assert isinstance(error, CompilerCrash)
    assert "memory" in error.what


def test_a_timeout_says_how_long():
    finished = Finished(code=-9, stderr="", seconds=61.0, timed_out=True)
    assert "longer than 61 s" in explain(finished, find("cpu"), LOG).what


def test_lapack_names_in_an_unreadable_file_are_explained():
    data = b"ML\xefR\x00lapack_strsm_ffi\x00lapack_sgetrf_ffi\x00sdy.sharding_rule\x00"
    error = explain_unreadable(data)
    assert error is not None
    assert "LU factorisation" in error.what
    assert "jnp.linalg.solve" in error.what


def test_sharding_in_an_unreadable_file_is_explained():
    error = explain_unreadable(b"ML\xefR\x00sdy.mesh\x00")
    assert error is not None
    assert "sharding" in error.what
    assert explain_unreadable(b"ML\xefR\x00") is None


GROWING = """
func.func @main(%x: tensor<4xf32>, %z: tensor<f32>, %n: tensor<1xi32>) -> tensor<?xf32> {
  %0 = stablehlo.dynamic_pad %x, %z, %n, %n, %n
    : (tensor<4xf32>, tensor<f32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}
"""


def test_a_real_refusal_is_explained_with_its_line(tmp_path: Path):
    program = tmp_path / "refused.mlir"
    program.write_text(GROWING)
    with pytest.raises(CompileError, match="dynamic_pad has dimensions that change") as caught:
        compile(program, "cpu", CompileOptions(output=tmp_path / "x.vmfb"))
    assert caught.value.where == f"{program}:3"
    assert caught.value.log is not None
    assert "error" in Path(caught.value.log).read_text()
    assert not (tmp_path / "x.vmfb").exists()


def test_an_unknown_flag_is_named(matmul: Path):
    with pytest.raises(CompileError, match="--no-such-flag"):
        compile(matmul, "cpu", CompileOptions(iree_args=("--no-such-flag",)))


def test_a_model_file_has_no_line_of_edgecs_own() -> None:
    said = """\
/x/exporters/edgec/exporters/from_tflite/layers.py:80:3: error: 'tensor.dim' op unexpected during \
shape cleanup; dynamic dimensions must have been resolved prior to leaving the flow dialect
/env/lib/python3.11/site-packages/typer/main.py:1445:3: note: called from
"""
    error = explain(Finished(code=1, stderr=said, seconds=1.0), find("vulkan"), None)
    assert error.where is None
    assert error.what == (
        "an operation whose sizes change from call to call has no code for vulkan"
    )
