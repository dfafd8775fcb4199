"""A part of a program gives what the whole has there, by NumPy."""

from pathlib import Path

import numpy as np
import pytest

from edgec.runtime import Golden, GoldenCall
from edgec.toolchain import Program, load_program
from edgec.verifying.reducing import Parts
from edgec.verifying.reference import Reference, numbered, refer

TEXT = """
func.func public @main(%x: tensor<2x3xf32>, %unused: tensor<4xf32>) -> tensor<2x3xf32> {
  %c = stablehlo.constant dense<2.0> : tensor<2x3xf32>
  %0 = stablehlo.multiply %x, %c : tensor<2x3xf32>
  %1 = func.call @helper(%0) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = stablehlo.add %1, %0 : tensor<2x3xf32>
  %3 = stablehlo.tanh %2 : tensor<2x3xf32>
  return %3 : tensor<2x3xf32>
}
func.func private @helper(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = stablehlo.exponential %x : tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
"""
X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    path = tmp_path_factory.mktemp("reducing") / "net.mlir"
    path.write_text(TEXT)
    return load_program(path, cache=False)


@pytest.fixture(scope="module")
def golden() -> Golden:
    answer = np.tanh(np.exp(2 * X) + 2 * X)
    inputs = (X, np.zeros(4, np.float32))
    return Golden(calls=(GoldenCall(signature="main", inputs=inputs, outputs=(answer,)),))


@pytest.fixture(scope="module")
def parts(program: Program, golden: Golden) -> Parts:
    numbers = numbered(program)
    return Parts(numbers, refer(numbers, golden, 0), golden, 0)


def test_values_have_the_numbers_of_operations_with_calls_inlined(
    program: Program, golden: Golden
) -> None:
    numbers = numbered(program)
    reference: Reference = refer(numbers, golden, 0)
    names = [each.name.removeprefix("stablehlo.") for each in numbers.operations]
    assert names == ["constant", "multiply", "exponential", "add", "tanh", "func.return"]
    assert not numbers.operations[0].depends
    assert numbers.operations[3].reads == (2, 1)
    assert not reference.problem
    np.testing.assert_allclose(reference.values[2][0], np.exp(2 * X), rtol=1e-6)
    assert reference.values[2][0].dtype == np.float32


def test_a_program_that_is_not_the_frameworks_is_found_out(
    program: Program, golden: Golden
) -> None:
    (call,) = golden.calls
    other = GoldenCall(signature="main", inputs=call.inputs, outputs=(call.outputs[0] + 1,))
    assert "6 of 6 values are off" in refer(numbered(program), Golden(calls=(other,)), 0).problem


def test_the_whole_is_a_part_without_what_nothing_reads(parts: Parts) -> None:
    whole = parts.part(0, len(parts) - 1)
    (call,) = whole.golden.calls
    assert len(call.inputs) == 1
    np.testing.assert_allclose(call.outputs[0], np.tanh(np.exp(2 * X) + 2 * X), rtol=1e-6)


def test_what_a_part_reads_from_before_it_is_given(parts: Parts) -> None:
    part = parts.part(3, 3)
    assert part.count == 1
    assert "stablehlo.add" in part.text
    assert "stablehlo.exponential" not in part.text
    (call,) = part.golden.calls
    assert sorted(float(each[0, 0]) for each in call.inputs) == pytest.approx(
        sorted([np.exp(-2), -2])
    )
    np.testing.assert_allclose(call.outputs[0], np.exp(2 * X) + 2 * X, rtol=1e-6)
    np.testing.assert_array_equal(sum(call.inputs), call.outputs[0])


def test_constants_stay_with_what_reads_them(parts: Parts) -> None:
    part = parts.part(1, 1)
    assert "stablehlo.constant" in part.text
    (call,) = part.golden.calls
    np.testing.assert_array_equal(call.inputs[0], X)
    assert not parts.is_end(0)


def test_a_part_of_a_model_without_lines_names_its_nodes(tmp_path: Path) -> None:
    path = tmp_path / "nodes.mlir"
    path.write_text("""
    func.func public @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
      %0 = stablehlo.exponential %x : tensor<2x3xf32> loc("Exp@0")
      %1 = stablehlo.tanh %0 : tensor<2x3xf32> loc("Tanh@0")
      return %1 : tensor<2x3xf32>
    }
    """)
    call = GoldenCall(signature="main", inputs=(X,), outputs=(np.tanh(np.exp(X)),))
    numbers, answers = numbered(load_program(path, cache=False)), Golden(calls=(call,))
    part = Parts(numbers, refer(numbers, answers, 0), answers, 0).part(1, 1)
    assert part.lines == ("node Tanh@0",)
