import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from edgec.runtime import Golden, GoldenCall, Module, Tolerance, load
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import (
    CompileError,
    DeviceError,
    FileError,
    TargetError,
    WrongAnswer,
)
from edgec.runtime.signature import Signature, TensorSpec
from edgec.toolchain import (
    CompileOptions,
    Phase,
    Program,
    Step,
    command,
    compile,
    compile_with_report,
    load_program,
    process,
)
from edgec.toolchain.check import Outcome
from edgec.toolchain.compiling import making, steps
from edgec.toolchain.program import (
    Function,
    Input,
    Output,
    Parameter,
    ProgramInfo,
    Provenance,
    State,
    Weights,
)

X = np.linspace(-1, 1, 64, dtype=np.float32).reshape(4, 16)
W = np.linspace(-2, 1, 128, dtype=np.float32).reshape(16, 8)
ANSWER = np.tanh(X.astype(np.float64) @ W).astype(np.float32)


def with_golden(path: Path, answer: np.ndarray = ANSWER) -> Path:
    call = GoldenCall(signature="main", inputs=(X, W), outputs=(answer,))
    Golden(calls=(call,)).save(Golden.path_for(path))
    return path


def test_a_module_computes_what_numpy_does_and_says_where_it_was_proved(matmul: Path):
    with_golden(matmul)
    output = matmul.with_suffix(".vmfb")
    module = compile(matmul, "cpu", CompileOptions(output=output))
    assert module.path == output
    assert module.facts.target == "cpu:host"
    assert module.facts.driver == "local-task"
    assert module.facts.check.startswith("checked on a CPU: max abs err ")
    with load(output) as loaded:
        assert np.abs(loaded.main(X, W) - ANSWER).max() <= 1e-5


def test_without_an_output_the_module_lives_as_long_as_the_process(matmul: Path):
    module = compile(load_program(matmul))
    with load(module) as loaded:
        assert np.abs(loaded.main(X, W) - ANSWER).max() <= 1e-5
    assert module.facts.check == "unchecked: no golden answers"


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The compiler's command lines, as they are run for users."""
    run: list[list[str]] = []

    def noted(line: list[str], **given: object) -> process.Finished:
        run.append(line)
        return process.run_compiler(line, **given)

    monkeypatch.setattr(making, "compile_files", steps.compile_files)
    monkeypatch.setattr(steps, "run_compiler", noted)
    return run


def leaves_out(lines: list[list[str]]) -> list[bool]:
    """Of each command line whether the compiler leaves out the check of its own steps."""
    return ["--verify=false" in line for line in lines]


def test_the_compiler_checks_its_steps_where_answers_do_not(matmul: Path, lines: list[list[str]]):
    uncached = CompileOptions(cache=False)
    compile(matmul, "cpu", uncached)
    assert leaves_out(lines) == [False]  # there is nothing to prove it by
    with_golden(matmul)
    lines.clear()
    compile(matmul, "cpu", uncached)
    assert leaves_out(lines) == [True]
    lines.clear()
    compile(matmul, "cpu", CompileOptions(cache=False, check=False))
    assert leaves_out(lines) == [False]
    lines.clear()
    compile(matmul, "cpu:arm64", uncached)
    assert leaves_out(lines) == [False]
    lines.clear()
    compile(matmul, "cpu", CompileOptions(cache=False, iree_args=("--verify=true",)))
    assert leaves_out(lines) == [False]


def test_what_is_wrong_or_not_proved_is_compiled_again_with_those_checks(
    matmul: Path, lines: list[list[str]], monkeypatch: pytest.MonkeyPatch
):
    with_golden(matmul, ANSWER + 1)
    with pytest.raises(WrongAnswer):
        compile(matmul, "cpu", CompileOptions(cache=False))
    assert leaves_out(lines) == [True, False]
    lines.clear()
    with_golden(matmul)
    monkeypatch.setattr(
        "edgec.toolchain.compiling.making.check", lambda *_: Outcome(text="unchecked: no device")
    )
    compile(matmul, "cpu", CompileOptions(cache=False))
    assert leaves_out(lines) == [True, False]


def test_a_wrong_answer_is_an_error_and_nothing_is_written(matmul: Path):
    wrong = ANSWER.copy()
    wrong[2, 3] += 0.25
    with_golden(matmul, wrong)
    output = matmul.with_suffix(".vmfb")
    with pytest.raises(WrongAnswer, match=r"out0 of main: 1 of 32 values are off.*\[2, 3\]"):
        compile(matmul, "cpu", CompileOptions(output=output))
    assert not output.exists()
    with pytest.raises(WrongAnswer):
        compile(matmul, "cpu", CompileOptions(output=output))
    module = compile(matmul, "cpu", CompileOptions(output=output, check=False))
    assert module.facts.check == "unchecked: not asked for"
    loose = CompileOptions(output=output, tolerance=Tolerance(absolute=0.5))
    assert compile(matmul, "cpu", loose).facts.check.startswith("checked")


def test_the_second_identical_compile_comes_from_the_cache_with_its_proof(
    matmul: Path, monkeypatch: pytest.MonkeyPatch
):
    with_golden(matmul)
    first = compile_with_report(matmul, "cpu", CompileOptions(output=matmul.with_name("a.vmfb")))
    monkeypatch.setattr("edgec.toolchain.isolate.call", None)
    monkeypatch.setattr("edgec.toolchain.compiling.steps.run_compiler", None)
    second = compile_with_report(matmul, "cpu", CompileOptions(output=matmul.with_name("b.vmfb")))
    assert not first.report.cached
    assert second.report.cached
    assert second.report.total < 0.5
    assert first.module.path.read_bytes() == second.module.path.read_bytes()
    assert second.module.facts.check == first.report.check


def test_other_flags_levels_and_bytes_are_other_modules(matmul: Path):
    def cached(path: Path, options: CompileOptions) -> bool:
        return compile_with_report(path, "cpu", options).report.cached

    assert not cached(matmul, CompileOptions())
    assert cached(matmul, CompileOptions())
    assert not cached(matmul, CompileOptions(cache=False))
    assert not cached(matmul, CompileOptions(level=1))
    assert not cached(matmul, CompileOptions(iree_args=("--iree-opt-data-tiling=false",)))
    matmul.write_text(matmul.read_text().replace("tanh", "sine"))
    assert not cached(matmul, CompileOptions())


def test_a_corrupted_cache_entry_is_compiled_again(matmul: Path, tmp_path: Path):
    compile(matmul)
    for path in (tmp_path / "cache").rglob("*"):
        if path.is_file() and path.suffix != ".json":
            path.write_bytes(b"x" * path.stat().st_size)
    again = compile_with_report(matmul)
    assert not again.report.cached
    with load(again.module) as loaded:
        assert np.abs(loaded.main(X, W) - ANSWER).max() <= 1e-5


@pytest.mark.vulkan
def test_on_vulkan_the_proof_runs_on_the_device(matmul: Path):
    with_golden(matmul)
    module = compile(matmul, "vulkan", CompileOptions(output=matmul.with_suffix(".vmfb")))
    assert module.facts.driver == "vulkan"
    assert module.facts.check.startswith("checked on ")


@pytest.mark.vulkan
def test_another_gpu_stands_in_where_nothing_is_asked_of_subgroups(tmp_path: Path):
    path = tmp_path / "tanh.mlir"
    path.write_text(
        "func.func public @main(%x: tensor<4x16xf32>) -> tensor<4x16xf32> {\n"
        "%0 = stablehlo.tanh %x : tensor<4x16xf32>\nreturn %0 : tensor<4x16xf32>\n}\n"
    )
    call = GoldenCall(signature="main", inputs=(X,), outputs=(np.tanh(X),))
    Golden(calls=(call,)).save(Golden.path_for(path))
    assert compile(path, "vulkan:nvidia-ada").facts.check.startswith("checked on ")
    wrong = GoldenCall(signature="main", inputs=(X,), outputs=(np.tanh(X) + 1,))
    Golden(calls=(wrong,)).save(Golden.path_for(path))
    with pytest.raises(WrongAnswer):
        compile(path, "vulkan:nvidia-ada")


def test_a_device_that_is_not_here_leaves_the_module_unchecked(matmul: Path):
    with_golden(matmul)
    module = compile(matmul, "cpu:arm64-v8.2")
    assert module.facts.check.startswith("unchecked: ")
    assert module.facts.cpu_features == ("lse", "fullfp16", "dotprod")


def test_a_check_that_hangs_is_an_error(matmul: Path):
    with_golden(matmul)
    with pytest.raises(DeviceError, match="took longer"):
        compile(matmul, "cpu", CompileOptions(check_timeout=0.01))


def test_signatures_come_back_as_declared(tmp_path: Path):
    kinds = [kind for kind in DType if kind is not DType.BOOL]
    arguments = ", ".join(f"%a{i}: tensor<3x{k.mlir}>" for i, k in enumerate(kinds))
    types = ", ".join(f"tensor<3x{k.mlir}>" for k in kinds)
    sums = "\n".join(
        f"%r{i} = stablehlo.add %a{i}, %a{i} : tensor<3x{k.mlir}>" for i, k in enumerate(kinds)
    )
    results = ", ".join(f"%r{i}" for i in range(len(kinds)))
    path = tmp_path / "types.mlir"
    path.write_text(
        f"func.func @main({arguments}) -> ({types}) {{\n{sums}\nreturn {results} : {types}\n}}"
    )
    with load(compile(path)) as loaded:
        answers = loaded.main(*(np.array([1, 2, 3]).astype(k.numpy) for k in kinds))
    for kind, answer in zip(kinds, answers, strict=True):
        assert answer.dtype == kind.numpy, kind
        assert np.array_equal(answer, np.array([2, 4, 6]).astype(kind.numpy)), kind


def test_wide_floats_are_refused_where_the_device_has_none(tmp_path: Path):
    path = tmp_path / "f64.mlir"
    path.write_text(
        "func.func @main(%a: tensor<3xf64>) -> tensor<3xf64> {\n"
        "  %0 = stablehlo.add %a, %a : tensor<3xf64>\n  return %0 : tensor<3xf64>\n}"
    )
    with pytest.raises(CompileError, match="vulkan:android has no 64-bit floats"):
        compile(path, "vulkan:android")


WIDE = """
func.func @main(%a: tensor<{size}xi64>) -> tensor<{size}x{kind}> {{
  %0 = stablehlo.{operation} : (tensor<{size}xi64>) -> tensor<{size}x{kind}>
  return %0 : tensor<{size}x{kind}>
}}
"""


@pytest.mark.vulkan
def test_wide_integers_stay_wide_on_vulkan_where_the_compiler_takes_them(tmp_path: Path):
    path = tmp_path / "wide.mlir"
    path.write_text(WIDE.format(size=9, kind="i64", operation="negate %a"))
    compiled = compile_with_report(path, "vulkan")
    assert compiled.report.notes == ()
    values = np.arange(9) + 2**40
    call = GoldenCall(signature="main", inputs=(values,), outputs=(-values,))
    Golden(calls=(call,)).save(Golden.path_for(path))
    assert compile(path, "vulkan").facts.check.startswith("checked on ")


@pytest.mark.vulkan
def test_wide_integers_that_the_compiler_refuses_on_vulkan_are_narrowed_and_it_is_said(
    tmp_path: Path,
):
    path = tmp_path / "wide.mlir"
    path.write_text(WIDE.format(size=128, kind="i32", operation="convert %a"))
    values = np.arange(128) - 64
    call = GoldenCall(signature="main", inputs=(values,), outputs=(values.astype(np.int32),))
    Golden(calls=(call,)).save(Golden.path_for(path))
    compiled = compile_with_report(path, "vulkan")
    assert compiled.module.facts.check.startswith("checked on ")
    assert "2^31" in compiled.report.notes[0]
    again = compile_with_report(path, "vulkan").report
    assert again.cached
    assert again.notes == compiled.report.notes


def test_weights_outside_are_found_by_check_and_by_load(tmp_path: Path):
    pytest.importorskip("safetensors")
    from safetensors.numpy import save_file

    text = (
        "func.func @main(%w: tensor<4xf32>, %x: tensor<4xf32>) -> tensor<4xf32> {\n"
        "  %0 = stablehlo.multiply %w, %x : tensor<4xf32>\n  return %0 : tensor<4xf32>\n}"
    )
    spec = TensorSpec(name="x", shape=(4,), dtype=DType.F32)
    weights = np.array([1, 2, 3, 4], np.float32)
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    save_file({"w": weights}, tmp_path / "in" / "w.safetensors")
    x = np.array([5, 6, 7, 8], np.float32)
    program = Program(
        bytecode=text.encode(),
        info=ProgramInfo(
            functions=(
                Function(
                    signature=Signature.flat("main", [spec], [spec]),
                    arguments=(Parameter(name="w"), Input(index=0)),
                    results=(Output(index=0),),
                ),
            ),
            weights=Weights(scope="model", file="w.safetensors", names=("w",)),
            provenance=Provenance(framework="test", versions={}, source=""),
        ),
        golden=Golden(calls=(GoldenCall(signature="main", inputs=(x,), outputs=(weights * x,)),)),
        path=tmp_path / "in" / "m.mlirbc",
    )
    module = compile(program, "cpu", CompileOptions(output=tmp_path / "out" / "m.vmfb"))
    assert module.facts.check.startswith("checked")
    assert module.facts.weights is not None
    assert module.facts.weights.file == "../in/w.safetensors"
    for made in (module, compile(program)):
        with load(made) as loaded:
            assert np.array_equal(loaded.main(x), weights * x)


def test_state_lives_between_calls_in_torch_programs_too(tmp_path: Path):
    text = """
    func.func @main(%n: !torch.vtensor<[],si64>, %x: !torch.vtensor<[2],f32>)
        -> (!torch.vtensor<[],si64>, !torch.vtensor<[2],f32>) {
      %one = torch.constant.int 1
      %0 = torch.aten.add.Scalar %n, %one, %one
        : !torch.vtensor<[],si64>, !torch.int, !torch.int -> !torch.vtensor<[],si64>
      %1 = torch.aten.mul.Tensor %x, %n
        : !torch.vtensor<[2],f32>, !torch.vtensor<[],si64> -> !torch.vtensor<[2],f32>
      return %0, %1 : !torch.vtensor<[],si64>, !torch.vtensor<[2],f32>
    }
    func.func @edgec_initial_state() -> tensor<i64> {
      %0 = arith.constant dense<5> : tensor<i64>
      return %0 : tensor<i64>
    }
    """
    spec = TensorSpec(name="x", shape=(2,), dtype=DType.F32)
    info = ProgramInfo(
        functions=(
            Function(
                signature=Signature.flat("main", [spec], [spec]),
                arguments=(State(name="n"), Input(index=0)),
                results=(State(name="n"), Output(index=0)),
            ),
        ),
        states=(TensorSpec(name="n", shape=(), dtype=DType.I64),),
        provenance=Provenance(framework="test", versions={}, source=""),
        dialect=load_dialect(text, tmp_path),
    )
    with load(compile(Program(bytecode=text.encode(), info=info))) as loaded:
        x = np.array([1, 10], np.float32)
        assert [loaded.main(x).tolist() for _ in range(2)] == [[5, 50], [6, 60]]
        assert loaded.state()["n"] == 7
        assert list(loaded.signatures) == ["main"]


def load_dialect(text: str, folder: Path):
    path = folder / "torch.mlir"
    path.write_text(text)
    return load_program(path).info.dialect


def test_progress_names_each_step_once_it_begins(matmul: Path):
    with_golden(matmul)
    told: list[Phase] = []
    compile(matmul, "cpu", CompileOptions(progress=told.append, cache=False))
    steps = list(dict.fromkeys(phase.step for phase in told))
    assert steps == [Step.READ, Step.PASSES, Step.COMPILE, Step.CHECK, Step.WRITE]
    assert all(phase.target == "cpu:host" for phase in told)


def test_the_command_that_dry_run_prints_can_be_run_again(matmul: Path, tmp_path: Path):
    temps = tmp_path / "temps"
    options = CompileOptions(keep_temps=temps, cache=False, iree_args=("--iree-opt-data-tiling",))
    report = compile_with_report(matmul, "cpu", options).report
    assert command(matmul, "cpu", options) == list(report.command)
    assert report.command[-1] == "--iree-opt-data-tiling"
    (temps / "matmul.cpu-host.vmfb").unlink()
    subprocess.run(report.command, check=True)
    assert Module.read(temps / "matmul.cpu-host.vmfb").facts.target == "cpu:host"
    assert list((temps / "matmul.cpu-host.kernels").iterdir())


def test_facts_ride_in_the_module_as_reflection(matmul: Path):
    module = compile(matmul, "cuda:sm_90")
    assert module.facts.target == "cuda:sm_90"
    assert module.facts.driver == "cuda"
    assert json.loads(json.dumps(module.facts.to_json()))["compiler"].startswith("3.13")


def test_an_unknown_target_is_refused_before_anything_runs(matmul: Path):
    with pytest.raises(TargetError):
        compile(matmul, "vulkn")


def test_a_folder_that_is_missing_is_an_error(matmul: Path):
    with pytest.raises(FileError, match="cannot write"):
        compile(matmul, "cpu", CompileOptions(output=matmul.parent / "none" / "m.vmfb"))


def test_a_module_for_another_machine_is_the_same_each_time(matmul: Path):
    with_golden(matmul)
    one, two = (
        compile(matmul, "cpu:arm64", CompileOptions(output=matmul.with_name(name), cache=False))
        for name in ("one.vmfb", "two.vmfb")
    )
    assert one.facts.check.startswith("unchecked: the module ")
    assert one.path.read_bytes() == two.path.read_bytes()


def test_a_module_written_to_a_device_is_known_all_the_same(matmul: Path):
    module = compile(matmul, "cpu", CompileOptions(output="/dev/null", check=False))
    assert list(module.signatures) == ["main"]
    assert Path("/dev/null").is_char_device()


def test_a_proof_by_answers_that_are_all_zero_is_said(matmul: Path):
    matmul.write_text(matmul.read_text().replace("stablehlo.tanh", "stablehlo.abs"))
    call = GoldenCall(signature="main", inputs=(0 * X, W), outputs=(0 * ANSWER,))
    Golden(calls=(call,)).save(Golden.path_for(matmul))
    notes = compile_with_report(matmul).report.notes
    assert any("every golden answer of main is 0" in note for note in notes)
