"""The test that a package brings along: it runs here, and finds a wrong answer."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgec.packaging import PackageOptions, make_package, making
from edgec.runtime import Golden, GoldenCall
from edgec.runtime.errors import WrongAnswer
from edgec.toolchain import CompileOptions, Program
from edgec.toolchain.seeded import Seeded
from edgec.toolchain.seeding import answer_seeds
from tests.packaging.conftest import need

TEXT = """
func.func public @main(%x: tensor<?x3xf32>, %h: tensor<4xf16>, %c: tensor<2xcomplex<f32>>,
    %n: tensor<3xi64>, %b: tensor<2xi1>)
    -> (tensor<?x3xf32>, tensor<4xf16>, tensor<2xcomplex<f32>>, tensor<3xi64>, tensor<2xi1>) {
  %0 = stablehlo.add %x, %x : tensor<?x3xf32>
  %2 = stablehlo.add %c, %c : tensor<2xcomplex<f32>>
  %3 = stablehlo.add %n, %n : tensor<3xi64>
  %4 = stablehlo.not %b : tensor<2xi1>
  return %0, %h, %2, %3, %4 : tensor<?x3xf32>, tensor<4xf16>, tensor<2xcomplex<f32>>, tensor<3xi64>,
    tensor<2xi1>
}
"""
INPUTS = (
    np.array([[1, -2.5, 3], [4, np.inf, np.nan]], np.float32),
    np.array([0.5, -1.25, 6e-8, 1000], np.float16),
    np.array([1 + 2j, -3j], np.complex64),
    np.array([1, -(1 << 40), 7], np.int64),
    np.array([True, False]),
)
OUTPUTS = (2 * INPUTS[0], INPUTS[1], 2 * INPUTS[2], 2 * INPUTS[3], ~INPUTS[4])
TOOLS = {"c": ("cc",), "android": ("cc", "javac", "java"), "web": ("node",)}
PROGRAMS = {
    "c": "selftest/selftest.c",
    "android": "selftest/SelfTest.java",
    "web": "selftest/selftest.mjs",
}
TARGETS = {"c": "cpu:x86-64", "android": "cpu:x86-64", "web": "wasm:plain"}


def _options(kind: str) -> PackageOptions:
    return PackageOptions(
        targets=(TARGETS[kind],), prove=True, compiling=CompileOptions(check=False)
    )


def _program(folder: Path, outputs: tuple[np.ndarray, ...]) -> Path:
    path = folder / "net.mlir"
    path.write_text(TEXT)
    # Answers within what f32 rounds are right.
    near = (outputs[0] * np.float32(1 + 2e-6), *outputs[1:])
    call = GoldenCall(signature="main", inputs=INPUTS, outputs=near)
    Golden(calls=(call,)).save(Golden.path_for(path))
    return path


@pytest.mark.parametrize("kind", list(TOOLS))
def test_a_package_proves_itself_here(kind: str, tmp_path: Path) -> None:
    need(*TOOLS[kind])
    made = make_package(_program(tmp_path, OUTPUTS), kind, tmp_path / "made", _options(kind))
    (proof,) = made.proofs
    assert proof.outcome.startswith("passed")
    assert {file for file in made.files if "elftest" in file.lower()} == {PROGRAMS[kind]}


def test_golden_answers_that_are_not_the_models_leave_no_package(tmp_path: Path) -> None:
    outputs = (OUTPUTS[0] + 100, *OUTPUTS[1:])
    with pytest.raises(WrongAnswer, match="computes wrong answers"):
        make_package(_program(tmp_path, outputs), "c", tmp_path / "made", _options("c"))
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("kind", ["c", "web"])
def test_a_wrong_answer_is_found_and_no_package_is_left(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The modules are right, and what is known of their answers is of other ones."""
    need(*TOOLS[kind])

    def answer(program: Program, options: CompileOptions) -> Seeded:
        seeded = answer_seeds(program, options)
        (call,) = seeded.calls
        outputs = list(call.call.outputs)
        outputs[3] = outputs[3] + 1
        wrong = replace(call, call=replace(call.call, outputs=tuple(outputs)))
        return replace(seeded, calls=(wrong,))

    monkeypatch.setattr(making, "answer_seeds", answer)
    with pytest.raises(WrongAnswer, match=r"is wrong: number .* and should be"):
        make_package(_program(tmp_path, OUTPUTS), kind, tmp_path / "made", _options(kind))
    assert not (tmp_path / "made").exists()


def test_what_cannot_run_here_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    made = make_package(_program(tmp_path, OUTPUTS), "c", tmp_path / "made", _options("c"))
    assert [str(proof) for proof in made.proofs] == ["the C program: not run: there is no cc here"]


def test_without_golden_answers_there_is_no_test(tmp_path: Path) -> None:
    (tmp_path / "net.mlir").write_text(TEXT)
    made = make_package(tmp_path / "net.mlir", "c", tmp_path / "made", _options("c"))
    assert "no golden calls" in made.proofs[0].outcome
    assert "has no golden answers" in " ".join(made.notes)
    assert not [file for file in made.files if "selftest" in file]
