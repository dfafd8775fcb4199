"""Weights at the beginning of a concatenation are copied among a call's kernels."""

import subprocess

import pytest

from edgec.toolchain.passes.simplify.late_joins import LateJoins
from edgec.toolchain.process import compiler_path
from tests.toolchain.passes.before_after import rewrite

JOINED = """
util.global private @token = dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
func.func @main(%x: tensor<3x4xf32>, %p: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = stablehlo.tanh %x : tensor<3x4xf32>
  %3 = stablehlo.dot_general %p, %p, contracting_dims = [1] x [0]
    : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %t = util.global.load @token : tensor<4xf32>
  %w = stablehlo.reshape %t : (tensor<4xf32>) -> tensor<1x4xf32>
  %1 = stablehlo.concatenate FIRST, dim = 0 : (TYPES) -> tensor<4x4xf32>
  %2 = stablehlo.dot_general %1, %3, contracting_dims = [1] x [0]
    : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}"""
BEFORE = JOINED.replace("FIRST", "%w, %0").replace("TYPES", "tensor<1x4xf32>, tensor<3x4xf32>")
KNOWN = """
util.global private @token = dense<[[1.0, 2.0, 3.0, 4.0]]> : tensor<1x4xf32>
func.func @main() -> tensor<2x4xf32> {
  %w = util.global.load @token : tensor<1x4xf32>
  %0 = stablehlo.concatenate %w, %w, dim = 0
    : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}"""
BEHIND = JOINED.replace("FIRST", "%0, %w").replace("TYPES", "tensor<3x4xf32>, tensor<1x4xf32>")


def pieces_of_work(text: str) -> int:
    """Into how many the compiler cuts a call."""
    found = subprocess.run(
        [
            *(compiler_path(), "-", "--iree-input-type=stablehlo", "--compile-to=stream"),
            "--iree-hal-target-device=vulkan",
        ],
        input=text,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    ).stdout
    return found[found.index("util.func public @main") :].count("stream.cmd.execute")


def test_weights_in_front_are_behind_a_barrier() -> None:
    count, after = rewrite(LateJoins(), BEFORE)
    assert count == 1
    assert "stablehlo.optimization_barrier" in after
    assert rewrite(LateJoins(), after)[0] == 0


@pytest.mark.parametrize("text", [BEHIND, KNOWN])
def test_others_stay(text: str) -> None:
    assert rewrite(LateJoins(), text)[0] == 0


def test_a_call_is_one_piece_of_work() -> None:
    assert pieces_of_work(BEFORE) == 2  # what the compiler still does by itself
    assert pieces_of_work(rewrite(LateJoins(), BEFORE)[1]) == 1
