"""`--on`: the same answers on another machine as here, and clear errors with nothing left behind.

The other machines are 64-bit Arm by qemu: as such, and behind a fake `adb` and a fake `ssh`.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from edgec.ondevice.edgert_command import edgert_command
from edgec.ondevice.machines import by_kernel
from edgec.runtime import Golden, GoldenCall, Module, load
from edgec.toolchain import CompileOptions, compile
from edgec.toolchain.cache import CACHE_VARIABLE
from tests.ondevice.fakes import Phone, make_phone

TEXT = """
module @net {
  util.global private mutable @sum = dense<0.0> : tensor<2x3xf32>
  func.func public @main(%x: tensor<2x4xf32>, %w: tensor<4x3xf32>, %n: tensor<3xui8>)
      -> (tensor<2x3xf32>, tensor<3xui8>) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
    %1 = stablehlo.tanh %0 : tensor<2x3xf32>
    %2 = stablehlo.not %n : tensor<3xui8>
    return %1, %2 : tensor<2x3xf32>, tensor<3xui8>
  }
  func.func public @add(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
    %s = util.global.load @sum : tensor<2x3xf32>
    %0 = stablehlo.add %s, %x : tensor<2x3xf32>
    util.global.store %0, @sum : tensor<2x3xf32>
    return %0 : tensor<2x3xf32>
  }
  func.func public @types(%b: tensor<4xbf16>, %p: tensor<4xi1>, %i: tensor<i64>)
      -> (tensor<4xbf16>, tensor<4xi1>, tensor<i64>) {
    %0 = stablehlo.add %b, %b : tensor<4xbf16>
    %1 = stablehlo.not %p : tensor<4xi1>
    %2 = stablehlo.negate %i : tensor<i64>
    return %0, %1, %2 : tensor<4xbf16>, tensor<4xi1>, tensor<i64>
  }
}
"""
WEIGHTED = """
module @weighted {
  util.global private @a = #flow.parameter.named<"model"::"a"> : tensor<4xf32>
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %a = util.global.load @a : tensor<4xf32>
    %0 = stablehlo.multiply %x, %a : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
"""
RANDOM = np.random.default_rng(3)
X = RANDOM.standard_normal((2, 4), np.float32)
W = RANDOM.standard_normal((4, 3), np.float32)
N = np.array([0, 7, 255], np.uint8)

LINE = ("--function=add", "--input=2x3xf32=1", "-o", "out.npz")

Compiled = Callable[..., Path]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory, _cache: Path) -> Compiled:
    """`compiled(text, target)` → the module."""
    folder = tmp_path_factory.mktemp("modules")

    def make(text: str = TEXT, target: str = "cpu:arm64") -> Path:
        name = f"{'net' if text is TEXT else 'weighted'}-{target.replace(':', '-')}"
        if not (folder / f"{name}.vmfb").exists():
            (folder / f"{name}.mlir").write_text(text)
            options = CompileOptions(output=folder / f"{name}.vmfb")
            compile(folder / f"{name}.mlir", target, options)
        return folder / f"{name}.vmfb"

    return make


@pytest.fixture(scope="module", autouse=True)
def _emulator(_cache: Path) -> Iterator[None]:
    """edgert for 64-bit Arm, built once."""
    pytest.importorskip("ziglang")
    if shutil.which("qemu-aarch64") is None:
        if os.environ.get("CI"):
            pytest.fail("qemu-aarch64 is missing: scripts/setup installs it")
        pytest.skip("no qemu-aarch64: run scripts/setup")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE_VARIABLE, str(_cache))
        machine = by_kernel("aarch64")
        assert machine is not None
        edgert_command(machine, lambda text: None)
        yield


@pytest.fixture
def phone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Phone:
    return make_phone(tmp_path / "phone", monkeypatch)


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files, a test's own."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture(params=["qemu:aarch64", "adb:0123", "ssh:me@board"])
def on(request: pytest.FixtureRequest, phone: Phone, scratch: Path) -> Iterator[str]:
    """Every way to another machine; nothing may be left there or here."""
    yield request.param
    assert phone.left == []
    assert list(scratch.iterdir()) == []


def test_answers_are_those_of_numpy_and_of_this_machine(edgec, compiled: Compiled, on: str) -> None:
    np.savez("in.npz", arg0=X, arg1=W, arg2=N)
    expected = np.tanh(X.astype(np.float64) @ W)
    np.save("expected.npy", expected)
    done = edgec(
        *("run", compiled(), f"--on={on}", "--function=main", "--input=@in.npz", "--json"),
        *("--expected=@expected.npy", "-o", "out.npz"),
    )
    assert done.code == 0, done.out
    value = done.json
    assert value["on"]["name"] == ("adb:0123" if on.startswith("adb") else on)
    assert value["on"]["machine"] == "arm_64"
    assert value["device"].startswith("edgert://cpu?threads=")
    assert value["seconds"] > 0
    assert value["comparisons"][0]["ok"] is True
    with load(compiled(target="cpu"), device="local-sync") as here, np.load("out.npz") as there:
        for name, output in zip(("out0", "out1"), here["main"](X, W, N), strict=True):
            assert there[name].dtype == output.dtype
            np.testing.assert_allclose(there[name], output, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(there["out1"], ~N)


def test_each_row_is_a_call_and_state_is_carried_on(edgec, compiled: Compiled, on: str) -> None:
    x = RANDOM.standard_normal((5, 2, 3), np.float32)
    np.save("x.npy", x)
    done = edgec(
        *("run", compiled(), f"--on={on}", "--function=add", "--input=@x.npy", "--each"),
        *("-o", "out.npy", "--json"),
    )
    assert done.code == 0, done.out
    assert done.json["calls"] == 5
    np.testing.assert_allclose(np.load("out.npy"), np.cumsum(x, axis=0), rtol=1e-6, atol=1e-6)


def test_bench_measures_there(edgec, compiled: Compiled, on: str, phone: Phone) -> None:
    for cpu, governor in (("cpu0", "schedutil"), ("cpu1", "schedutil"), ("cpu4", "performance")):
        phone.tell(f"devices/system/cpu/{cpu}/cpufreq/scaling_governor", governor + "\n")
    for zone, kind, degrees in ((0, "battery", 61000), (1, "cpu-0-0", 41500), (2, "cpu-1", 38000)):
        phone.tell(f"class/thermal/thermal_zone{zone}/type", kind + "\n")
        phone.tell(f"class/thermal/thermal_zone{zone}/temp", f"{degrees}\n")
    line = ("bench", compiled(), f"--on={on}", "--function=main", "--iterations=20")
    value = edgec(*line, "--device=edgert://cpu?threads=2", "--json").json
    result, there = value["result"], value["on"]
    assert result["calls"] == 20
    assert 0 < result["minimum"] <= result["p50"] <= result["p90"] <= result["p99"]
    assert result["load"] > 0
    assert result["first"] > 0
    assert result["peak_rss"] > 1 << 20
    assert there["threads"] == 2
    if not on.startswith("qemu"):
        assert there["governors"] == ["schedutil", "performance"]
        assert there["temperature"] == {"zone": "cpu-0-0", "before": 41.5, "after": 41.5}


def test_bench_for_people_has_all_lines(edgec, compiled: Compiled, phone: Phone) -> None:
    phone.tell("devices/system/cpu/cpu0/cpufreq/scaling_governor", "walt\n")
    done = edgec("bench", compiled(), "--on=adb:", "--function=main", "--seconds=0.01")
    assert done.code == 0, done.err
    assert "on adb:0123 (Acme Brick 7), by edgert" in done.out
    for word in ("P50", "P90", "P99", "peak memory", "threads", "walt", "not told"):
        assert word in done.out


def test_every_type_comes_back_as_it_is(edgec, compiled: Compiled) -> None:
    brains = np.array([1, -2.5, 1e38, 0.1], np.float32).astype(ml_dtypes.bfloat16)
    np.save("b.npy", brains.astype(np.float32))
    done = edgec(
        *("run", compiled(), "--on=qemu:aarch64", "--function=types", "--input=@b.npy"),
        *("--input=4xbool=1,0,0,1", f"--input=i64={-(2**40)}", "--json"),
    )
    assert done.code == 0, done.out
    bfloats, flipped, number = done.json["outputs"]
    assert [o["dtype"] for o in (bfloats, flipped, number)] == ["bf16", "bool", "i64"]
    doubled = [float(v) for v in (brains + brains).astype(np.float32)]
    assert [float(v) for v in bfloats["values"]] == doubled
    assert flipped["values"] == [False, True, True, False]
    assert number["values"] == 2**40


def test_a_phone_whose_adb_hands_on_no_exit_code_is_as_good(
    edgec, compiled: Compiled, phone: Phone
) -> None:
    phone.set(old=True)
    done = edgec("run", compiled(), "--on=adb:", *LINE, "--json")
    assert done.code == 0, done.out
    assert done.json["outputs"][0]["values"] == [[1, 1, 1]] * 2
    failed = edgec("run", compiled(target="cpu"), "--on=adb:", *LINE)
    assert failed.code == 31
    assert phone.left == []


def test_weights_go_along(edgec, compiled: Compiled, on: str) -> None:
    save_file({"a": np.array([1, 2, 3, 4], np.float32)}, "model.safetensors")
    line = ("run", compiled(WEIGHTED, "cpu:arm64-v8.2"), f"--on={on}", "--input=4xf32=0.5,1,2,4")
    done = edgec(*line, "--weights=model.safetensors", "--json")
    assert done.code == 0, done.out
    assert done.json["outputs"][0]["values"] == [0.5, 2, 6, 16]
    if on.startswith("qemu"):
        assert edgec(*line, "--weights=none.safetensors").code == 4
        assert edgec(*line, "--weights=model.gguf").code == 2


def test_compile_proves_a_module_for_another_processor_in_the_emulator(
    edgec, tmp_path: Path
) -> None:
    program, module = tmp_path / "own.mlir", tmp_path / "own.vmfb"
    program.write_text(
        "func.func public @main(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {\n"
        "%0 = stablehlo.tanh %x : tensor<2x4xf32>\nreturn %0 : tensor<2x4xf32>\n}\n"
    )
    line = ("compile", program, "--target=cpu:arm64", "-o", module)
    for answer, code in ((np.tanh(X), 0), (np.tanh(X) + np.eye(2, 4, dtype=np.float32), 23)):
        module.unlink(missing_ok=True)
        call = GoldenCall(signature="main", inputs=(X,), outputs=(answer,))
        Golden(calls=(call,)).save(Golden.path_for(program))
        assert edgec(*line).code == code
        assert module.exists() == (code == 0)
        if module.exists():
            check = Module.read(module).facts.check
            assert check.startswith("checked on qemu-aarch64: max abs err ")


def test_golden_calls_of_several_sizes_are_made_there_too(edgec, tmp_path: Path) -> None:
    program, module = tmp_path / "any.mlir", tmp_path / "any.vmfb"
    program.write_text(
        "func.func public @main(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {\n"
        "%0 = stablehlo.tanh %x : tensor<?x4xf32>\nreturn %0 : tensor<?x4xf32>\n}\n"
    )
    calls = [
        GoldenCall(signature="main", inputs=(x,), outputs=(np.tanh(x),)) for x in (X, X[:1], X)
    ]
    Golden(calls=tuple(calls)).save(Golden.path_for(program))
    assert edgec("compile", program, "--target=cpu:arm64", "-o", module).code == 0
    assert Module.read(module).facts.check.startswith("checked on qemu-aarch64")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("machine", "target"),
    [("armv7", "cpu:armv7"), ("riscv64", "cpu:riscv64"), ("x86_64", "cpu:x86-64")],
)
def test_other_machines_give_the_same(
    edgec, compiled: Compiled, scratch: Path, machine: str, target: str
) -> None:
    program = {"armv7": "qemu-arm"}.get(machine, f"qemu-{machine}")
    if shutil.which(program) is None:
        pytest.skip(f"no {program}: run scripts/setup")
    np.savez("in.npz", arg0=X, arg1=W, arg2=N)
    np.savez("expected.npz", out0=np.tanh(X @ W), out1=~N)
    done = edgec(
        *("run", compiled(target=target), f"--on=qemu:{machine}", "--function=main"),
        *("--input=@in.npz", "--expected=@expected.npz", "--atol=1e-5", "--json"),
    )
    assert done.code == 0, done.out
    assert all(comparison["ok"] for comparison in done.json["comparisons"])
    assert list(scratch.iterdir()) == []


@pytest.mark.slow
def test_a_function_may_have_hundreds_of_inputs(edgec, tmp_path: Path) -> None:
    count = 300
    arguments = ", ".join(f"%a{i}: tensor<2xf32>" for i in range(count))
    sums = "\n".join(
        f"%s{i} = stablehlo.add %{f's{i - 1}' if i > 1 else 'a0'}, %a{i} : tensor<2xf32>"
        for i in range(1, count)
    )
    text = (
        f"func.func public @main({arguments}) -> tensor<2xf32> {{\n{sums}\n"
        f"return %s{count - 1} : tensor<2xf32>\n}}\n"
    )
    (tmp_path / "many.mlir").write_text(text)
    compile(tmp_path / "many.mlir", "cpu:arm64", CompileOptions(output=tmp_path / "many.vmfb"))
    done = edgec(
        *("run", "many.vmfb", "--on=qemu:aarch64", "--json"),
        *(f"--input=2xf32={i},-{i}" for i in range(count)),
    )
    assert done.code == 0, done.out
    total = count * (count - 1) / 2
    assert done.json["outputs"][0]["values"] == [total, -total]


def test_a_wrong_answer_there_is_one_here(edgec, compiled: Compiled) -> None:
    line = ("run", compiled(), "--on=qemu:aarch64", "--function=add", "--input=2x3xf32=1")
    done = edgec(*line, "--expected=2x3xf32=2")
    assert done.code == 23
    assert "on qemu:aarch64 gives a wrong out0" in done.err


@pytest.mark.parametrize("verb", ["run", "bench", "verify"])
def test_a_module_for_another_machine_is_refused_before_edgert_is_built_for_it(
    edgec, compiled: Compiled, tmp_path: Path, monkeypatch, on: str, verb: str
) -> None:
    module = compiled(target="cpu")
    answers = Golden(calls=(GoldenCall(signature="add", inputs=(X[:, :3],), outputs=(X[:, :3],)),))
    answers.save(tmp_path / "answers.npz")
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "empty"))
    line = ("--golden=answers.npz",) if verb == "verify" else LINE[:2]
    done = edgec(verb, module, f"--on={on}", *line)
    assert done.code == 31
    assert "was compiled for cpu:host, and" in done.err
    assert "is arm_64" in done.err
    assert "--target=cpu:arm64, " in done.err
    assert not (tmp_path / "empty").exists()
    assert not Path("out.npz").exists()


@pytest.mark.parametrize(
    ("flags", "code", "said"),
    [
        ((), 31, "compiled for cpu:host does not run on qemu:aarch64, which is arm_64"),
        (("--target=vulkan",), 31, "compiled for vulkan does not run on qemu:aarch64"),
        (("--target=cpu:arm64", "--device=cuda"), 2, "does not go with --on"),
    ],
)
def test_a_program_is_not_compiled_for_another_machine_than_it_is_verified_on(
    edgec, tmp_path: Path, monkeypatch, flags: tuple[str, ...], code: int, said: str
) -> None:
    (tmp_path / "net.mlir").write_text(TEXT)
    monkeypatch.setattr("edgec.verifying.subject.compile_with_report", _not_yet)
    done = edgec("verify", "net.mlir", "--on=qemu:aarch64", *flags)
    assert done.code == code
    assert said in done.err


def _not_yet(*_: object) -> None:
    raise AssertionError("compiled before the device was asked for")


def test_a_module_for_a_better_cpu_is_refused_with_the_target_to_use(
    edgec, compiled: Compiled, phone: Phone, monkeypatch
) -> None:
    monkeypatch.setenv("QEMU_CPU", "cortex-a57")
    save_file({"a": np.ones(4, np.float32)}, "model.safetensors")
    done = edgec(
        *("run", compiled(WEIGHTED, "cpu:arm64-v8.2"), "--on=adb:", "--input=4xf32=1"),
        "--weights=model.safetensors",
    )
    assert done.code == 31
    assert "a CPU with lse, fullfp16, dotprod, which that of adb:0123 has not" in done.err
    assert "--target=cpu:arm64\n" in done.err
    assert phone.left == []


@pytest.mark.parametrize("gone_at", ["edgert", "module.vmfb", "run.sh", "pull"])
def test_a_phone_that_goes_away_is_exit_code_40(
    edgec, compiled: Compiled, phone: Phone, scratch: Path, gone_at: str
) -> None:
    phone.set(gone_at=gone_at)
    done = edgec("run", compiled(), "--on=adb:0123", *LINE)
    assert done.code == 40, done.err
    assert "adb:0123 went away while it was" in done.err
    assert "may still be on adb:0123" in done.err
    assert not Path("out.npz").exists()
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("gone_at", ["module.vmfb", "sh run.sh"])
def test_a_board_that_goes_away_is_exit_code_40(
    edgec, compiled: Compiled, phone: Phone, scratch: Path, gone_at: str
) -> None:
    phone.set(gone_at=gone_at)
    done = edgec("run", compiled(), "--on=ssh:board", *LINE)
    assert done.code == 40, done.err
    assert "ssh:board went away while it was" in done.err
    assert not Path("out.npz").exists()
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("on", ["adb:0123", "ssh:board"])
@pytest.mark.parametrize("full_at", ["edgert", "in0.npy"])
def test_a_full_device_is_exit_code_40_and_left_as_it_was(
    edgec, compiled: Compiled, phone: Phone, scratch: Path, on: str, full_at: str
) -> None:
    phone.set(full_at=full_at)
    done = edgec("run", compiled(), f"--on={on}", *LINE)
    assert done.code == 40, done.err
    assert f"{on} ran out of space" in done.err
    assert phone.left == []
    assert list(scratch.iterdir()) == []
    assert not Path("out.npz").exists()


def test_a_device_that_is_full_when_results_are_written(
    edgec, compiled: Compiled, phone: Phone
) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    phone.set(results_are_full=True)
    done = edgec("run", compiled(), "--on=adb:", *LINE)
    assert done.code == 40
    assert "ran out of space: cannot write out.npz" in done.err
    assert phone.left == []


@pytest.mark.parametrize(
    ("devices", "name", "code", "what", "advice"),
    [
        ({}, "adb:", 41, "adb knows no device here", "USB debugging"),
        ({"77": "device"}, "adb:0123", 41, "no device 0123 here; adb knows 77", "adb devices"),
        ({"0123": "device", "77": "device"}, "adb:", 2, "0123, 77", "--on=adb:0123"),
        ({"0123": "unauthorized"}, "adb:", 41, "it is unauthorized", "allow USB debugging"),
        ({"0123": "offline"}, "adb:0123", 41, "it is offline", "plug it in again"),
        (
            *({"0123": "no permissions (user in plugdev group); see [url]"}, "adb:", 41),
            *("it is no permissions", "udev"),
        ),
    ],
)
def test_a_phone_that_cannot_be_used_says_what_to_do(
    edgec, compiled: Compiled, phone: Phone, devices, name: str, code: int, what: str, advice: str
) -> None:
    phone.set(devices=devices)
    done = edgec("run", compiled(), f"--on={name}", *LINE)
    assert done.code == code
    assert what in done.err
    assert advice in done.err


@pytest.mark.parametrize(
    ("says", "advice"),
    [
        ("ssh: connect to host board port 22: Connection refused", "start an ssh server"),
        ("me@board: Permission denied (publickey,password).", "ssh-copy-id me@board"),
        ("Host key verification failed.", "look at its key"),
        ("ssh: Could not resolve hostname board: Name or service not known", "spelled"),
        ("something new", "see that `ssh me@board` works"),
    ],
)
def test_a_board_that_lets_nobody_in_says_what_to_do(
    edgec, compiled: Compiled, phone: Phone, says: str, advice: str
) -> None:
    phone.set(refuses=says)
    done = edgec("run", compiled(), "--on=ssh:me@board", *LINE)
    assert done.code == 41
    assert says in done.err
    assert advice in done.err


@pytest.mark.parametrize(
    ("name", "code", "what"),
    [
        ("adb:", 41, "there is no adb on the PATH"),
        ("ssh:board", 41, "there is no ssh on the PATH"),
        ("qemu:aarch64", 41, "there is no qemu-aarch64 on the PATH"),
        ("qemu:vax", 2, "qemu:vax is no machine"),
        ("ssh:-oProxyCommand=true", 2, "names no host"),
        ("usb:3", 2, "names no device"),
    ],
)
def test_what_is_not_here_is_named(
    edgec, compiled: Compiled, monkeypatch, tmp_path: Path, name: str, code: int, what: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = edgec("run", compiled(), f"--on={name}", *LINE)
    assert done.code == code
    assert what in done.err
    assert "next:" in done.err


@pytest.mark.parametrize(
    ("verb", "flags"),
    [
        ("run", ["--device=vulkan", "--input=2x3xf32=1"]),
        ("run", ["--device=edgert://cpu?threads=0", "--input=2x3xf32=1"]),
        ("bench", ["--threads=2"]),
        ("bench", ["--seconds=0"]),
    ],
)
def test_flags_that_do_not_go_with_it_are_refused(
    edgec, compiled: Compiled, verb: str, flags: list[str]
) -> None:
    assert edgec(verb, compiled(), "--on=qemu:aarch64", "--function=add", *flags).code == 2


def test_a_profile_of_another_machine_names_its_kernels(edgec, compiled: Compiled) -> None:
    line = ("bench", compiled(), "--on=qemu:aarch64", "--function=add", "--iterations=3")
    profile = edgec(*line, "--profile", "--json").json["profile"]
    (dispatch,) = [d for d in profile["dispatches"] if "add_dispatch" in d["name"]]
    assert dispatch["count"] == profile["calls"] == 10
    assert 0 < dispatch["minimum"] <= dispatch["mean"] <= dispatch["maximum"]
    assert profile["total"] <= profile["elapsed"]
    assert dispatch["name"] in edgec(*line, "--profile").out


def test_ctrl_c_leaves_nothing(
    edgec, compiled: Compiled, phone: Phone, scratch, monkeypatch
) -> None:
    from edgec.ondevice import deployment

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(deployment, "read_results", interrupt)
    assert edgec("run", compiled(), "--on=adb:", *LINE).code == 130
    assert phone.left == []
    assert list(scratch.iterdir()) == []


def test_json_of_a_failure_has_the_error(edgec, compiled: Compiled, phone: Phone) -> None:
    phone.set(gone_at="run.sh")
    done = edgec("bench", compiled(), "--on=adb:", "--function=add", "--json")
    assert done.code == 40
    error = json.loads(done.out)["error"]
    assert error["code"] == "DeviceError"
    assert "went away" in error["what"]
