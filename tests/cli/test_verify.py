import subprocess
from pathlib import Path

import numpy as np
import pytest

from edgec.runtime import Golden, GoldenCall
from edgec.toolchain.process import compiler_path


@pytest.fixture(scope="module")
def x() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)


@pytest.fixture
def answered(program: Path, module: Path, x: np.ndarray, tmp_path: Path) -> Path:
    """The module with right answers beside it, of two of its functions."""
    path = tmp_path / "net.vmfb"
    path.write_bytes(module.read_bytes())
    calls = (
        GoldenCall(signature="scores", inputs=(x,), outputs=(-x,)),
        GoldenCall(
            signature="main",
            inputs=(x[:1], np.array(7, np.int32)),
            outputs=(2 * x[:1], np.array(7, np.int32)),
        ),
    )
    Golden(calls=calls).save(tmp_path / "net.golden.npz")
    return path


def test_a_module_is_verified_by_the_answers_beside_it(edgec, answered: Path) -> None:
    done = edgec("verify", answered)
    assert done.code == 0, done.err
    assert done.out.endswith("verdict: right\n")
    value = edgec("verify", answered, "--json").json
    assert (value["kind"], value["ok"]) == ("module", True)
    assert [call["function"] for call in value["calls"]] == ["scores", "main"]
    (scores,) = value["calls"][0]["outputs"]
    assert (scores["relative_l2"], scores["cosine"], scores["max_abs"]) == (0, 1, 0)
    assert scores["signal_to_noise"] == "inf"
    assert scores["compared"] == 12


@pytest.mark.parametrize("device", ["local-sync", "edgert://cpu?threads=2"])
def test_a_device_is_chosen(edgec, answered: Path, device: str) -> None:
    assert edgec("verify", answered, f"--device={device}", "--json").json["device"] == device


def test_wrong_answers_are_exit_code_23_with_their_distance(
    edgec, answered: Path, x: np.ndarray, tmp_path: Path
) -> None:
    wrong = GoldenCall(signature="scores", inputs=(x,), outputs=(x,))
    Golden(calls=(wrong,)).save(tmp_path / "wrong.npz")
    done = edgec("verify", answered, "--golden=wrong.npz")
    assert done.code == 23
    assert "verdict: WRONG" in done.out
    assert "gives a wrong out0 of scores: 12 of 12 values are off" in done.err
    value = edgec("verify", answered, "--golden=wrong.npz", "--json").json
    (output,) = value["calls"][0]["outputs"]
    assert value["ok"] is False
    assert output["cosine"] == pytest.approx(-1)
    assert output["relative_l2"] == pytest.approx(2)
    assert output["signal_to_noise"] == pytest.approx(20 * np.log10(0.5))
    assert output["max_abs"] == pytest.approx(2 * np.abs(x).max())
    assert value["error"]["code"] == "WrongAnswer"


def test_a_program_is_compiled_and_verified(
    edgec, program: Path, x: np.ndarray, tmp_path: Path
) -> None:
    path = tmp_path / "net.mlir"
    path.write_text(program.read_text())
    refused = edgec("verify", path)
    assert refused.code == 15
    assert "has no golden answers" in refused.err
    Golden(calls=(GoldenCall(signature="scores", inputs=(x,), outputs=(-x,)),)).save(
        tmp_path / "net.golden.npz"
    )
    value = edgec("verify", path, "--json").json
    assert (value["kind"], value["ok"], value["target"]) == ("program", True, "cpu:host")
    assert not (tmp_path / "net.vmfb").exists()
    assert edgec("verify", path, "--target=cpu", "-q").code == 0


def test_a_module_that_reads_what_nothing_writes_is_wrong(
    edgec, x: np.ndarray, tmp_path: Path
) -> None:
    (tmp_path / "net.mlir").write_text("""
    func.func @main(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
      %nothing = flow.tensor.empty : tensor<3x4xf32>
      %sum = arith.addf %x, %nothing : tensor<3x4xf32>
      return %sum : tensor<3x4xf32>
    }
    """)
    device = ("--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu")
    files = (tmp_path / "net.mlir", "-o", tmp_path / "net.vmfb")
    command = [compiler_path(), *device, "--iree-llvmcpu-target-cpu=host", *files]
    subprocess.run(command, check=True, timeout=120)
    Golden(calls=(GoldenCall(signature="main", inputs=(x,), outputs=(x,)),)).save(
        tmp_path / "net.golden.npz"
    )
    done = edgec("verify", "net.vmfb")
    assert done.code == 23
    assert "right as long as memory that nothing has written is 0" in done.out
    value = edgec("verify", "net.vmfb", "--json").json
    assert (value["ok"], value["ok_with_unwritten_memory_filled"]) == (False, False)
    assert value["device"] == "edgert://cpu/unwritten"
    assert (
        edgec("verify", "net.vmfb", "--device=local-sync", "--json").json[
            "ok_with_unwritten_memory_filled"
        ]
        is None
    )  # IREE's own runtime has nothing of the kind


def test_corners_find_what_no_example_meets(edgec, program: Path, tmp_path: Path) -> None:
    path = tmp_path / "net.mlir"
    path.write_text(
        """
        func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
          %scaled = stablehlo.multiply %x, %x : tensor<4xf32>
          %root = stablehlo.sqrt %scaled : tensor<4xf32>
          return %root : tensor<4xf32>
        }
        """
    )
    given = np.float32([1, -2, 3, 0.5])
    call = GoldenCall(signature="main", inputs=(given,), outputs=(np.abs(given),))
    Golden(calls=(call,)).save(tmp_path / "net.golden.npz")
    value = edgec("verify", path, "--corners", "--json").json
    assert [each["outputs"][0]["ok"] for each in value["calls"]] == [True] * 3
    assert "2 of zeros and ones NumPy's" in value["source"]
    other = GoldenCall(signature="main", inputs=(given,), outputs=(given,))
    Golden(calls=(other,)).save(tmp_path / "net.golden.npz")
    refused = edgec("verify", path, "--corners")
    assert refused.code == 15
    assert "does not give the framework's answers" in refused.err


def test_a_module_is_verified_by_what_it_brings(
    edgec, program: Path, x: np.ndarray, tmp_path: Path
) -> None:
    path = tmp_path / "brings.mlir"
    path.write_text(program.read_text())
    Golden(calls=(GoldenCall(signature="scores", inputs=(x,), outputs=(-x,)),)).save(
        tmp_path / "brings.golden.npz"
    )
    assert edgec("compile", path, "--embed-golden", "-o", "proved.vmfb").code == 0
    value = edgec("verify", "proved.vmfb", "--json").json
    assert value["ok"] is True
    (output,) = value["calls"][0]["outputs"]
    assert output["compared"] == 12
    assert output["relative_l2"] < 1e-9


def test_answers_of_another_program_and_none_are_refused(
    edgec, module: Path, answered: Path, x: np.ndarray, tmp_path: Path
) -> None:
    Golden(calls=(GoldenCall(signature="other", inputs=(x,), outputs=(x,)),)).save(
        tmp_path / "other.npz"
    )
    assert edgec("verify", answered, "--golden=other.npz").code == 30
    done = edgec("verify", module)
    assert done.code == 30
    assert "brings no golden answers" in done.err
    assert edgec("verify", module, "--target=cpu").code == 2


def test_two_devices_are_compared_without_golden_answers(edgec, module: Path) -> None:
    value = edgec("verify", module, "--against=local-sync", "--json").json
    assert value["ok"] is True
    assert [call["function"] for call in value["calls"]] == ["main", "scores", "picture"]
    assert value["source"].endswith("(local-sync)")


@pytest.mark.vulkan
def test_a_program_is_compiled_for_what_the_other_device_is(
    edgec, program: Path, x: np.ndarray, tmp_path: Path
) -> None:
    (tmp_path / "net.mlir").write_text(program.read_text())
    Golden(calls=(GoldenCall(signature="scores", inputs=(x,), outputs=(-x,)),)).save(
        tmp_path / "net.golden.npz"
    )
    done = edgec("verify", "net.mlir", "--against=edgert://vulkan", "--json")
    assert done.code == 0, done.out
    assert done.json["source"].endswith("(edgert://vulkan)")


@pytest.mark.parametrize(
    ("flags", "code", "said"),
    [
        (("--device=none",), 41, "none://0 is not here"),
        (("--against=none",), 41, "none://0 is not here"),
        (("--bisect", "--device=none://3"), 41, "none://3 is not here"),
        (("--soak=2", "--device=metal"), 41, "metal://0 is not here"),
        (("--target=metal",), 41, "metal://0 is not here"),
        (("--target=webgpu",), 31, "runs elsewhere than on a device of this machine"),
        (("--target=cpu:armv7",), 31, "for cpu:armv7 does not run on this machine, which is"),
        (("--target=metal", "--device=cpu"), 31, "for metal does not run on edgert://cpu"),
        (("--bisect", "-o", "/proc/small.mlir"), 4, "cannot write /proc/small.mlir"),
        (("--layers", "--picture=/proc/net.svg"), 4, "cannot write /proc/net.svg"),
    ],
)
def test_what_is_missing_is_said_before_a_program_is_compiled(
    edgec, program: Path, monkeypatch, flags: tuple[str, ...], code: int, said: str
) -> None:
    monkeypatch.setattr("edgec.verifying.subject.compile_with_report", _not_yet)
    done = edgec("verify", program, *flags)
    assert done.code == code
    assert said in done.err


def _not_yet(*_: object) -> None:
    raise AssertionError("compiled before the device was asked for")


@pytest.mark.parametrize("text", ["", "hello"])
def test_what_is_no_program_is_named(edgec, tmp_path: Path, text: str) -> None:
    (tmp_path / "net.mlirbc").write_text(text)
    done = edgec("verify", "net.mlirbc")
    assert (done.code, "at:   net.mlirbc" in done.err) == (15, True)


def test_calls_are_soaked(edgec, answered: Path) -> None:
    done = edgec("verify", answered, "--soak=4", "--json")
    assert done.code == 0, done.err
    assert done.json["soak"] == {
        "rounds": {"alone": 4, "from 4 threads": 4, "beside other work": 4},
        "same": True,
        "change": None,
    }


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--layers",), "give the program"),
        (("--bisect",), "give the program"),
        (("--picture=net.svg",), "add --layers"),
        (("-o", "small.mlir"), "add --bisect"),
        (("--soak=4", "--on=qemu:aarch64"), "leave one of them out"),
    ],
)
def test_what_makes_no_sense_is_refused(
    edgec, answered: Path, flags: tuple[str, ...], said: str
) -> None:
    done = edgec("verify", answered, *flags)
    assert done.code == 2
    assert said in done.err
