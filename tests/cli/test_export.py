from pathlib import Path

import numpy as np
import pytest

from edgec.runtime import Golden
from edgec.toolchain import load_program

MODEL = """
import jax.numpy as jnp
import numpy as np

from edgec.exporters import Bundle, Entry

print("the model's own words")
WEIGHTS = np.linspace(-1, 1, 300 * 400, dtype=np.float32).reshape(300, 400)


def net():
    return (lambda x: {"y": x @ WEIGHTS}), (np.ones((2, 300), np.float32),)


def counter():
    def step(state, x):
        return {"n": state["n"] + 1}, x * state["n"]

    entry = Entry(step, (np.ones(3, np.float32),), name="step", updates_state=True)
    return Bundle((entry,), state={"n": np.float32(0)})
"""


@pytest.fixture
def model(tmp_path: Path) -> str:
    (tmp_path / "model.py").write_text(MODEL)
    return "model.py:net"


def test_the_program_its_answers_and_the_next_command_are_told(edgec, model: str) -> None:
    done = edgec("export", model, "-o", "a.mlirbc")
    assert done.code == 0, done.err
    assert "main(x: f32[2, 300]) -> (y: f32[2, 400])" in done.out
    assert "golden answers: 1 call in a.golden.npz" in done.out
    assert done.out.endswith("next: edgec compile a.mlirbc\n")
    assert "the model's own words" in done.err
    assert "the model's own words" not in done.out
    call = Golden.load(Path("a.golden.npz")).calls[0]
    weights = np.linspace(-1, 1, 300 * 400, dtype=np.float32).reshape(300, 400)
    np.testing.assert_allclose(call.outputs[0], np.ones((2, 300)) @ weights, atol=1e-3)


def test_json_is_what_the_program_says_of_itself(edgec, model: str) -> None:
    done = edgec(
        *("export", model, "--dynamic=batch=1..8", "--external-weights=w.safetensors"),
        *("--signature=net", "-q", "--json"),
    )
    value = done.json
    assert done.code == 0, done.out
    info = load_program("net.mlirbc").info
    assert value["program"] == "net.mlirbc"
    assert value["size"] == Path("net.mlirbc").stat().st_size
    assert value["signatures"] == [f.signature.to_json() for f in info.functions]
    assert {"name": "batch", "min": 1, "max": 8} in value["signatures"][0]["inputs"][0]["shape"]
    assert value["weights"]["file"] == "w.safetensors"
    assert Path("w.safetensors").stat().st_size > 300 * 400 * 4
    assert value["framework"] == "jax"
    assert "jax" in value["versions"]


def test_the_whole_road_with_weights_outside(edgec, model: str) -> None:
    assert edgec("export", model, "--external-weights=apart/w.safetensors", "-q").code == 0
    assert edgec("compile", "net.mlirbc", "-o", "out/net.vmfb", "-q").code == 0
    line = ("--input=@net.golden.npz", "--expected=@net.golden.npz", "-q")
    assert edgec("run", "out/net.vmfb", *line).code == 0
    Path("apart/w.safetensors").rename("v.safetensors")
    assert edgec("run", "out/net.vmfb", *line).code == 4
    assert edgec("run", "out/net.vmfb", "--weights=v.safetensors", *line).code == 0


def test_state_is_told_and_carried_on_from_row_to_row(edgec, model: str) -> None:
    done = edgec("export", "model.py:counter", "-q")
    assert "state n: f32[]" in done.out
    assert edgec("compile", "counter.mlirbc", "-q").code == 0
    run = edgec("run", "counter.vmfb", "--each", "--input=4x3xf32=1", "--json")
    assert [row[0] for row in run.json["outputs"][0]["values"]] == [0, 1, 2, 3]


def test_a_model_without_weights_writes_no_file_for_them_and_says_so(edgec, program: Path) -> None:
    done = edgec("export", program, "-o", "a.mlirbc", "--external-weights=w.safetensors")
    assert done.code == 0, done.err
    assert "w.safetensors is not written" in done.err
    assert not Path("w.safetensors").exists()
    assert "golden answers: none" in done.out


@pytest.mark.parametrize(
    ("arguments", "code", "what"),
    [
        (["none.py:f"], 4, "none.py"),
        (["model.py:none"], 11, "model.py has no none"),
        (["nonsense"], 4, "cannot read nonsense"),
        (["exits.py:f"], 11, "ended the process"),
        (["raises.py:f"], 11, "raises.py"),
        (["model.py:net", "-o", "a.txt"], 2, "cannot be named a.txt"),
        (["model.py:net", "-o", "model.py/a.mlirbc"], 4, "cannot make the folder model.py"),
        (["model.py:net", "--dynamic=="], 2, "="),
        (["a.mlirbc"], 2, "over itself"),
    ],
)
def test_what_cannot_be_exported_is_refused(
    edgec, model: str, arguments: list[str], code: int, what: str
) -> None:
    Path("exits.py").write_text("import sys\nsys.exit(0)\n")
    Path("raises.py").write_text("raise ZeroDivisionError('oh')\n")
    Path("a.mlirbc").write_bytes(b"x")
    done = edgec("export", *arguments)
    assert (done.code, what in done.err) == (code, True), done.err
    assert "Traceback" not in done.err
