"""Modules for 64-bit Arm give the right numbers on an (emulated) 64-bit Arm machine."""

from pathlib import Path

import numpy as np
import pytest

from edgec import runtime, toolchain

# softmax(tanh(x @ w) @ v), and where the largest is.
PROGRAM = """
func.func private @larger(%v0: tensor<f32>, %i0: tensor<i32>, %v1: tensor<f32>, %i1: tensor<i32>)
    -> (tensor<f32>, tensor<i32>) {
  %0 = stablehlo.compare GE, %v0, %v1 : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %1 = stablehlo.select %0, %v0, %v1 : tensor<i1>, tensor<f32>
  %2 = stablehlo.select %0, %i0, %i1 : tensor<i1>, tensor<i32>
  return %1, %2 : tensor<f32>, tensor<i32>
}
func.func public @main(%x: tensor<7x33xf32>, %w: tensor<33x65xf32>, %v: tensor<65x10xf32>)
    -> (tensor<7x10xf32>, tensor<7xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<7x33xf32>, tensor<33x65xf32>) -> tensor<7x65xf32>
  %1 = stablehlo.tanh %0 : tensor<7x65xf32>
  %2 = stablehlo.dot_general %1, %v, contracting_dims = [1] x [0]
    : (tensor<7x65xf32>, tensor<65x10xf32>) -> tensor<7x10xf32>
  %3 = stablehlo.reduce(%2 init: %low) applies stablehlo.maximum across dimensions = [1]
    : (tensor<7x10xf32>, tensor<f32>) -> tensor<7xf32>
  %4 = stablehlo.broadcast_in_dim %3, dims = [0] : (tensor<7xf32>) -> tensor<7x10xf32>
  %5 = stablehlo.subtract %2, %4 : tensor<7x10xf32>
  %6 = stablehlo.exponential %5 : tensor<7x10xf32>
  %7 = stablehlo.reduce(%6 init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<7x10xf32>, tensor<f32>) -> tensor<7xf32>
  %8 = stablehlo.broadcast_in_dim %7, dims = [0] : (tensor<7xf32>) -> tensor<7x10xf32>
  %9 = stablehlo.divide %6, %8 : tensor<7x10xf32>
  return %9, %3 : tensor<7x10xf32>, tensor<7xf32>
}
"""


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
    actual = run_on_aarch64(module.path, inputs, outputs=2)
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
