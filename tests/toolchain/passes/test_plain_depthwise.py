"""Depthwise convolutions that sum in a wider type compile, and are right."""

import subprocess
from pathlib import Path

import numpy as np
import pytest
from iree.compiler import ir

from edgec import runtime, toolchain
from edgec.toolchain.passes.legalise.plain_depthwise import PlainDepthwise
from edgec.toolchain.process import compiler_path
from edgec.toolchain.stablehlo import parse_stablehlo

DEPTHWISE = """
func.func @main(%x: tensor<1x5x5x6xKIND>, %w: tensor<3x3x1x6xKIND>) -> tensor<1x3x3x6xSUM> {
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
    window = {} {batch_group_count = 1 : i64, feature_group_count = 6 : i64}
    : (tensor<1x5x5x6xKIND>, tensor<3x3x1x6xKIND>) -> tensor<1x3x3x6xSUM>
  return %0 : tensor<1x3x3x6xSUM>
}"""


def of(kind: str, total: str) -> str:
    return DEPTHWISE.replace("KIND", kind).replace("SUM", total)


def test_the_operands_get_the_type_of_the_result() -> None:
    with ir.Context() as context:
        module = parse_stablehlo(of("f16", "f32"), context)
        assert PlainDepthwise().run(module) == 1
        assert module.operation.verify()
        assert str(module).count("stablehlo.convert") == 2
        assert PlainDepthwise().run(module) == 0


def test_the_compiler_still_refuses_it_as_it_was() -> None:
    compiler = compiler_path()
    found = subprocess.run(
        [compiler, "-", "--iree-input-type=stablehlo", "--compile-to=input"],
        input=of("f16", "f32"),
        capture_output=True,
        text=True,
    )
    assert "expected collapsed type to be" in found.stderr


@pytest.mark.parametrize("target", ["cuda", "cuda:sm_90"])
def test_depthwise_convolutions_of_f16_compile_for_nvidia(target: str, tmp_path: Path) -> None:
    (tmp_path / "case.mlir").write_text(of("f16", "f16"))
    assert toolchain.compile(tmp_path / "case.mlir", target).signatures


def test_bytes_are_summed_in_whole_words(tmp_path: Path) -> None:
    (tmp_path / "case.mlir").write_text(of("i8", "i32"))
    module = toolchain.compile(tmp_path / "case.mlir", "cpu")
    rng = np.random.default_rng(3)
    x, w = (rng.integers(-128, 128, s, np.int8) for s in ((1, 5, 5, 6), (3, 3, 1, 6)))
    with runtime.load(module) as loaded:
        actual = loaded.main(x, w)
    wide = np.lib.stride_tricks.sliding_window_view(x.astype(np.int32), (3, 3), axis=(1, 2))
    expected = np.einsum("bhwcyx,yxc->bhwc", wide, w[:, :, 0].astype(np.int32))
    np.testing.assert_array_equal(actual, expected)
