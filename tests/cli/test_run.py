from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from edgec.cli.signatures import example_command
from edgec.runtime import Golden, GoldenCall, Module, Tolerance, load


def test_outputs_are_printed_and_written(edgec, module: Path, tmp_path: Path) -> None:
    done = edgec("run", module, "--input=1x4xf32=1,2,3,4", "--input=arg1=5", "-o", "out.npz")
    assert done.code == 0
    assert done.out == "out0: f32[1, 4] = [[2., 4., 6., 8.]]\nout1: i32[] = 5\n"
    assert done.err == "wrote out.npz\n"
    with np.load(tmp_path / "out.npz") as archive:
        np.testing.assert_array_equal(archive["out0"], np.array([[2, 4, 6, 8]], np.float32))
        assert archive["out1"] == 5


@pytest.mark.parametrize(
    "device", ["local-task", "local-sync", "local-task?threads=1", "edgert://cpu?threads=2"]
)
def test_json_has_outputs_and_comparisons(edgec, module: Path, device: str) -> None:
    x = np.array([[1, -2, 3, 4]] * 3, np.float32)
    np.save("x.npy", x)
    np.save("y.npy", -x)
    line = ("run", module, "--function=scores", f"--device={device}", "--input=@x.npy")
    value = edgec(*line, "--expected=@y.npy", "--json").json
    assert (value["schema"], value["verb"], value["function"]) == (1, "run", "scores")
    assert value["device"] == device
    assert value["outputs"][0]["values"] == (-x).tolist()
    assert value["comparisons"][0]["ok"] is True
    assert value["comparisons"][0]["max_abs"] == 0
    assert (
        value["comparisons"][0]["absolute"]
        == Tolerance.of(Module.read(module).signatures["scores"].outputs[0].dtype).absolute
    )


def test_a_wrong_answer_is_exit_code_23_and_says_what_is_off(edgec, module: Path) -> None:
    line = ("run", module, "--input=1x4xf32=1", "--input=i32=1")
    done = edgec(*line, "--expected=out0=1x4xf32=2,2,2.5,2")
    assert done.code == 23
    assert "WRONG" in done.out
    assert "wrong out0: 1 of 4 values are off; the worst at [0, 2] is 2.0 and should be 2.5" in (
        done.err
    )
    value = edgec(*line, "--expected=out0=1x4xf32=2,2,2.5,2", "--json")
    assert value.code == 23
    assert value.json["comparisons"][0]["max_abs"] == 0.5
    assert value.json["error"]["code"] == "WrongAnswer"
    assert edgec(*line, "--expected=out0=1x4xf32=2,2,2.5,2", "--atol=0.5").code == 0
    assert edgec(*line, "--expected=out0=1x4xf32=2,2,2.5,2", "--rtol=0.2").code == 0


def test_labels_are_compared_with_scores(edgec, module: Path) -> None:
    np.save("x.npy", -np.eye(3, 4, dtype=np.float32))
    line = ("run", module, "--function=scores", "--input=@x.npy")
    done = edgec(*line, "--expected=3xi64=0,1,2")
    assert done.code == 0
    assert "taken as labels" in done.err
    wrong = edgec(*line, "--expected=3xi64=0,1,0")
    assert wrong.code == 23
    assert "2 of 3 labels agree" in wrong.err
    assert edgec(*line, "--expected=3xi64=0,1,0", "--share=0.6").code == 0


def test_each_row_is_a_call(edgec, module: Path, tmp_path: Path) -> None:
    x = np.arange(20, dtype=np.float64).reshape(5, 4)
    np.save("x.npy", x)
    line = ("run", module, "--input=@x.npy", "--input=5xi32=1,2,3,4,5")
    refused = edgec(*line)
    assert refused.code == 50
    done = edgec(*line, "--each", "-o", "out.npz", "--json")
    assert done.json["calls"] == 5
    assert "arg0 was converted from f64 to f32" in done.json["notes"]
    with np.load(tmp_path / "out.npz") as archive:
        np.testing.assert_array_equal(archive["out0"], 2 * x)
        np.testing.assert_array_equal(archive["out1"], [1, 2, 3, 4, 5])


def test_a_picture_is_an_input(edgec, module: Path) -> None:
    pixels = np.arange(18, dtype=np.uint8).reshape(2, 3, 3)
    Image.fromarray(pixels).save("a.png")
    np.save("y.npy", ~pixels[None])
    done = edgec("run", module, "--function=picture", "--input=@a.png", "--expected=@y.npy")
    assert done.code == 0, done.err


def test_without_inputs_the_error_is_a_command_that_works(edgec, module: Path) -> None:
    done = edgec("run", module, "--function=scores")
    assert done.code == 50
    assert "scores(arg0: f32[3, 4]) -> (out0: f32[3, 4])" in done.err
    command = done.err.split("for example edgec ")[1].split()
    assert edgec(*command).code == 0


def test_golden_answers_beside_the_module_are_the_example(
    edgec, module: Path, tmp_path: Path
) -> None:
    x = np.ones((1, 4), np.float32)
    copy = tmp_path / "functions.cpu-host.vmfb"
    copy.write_bytes(module.read_bytes())
    call = GoldenCall(
        signature="main", inputs=(x, np.array(3, np.int32)), outputs=(2 * x, np.array(3, np.int32))
    )
    Golden(calls=(call,)).save(tmp_path / "functions.golden.npz")
    read = Module.read(copy)
    words = example_command("run", read, read.signatures["main"]).split()
    assert f"--expected=@{tmp_path}/functions.golden.npz" in words
    done = edgec(*words[1:])
    assert done.code == 0
    assert done.out.count(" ok\n") == 2


@pytest.mark.parametrize(
    ("arguments", "code", "what"),
    [
        (["--input=1x4xf32=1"], 50, "main needs arg1 too"),
        (["--input=1x5xf32=1", "--input=1"], 50, "dimension 1 must be 4"),
        (["--input=1x4xi64=1", "--input=1", "--atol=1"], 2, "nothing is expected"),
        (["--input=nonsense"], 2, "is no input"),
        (["--function=none"], 50, "has no function 'none'"),
        (["--input=1x4xf32=1", "--input=1", "-o", "out.txt"], 2, "cannot be written to out.txt"),
        (["--input=1x4xf32=1", "--input=1", "--device=abacus"], 41, "abacus"),
        (["--input=1x4xf32=1", "--input=1", "--expected=2x2x2xf32"], 50, "rank"),
        (["--input=1x4xf32=1", "--input=@none.npy"], 4, "cannot read none.npy"),
    ],
)
def test_what_makes_no_sense_is_refused(
    edgec, module: Path, arguments: list[str], code: int, what: str
) -> None:
    done = edgec("run", module, *arguments)
    assert (done.code, what in done.err) == (code, True), done.err
    assert done.out == ""


def test_the_answer_is_that_of_the_runtimes_own_call(edgec, module: Path) -> None:
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    np.save("x.npy", x)
    edgec("run", module, "--function=scores", "--input=@x.npy", "-o", "y.npy")
    with load(module) as loaded:
        np.testing.assert_array_equal(np.load("y.npy"), loaded["scores"](x))
    np.testing.assert_array_equal(np.load("y.npy"), -x)
