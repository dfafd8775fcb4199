"""`edgec compile` and `edgec package` take models, and export them on the way."""

from pathlib import Path

import numpy as np
import pytest

from edgec.runtime import Golden, Manifest, load

MODEL = """
import jax.numpy as jnp
import numpy as np

WEIGHTS = np.linspace(-1, 1, 64 * 4, dtype=np.float32).reshape(64, 4)
print("the model's own words")


def net():
    return (lambda x: {"scores": jnp.tanh(x @ WEIGHTS)}), (np.ones((2, 64), np.float32),)
"""
WEIGHTS = np.linspace(-1, 1, 64 * 4, dtype=np.float32).reshape(64, 4)


@pytest.fixture
def model(tmp_path: Path) -> str:
    (tmp_path / "model.py").write_text(MODEL)
    return "model.py:net"


def _scores(module: Path) -> None:
    x = np.random.default_rng(0).standard_normal((2, 64)).astype(np.float32)
    with load(module) as loaded:
        result = loaded.main(x)
    scores = result["scores"] if isinstance(result, dict) else result
    np.testing.assert_allclose(scores, np.tanh(x @ WEIGHTS), atol=1e-5)


def test_a_model_is_compiled_by_one_command_and_no_program_is_left(
    edgec, model: str, tmp_path: Path
) -> None:
    done = edgec("compile", model)
    assert done.code == 0, done.err
    assert "exporting model.py:net" in done.err
    assert "net.vmfb: cpu:host, checked" in done.out
    assert "the model's own words" in done.err
    assert {path.name for path in tmp_path.iterdir()} - {"state", "__pycache__"} == {
        "model.py",
        "net.vmfb",
    }
    _scores(Path("net.vmfb"))
    assert edgec(*done.out.split("next: edgec ")[1].split()).code == 0


def test_the_program_is_kept_where_that_is_asked_for(edgec, model: str) -> None:
    x = np.full((2, 64), 0.25, np.float32)
    np.savez("x.npz", x)
    line = ("--keep-program=kept/mine.mlirbc", "--inputs=@x.npz", "--dynamic=batch=1..8")
    value = edgec("compile", model, *line, "--json").json
    assert (value["source"], value["program"]) == (model, "kept/mine.mlirbc")
    (made,) = value["modules"]
    assert made["module"] == "kept/mine.vmfb"
    assert made["check"].startswith("checked")
    golden = Golden.load(Path("kept/mine.golden.npz"))
    np.testing.assert_array_equal(golden.calls[0].inputs[0], x)
    again = edgec("compile", "kept/mine.mlirbc", "-o", "again.vmfb", "--json").json
    assert again["modules"][0]["size"] == made["size"]
    with load("again.vmfb") as loaded:
        assert loaded.main(np.ones((5, 64), np.float32))["scores"].shape == (5, 4)


def test_an_onnx_file_is_compiled_by_one_command_with_its_weights_outside(
    edgec, tmp_path: Path
) -> None:
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper
    kind = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["h"]),
            helper.make_node("Tanh", ["h"], ["scores"]),
        ],
        "net",
        [helper.make_tensor_value_info("x", kind, [2, 64])],
        [helper.make_tensor_value_info("scores", kind, [2, 4])],
        [onnx.numpy_helper.from_array(WEIGHTS, "w")],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), "net.onnx")
    done = edgec("compile", "net.onnx", "--external-weights=w.safetensors", "-o", "out/net.vmfb")
    assert done.code == 0, done.err
    assert Path("w.safetensors").stat().st_size > WEIGHTS.nbytes
    _scores(Path("out/net.vmfb"))


def test_a_model_becomes_a_package_by_one_command(edgec, model: str, tmp_path: Path) -> None:
    done = edgec("package", model, "--c", "--target=cpu:x86-64", "--json")
    assert done.code == 0, done.err
    assert (done.json["source"], done.json["program"]) == (model, None)
    assert Manifest.read(tmp_path / "net-c").name == "net"
    _scores(tmp_path / "net-c")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["compile", "none.onnx"], 4, "cannot read none.onnx"),
        (["compile", "model.py:nett"], 11, "has no nett"),
        (["compile", "model.py:net", "--target=none"], 20, "there is no target"),
        (["compile", "model.py:net", "--keep-program=p.vmfb"], 2, "a program cannot be named"),
        (["compile", "model.py:net", "--keep-program=p.mlir", "-o", "p.mlir"], 2, "over itself"),
        (["compile", "p.mlirbc", "--dynamic=batch=1..8"], 2, "p.mlirbc is a program already"),
        (["package", "model.py:net", "--c", "--target=wasm"], 20, "no driver wasm"),
    ],
)
def test_what_is_wrong_is_said_before_the_model_is_compiled(
    edgec, model: str, words: list[str], code: int, message: str
) -> None:
    done = edgec(*words)
    assert (done.code, message in done.err) == (code, True), done.err
    assert "compiling" not in done.err
