"""What makes a program wrong is found on a device with a planted fault."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from edgec.runtime import Golden, GoldenCall, Module, load
from edgec.toolchain import CompileOptions
from edgec.verifying import bisect, judged, open_subject, write_part
from edgec.verifying.bisecting import _least

TEXT = """
func.func public @main(%x: tensor<8x64xf32>) -> tensor<8x64xf32> {
  %w = stablehlo.constant dense<0.5> : tensor<8x64xf32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.multiply %x, %w : tensor<8x64xf32>
  %1 = stablehlo.reduce(%0 init: %low) applies stablehlo.maximum across dimensions = [1]
    : (tensor<8x64xf32>, tensor<f32>) -> tensor<8xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<8xf32>) -> tensor<8x64xf32>
  %3 = stablehlo.subtract %0, %2 : tensor<8x64xf32>
  %4 = stablehlo.exponential %3 : tensor<8x64xf32>
  %5 = stablehlo.reduce(%4 init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<8x64xf32>, tensor<f32>) -> tensor<8xf32>
  %6 = stablehlo.broadcast_in_dim %5, dims = [0] : (tensor<8xf32>) -> tensor<8x64xf32>
  %7 = stablehlo.divide %4, %6 : tensor<8x64xf32>
  %8 = stablehlo.sine %7 : tensor<8x64xf32>
  return %8 : tensor<8x64xf32>
}
"""


def test_the_least_that_holds_is_found_by_halves() -> None:
    for most in range(8):
        for wanted in range(most + 1):
            assert _least(0, most, lambda each, wanted=wanted: each >= wanted) == wanted


def _wrong_softmax(module: Module, calls: Sequence[tuple[str, Sequence[np.ndarray]]]):
    """A device whose softmax kernels of edgec's own are off."""
    is_off = b"edgec_softmax" in module.path.read_bytes()
    with load(module, device="local-sync") as loaded:
        answers = [[a.numpy() for a in loaded[name].call_flat(given)] for name, given in calls]
    return [[each * (1.5 if is_off else 1) for each in answer] for answer in answers]


@pytest.mark.slow
def test_the_pass_is_named_and_the_smallest_program_holds_what_it_takes(tmp_path: Path) -> None:
    path = tmp_path / "net.mlir"
    path.write_text(TEXT)
    x = np.random.default_rng(0).standard_normal((8, 64)).astype(np.float32)
    powers = np.exp(x / 2)
    answer = np.sin(powers / powers.sum(1, keepdims=True))
    Golden(calls=(GoldenCall(signature="main", inputs=(x,), outputs=(answer,)),)).save(
        Golden.path_for(path)
    )
    options = CompileOptions(output=tmp_path / "net.vmfb", check=False, cache=False)
    subject = open_subject(path, is_program=True, target=None, golden=None, options=options)
    verdict = judged(subject, _wrong_softmax(subject.module, subject.asked))
    assert not verdict.ok
    found = bisect(subject, verdict, target="cpu", options=options, ask=_wrong_softmax)
    assert (found.cause.kind, found.cause.names) == ("pass", ("softmax-kernels",))
    assert found.part is not None
    assert "stablehlo.divide" in found.part.text
    assert "stablehlo.sine" not in found.part.text
    assert "stablehlo.multiply" not in found.part.text
    write_part(found.part, tmp_path / "small.mlir")
    again = open_subject(
        tmp_path / "small.mlir", is_program=True, target=None, golden=None, options=options
    )
    assert not judged(again, _wrong_softmax(again.module, again.asked)).ok
