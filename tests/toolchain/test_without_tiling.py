"""Programs that the compiler fails with in data tiling or constants are compiled without."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgec import runtime, toolchain
from edgec.toolchain.compiling import steps
from edgec.toolchain.flags import without_evaluation, without_tiling
from edgec.toolchain.process import Finished, run_compiler

SUM = """
func.func @main(%x: tensor<5x5xf32>) -> tensor<5x5xf32> {
  %rows = stablehlo.iota dim = 0 : tensor<5x5xi32>
  %columns = stablehlo.iota dim = 1 : tensor<5x5xi32>
  %same = stablehlo.compare EQ, %rows, %columns, SIGNED
    : (tensor<5x5xi32>, tensor<5x5xi32>) -> tensor<5x5xi1>
  %eye = stablehlo.convert %same : (tensor<5x5xi1>) -> tensor<5x5xf32>
  %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<5x5xf32>) -> tensor<5x5xf32>
  %1 = stablehlo.dot_general %x, %0, contracting_dims = [1] x [0]
    : (tensor<5x5xf32>, tensor<5x5xf32>) -> tensor<5x5xf32>
  %2 = stablehlo.add %1, %eye : tensor<5x5xf32>
  %3 = stablehlo.transpose %2, dims = [1, 0] : (tensor<5x5xf32>) -> tensor<5x5xf32>
  return %3 : tensor<5x5xf32>
}"""

PRODUCT = """
func.func @main(%x: tensor<5x5xf32>) -> tensor<5x5xf32> {
  %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
    : (tensor<5x5xf32>, tensor<5x5xf32>) -> tensor<5x5xf32>
  return %0 : tensor<5x5xf32>
}"""


def test_only_data_tiling_is_left_out() -> None:
    assert without_tiling(["iree-compile", "--iree-opt-data-tiling", "-o"]) == [
        "iree-compile",
        "-o",
    ]
    assert without_tiling(["iree-compile", "-o"]) is None


def test_a_compiler_that_dies_in_it_runs_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[bool] = []

    def dies_with_tiling(command: list[str], **how: Any) -> Finished:
        tried.append("--iree-opt-data-tiling" in command)
        if tried[-1]:
            return Finished(code=-11, stderr="Stack dump:", seconds=0.1)
        return run_compiler(command, **how)

    monkeypatch.setattr(steps, "run_compiler", dies_with_tiling)
    (tmp_path / "case.mlir").write_text(SUM)
    module = toolchain.compile(tmp_path / "case.mlir", "cpu")
    x = np.random.default_rng(9).standard_normal((5, 5)).astype(np.float32)
    with runtime.load(module) as loaded:
        np.testing.assert_allclose(loaded.main(x), (x @ x.T + np.eye(5)).T, rtol=1e-5, atol=1e-5)
    assert tried == [True, False]


def test_constants_are_left_to_the_device_where_the_compiler_fails_in_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert without_evaluation(["iree-compile"], "no such operation") is None
    said = (
        "case.mlir:9:8: error: internal error: jit global source initialization order invalid: "
        'global "__hoisted" has no value\n'
    )
    tried: list[bool] = []

    def fails_in_constants(command: list[str], **how: Any) -> Finished:
        tried.append("--iree-opt-const-eval=false" not in command)
        if tried[-1]:
            return Finished(code=1, stderr=said, seconds=0.1)
        return run_compiler(command, **how)

    monkeypatch.setattr(steps, "run_compiler", fails_in_constants)
    (tmp_path / "case.mlir").write_text(PRODUCT)
    compiled = toolchain.compile_with_report(tmp_path / "case.mlir", "cpu")
    x = np.random.default_rng(9).standard_normal((5, 5)).astype(np.float32)
    with runtime.load(compiled.module) as loaded:
        np.testing.assert_allclose(loaded.main(x), x @ x, rtol=1e-5, atol=1e-5)
    assert tried == [True, False]
    assert any("without working out constants" in note for note in compiled.report.notes)
