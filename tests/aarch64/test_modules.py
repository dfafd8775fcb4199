"""Modules for 64-bit Arm give the right numbers on an (emulated) 64-bit Arm machine."""

from pathlib import Path

import numpy as np
import pytest

from edgec import runtime, toolchain
from tests.c.programs import PROGRAMS

# softmax(tanh(x @ w) @ v), and the largest score; as the tests of edgert compile it, so that one of
# the two finds it made.
PROGRAM = next(program for program in PROGRAMS if program.name == "softmax").text


def _reference(x: np.ndarray, w: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    scores = np.tanh(x.astype(np.float64) @ w) @ v
    largest = scores.max(axis=1)
    raised = np.exp(scores - largest[:, None])
    return raised / raised.sum(axis=1, keepdims=True), largest


@pytest.mark.parametrize("target", ["cpu:arm64", "cpu:arm64-v8.2"])
def test_a_module_gives_the_numbers_of_numpy(target: str, run_on_aarch64, tmp_path: Path) -> None:
    source = tmp_path / "softmax.mlir"
    source.write_text(PROGRAM)
    options = toolchain.CompileOptions(output=tmp_path / "softmax.vmfb")
    module = toolchain.compile(source, target, options)
    random = np.random.default_rng(7)
    inputs = {
        "x": random.standard_normal((7, 33), dtype=np.float32),
        "w": random.standard_normal((33, 65), dtype=np.float32),
        "v": random.standard_normal((65, 10), dtype=np.float32),
    }
    actual = run_on_aarch64(module.path, inputs, outputs=2, function="softmax")
    for found, expected in zip(actual, _reference(**inputs), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-4)


def test_such_a_module_is_unchecked_here_and_says_what_it_needs(tmp_path: Path) -> None:
    source = tmp_path / "softmax.mlir"
    source.write_text(PROGRAM)
    options = toolchain.CompileOptions(output=tmp_path / "softmax.vmfb")
    module = toolchain.compile(source, "cpu:arm64", options)
    facts = runtime.Module.read(module.path).facts
    assert facts.target == "cpu:arm64"
    assert facts.check.startswith("unchecked")


def test_the_digit_reader_reads_alike(run_on_aarch64, tmp_path: Path) -> None:
    from edgec import exporters

    root = Path(__file__).resolve().parents[2]
    program = exporters.export_source(f"{root / 'samples' / 'digits' / 'model.py'}:classifier")
    options = toolchain.CompileOptions(output=tmp_path / "digits.vmfb")
    module = toolchain.compile(program, "cpu:arm64-v8.2", options)
    assert program.golden is not None
    call = program.golden.calls[0]
    label, scores = run_on_aarch64(module.path, {"images": call.inputs[0]}, outputs=2)
    np.testing.assert_array_equal(label, call.outputs[0])
    np.testing.assert_allclose(scores, call.outputs[1], atol=1e-4)
