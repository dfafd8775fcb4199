"""The `edgert` command: inputs as edgec spells them, results for NumPy, clear refusals."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

TEXT = """
func.func @main(%x: tensor<2x3xf32>, %n: tensor<3xi32>) -> (tensor<2x3xf32>, tensor<3xi32>) {
  %0 = stablehlo.add %x, %x : tensor<2x3xf32>
  %1 = stablehlo.multiply %n, %n : tensor<3xi32>
  return %0, %1 : tensor<2x3xf32>, tensor<3xi32>
}
func.func @halves(%x: tensor<4xf16>, %b: tensor<4xbf16>, %p: tensor<4xi1>)
    -> (tensor<4xf16>, tensor<4xbf16>, tensor<4xi1>, tensor<2xui8>) {
  %c = stablehlo.constant dense<[200, 7]> : tensor<2xui8>
  %q = stablehlo.not %p : tensor<4xi1>
  return %x, %b, %q, %c : tensor<4xf16>, tensor<4xbf16>, tensor<4xi1>, tensor<2xui8>
}
"""


@pytest.fixture
def edgert(build: Callable[[str], Path], compile_text: Callable[..., Path]):
    program = build("vulkan") / "edgert"
    module = compile_text(TEXT)

    def call(verb: str, *words: str, code: int = 0) -> str:
        done = subprocess.run(
            [program, verb, module, *words], capture_output=True, text=True, check=False
        )
        assert done.returncode == code, done.stderr
        return done.stdout if code == 0 else done.stderr

    return call


def test_inputs_are_spelled_as_edgec_spells_them(edgert, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((2, 3), np.float32))
    np.arange(3, dtype=np.int32).tofile(tmp_path / "n.bin")
    for x in (f"@{tmp_path / 'x.npy'}", "2x3xf32=1", "arg0=2x3xf32=[[1 1 1][1 1 1]]", "1"):
        for n in (f"3xi32=@{tmp_path / 'n.bin'}", "arg1=3xi32=0,1,2", "0,1,0x2"):
            printed = edgert("run", f"--input={x}", f"--input={n}")
            assert "out0: f32[2, 3] = [2, 2, 2, 2, 2, 2]" in printed
            assert "out1: i32[3] = [0, 1, 4]" in printed


def test_results_go_to_numpy_files(edgert, tmp_path: Path) -> None:
    path = tmp_path / "out.npz"
    edgert("run", "--input=0.25", "--input=7", f"--output={path}")
    with np.load(path) as archive:
        np.testing.assert_array_equal(archive["out0"], np.full((2, 3), 0.5, np.float32))
        np.testing.assert_array_equal(archive["out1"], np.full(3, 49, np.int32))


def test_small_types_are_right(edgert, tmp_path: Path) -> None:
    import ml_dtypes

    path = tmp_path / "out.npz"
    values = [1.0009765625, -65504.0, 5.9604645e-8, 0.1]
    text = ",".join(map(repr, values))
    edgert(
        *("run", "--function=halves", f"--input=4xf16={text}", f"--input=4xbf16={text}"),
        *("--input=4xbool=true,false,1,0", f"--output={path}"),
    )
    with np.load(path) as archive:
        halves, brains, flipped, bytes_ = (archive[f"out{i}"] for i in range(4))
    np.testing.assert_array_equal(halves, np.array(values).astype(np.float16))
    np.testing.assert_array_equal(
        brains, np.array(values, np.float32).astype(ml_dtypes.bfloat16).astype(np.float32)
    )
    np.testing.assert_array_equal(flipped, [False, True, False, True])
    np.testing.assert_array_equal(bytes_, np.array([200, 7], np.uint8))


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((), "arg0 is missing"),
        (("--input=1",), "arg1 is missing"),
        (("--input=1", "--input=1", "--input=1"), "more inputs"),
        (("--input=2x3xf32=1,2", "--input=1"), "6 numbers are needed and 2"),
        (("--input=2x3xf32=one", "--input=1"), "no f32 number"),
        (("--input=1", "--input=3xi32=99999999999"), "no i32 number"),
        (("--input=2x4xf32=1", "--input=1"), "takes 2x3xf32 and was given 2x4xf32"),
        (("--input=@missing.npy", "--input=1"), "cannot open"),
        (("--function=nobody",), "no function 'nobody'"),
        (("--device=tpu",), "no driver 'tpu'"),
        (("--weights=missing.irpa",), "cannot open"),
    ],
)
def test_refusals_say_why(words: tuple[str, ...], reason: str, edgert) -> None:
    assert reason in edgert("run", *words, code=1)


def test_bench_measures(edgert) -> None:
    found = json.loads(edgert("bench", "--seconds=0.05", "--json"))
    assert 0 < found["min"] <= found["p50"] <= found["p90"] <= found["p99"]
    assert found["min"] <= found["mean"]
    assert found["calls"] >= 3
    assert json.loads(edgert("bench", "--iterations=7", "--json"))["calls"] == 7
    assert json.loads(edgert("bench", "--threads=3", "--iterations=1", "--json"))["threads"] == 3
    assert found["load"] > 0
    assert found["peak"] > 1e6


def test_each_row_is_a_call_and_its_results_are_rows(edgert, tmp_path: Path) -> None:
    x = np.arange(30, dtype=np.float32).reshape(5, 2, 3)
    n = np.array([3, -1, 7], np.int32)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "n.npy", n)
    figures = json.loads(
        edgert(
            *("run", "--each", "--json", f"--output={tmp_path / 'out.npz'}"),
            *(f"--input=@{tmp_path / 'x.npy'}", f"--input=@{tmp_path / 'n.npy'}"),
        )
    )
    assert figures["seconds"] > 0
    with np.load(tmp_path / "out.npz") as archive:
        np.testing.assert_array_equal(archive["out0"], 2 * x)
        np.testing.assert_array_equal(archive["out1"], np.stack([n * n] * 5))
    uneven = ("run", "--each", "--input=4x2x3xf32=1", "--input=3x3xi32=1")
    assert "as many rows" in edgert(*uneven, code=1)
    assert "no call" in edgert("run", "--each", "--input=0x2x3xf32=1", "--input=1", code=1)


def test_a_full_disk_is_named(edgert) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full here")
    assert "No space left" in edgert("run", "--input=1", "--input=1", f"--output={full}", code=1)


def test_the_device_answers_questions(build: Callable[[str], Path]) -> None:
    program = build("vulkan") / "edgert"
    words = ("query", "hal.dispatch", "concurrency", "colour")
    done = subprocess.run([program, *words], capture_output=True, text=True, check=True)
    assert done.stdout == "concurrency 1\ncolour unknown\n"


def test_inspect_lists_what_there_is(edgert) -> None:
    printed = edgert("inspect")
    assert "function main" in printed
    assert "input 1: arg1: i32[3]" in printed
    assert "output 2: out2: bool[4]" in printed
    assert "output 3: out3: u8[2]" in printed


def test_a_profile_names_the_kernels_and_adds_up(edgert) -> None:
    words = ("--input=1", "--input=7", "--iterations=4")
    value = json.loads(edgert("profile", *words, "--json"))
    assert value["calls"] == 4
    assert any("main_dispatch" in row["name"] for row in value["dispatches"])
    for row in value["dispatches"]:
        assert row["count"] % 4 == 0
        assert 0 <= row["min"] <= row["total"] / row["count"] <= row["max"]
    assert sum(row["total"] for row in value["dispatches"]) <= value["seconds"]
    table = edgert("profile", *words)
    assert "main_dispatch" in table
    assert "outside of these" in table


def test_a_device_that_times_nothing_says_so(edgert) -> None:
    assert "'null' does not time" in edgert("profile", "--input=1", "--device=null", code=1)
