"""Programs computed in f16 because that was asked for: types at the surface, numbers in NumPy."""

from pathlib import Path

import numpy as np
import pytest
from iree.compiler import ir

from edgec.runtime import Golden, GoldenCall, load
from edgec.runtime.errors import WrongAnswer
from edgec.toolchain import CompileOptions, compile, compile_with_report
from edgec.toolchain.passes.simplify.half_precision import HalfPrecision
from edgec.toolchain.precision import Precision

BEFORE = """
func.func @main(%x: tensor<2x8xf32>, %keep: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %w = stablehlo.constant dense<0.3> : tensor<8x4xf32>
  %mask = stablehlo.constant dense<-3.40282347E+38> : tensor<2x4xf32>
  %one = stablehlo.constant dense<1.0> : tensor<2x4xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<2x8xf32>, tensor<8x4xf32>) -> tensor<2x4xf32>
  %1 = stablehlo.subtract %one, %keep : tensor<2x4xf32>
  %2 = stablehlo.multiply %1, %mask : tensor<2x4xf32>
  %3 = stablehlo.add %0, %2 : tensor<2x4xf32>
  %4 = stablehlo.exponential %3 : tensor<2x4xf32>
  %5 = stablehlo.reduce(%4 init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<2x4xf32>, tensor<f32>) -> tensor<2xf32>
  %6 = stablehlo.broadcast_in_dim %5, dims = [0] : (tensor<2xf32>) -> tensor<2x4xf32>
  %7 = stablehlo.divide %4, %6 : tensor<2x4xf32>
  return %7 : tensor<2x4xf32>
}
"""


def halved(text: str) -> tuple[str, int]:
    with ir.Context():
        module = ir.Module.parse(text)
        count = HalfPrecision().run(module)
        module.operation.verify()
        return str(module), count


def test_products_are_halves_and_sums_and_exponentials_are_not() -> None:
    after, count = halved(BEFORE)
    lines = {line.split("stablehlo.")[1].split()[0]: line for line in after.splitlines()
             if "= stablehlo." in line and "constant" not in line}  # fmt: skip
    assert count == 1
    assert "-> tensor<2x4xf16>" in lines["dot_general"]
    assert "tensor<8x4xf16>" in after
    for name in ("exponential", "divide", "broadcast_in_dim", "add"):
        assert "f16" not in lines[name]
    assert "(%arg0: tensor<2x8xf32>, %arg1: tensor<2x4xf32>) -> tensor<2x4xf32>" in after


def test_what_lies_between_products_is_halves_and_its_constants_stay_finite() -> None:
    text = """
    func.func @main(%x: tensor<4x4xf32>, %b: tensor<4xf32>) -> tensor<4x4xf32> {
      %low = stablehlo.constant dense<-3.0e38> : tensor<4x4xf32>
      %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
        : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %1 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<4xf32>) -> tensor<4x4xf32>
      %2 = stablehlo.add %0, %1 : tensor<4x4xf32>
      %3 = stablehlo.maximum %2, %low : tensor<4x4xf32>
      %4 = stablehlo.transpose %3, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %5 = stablehlo.dot_general %4, %x, contracting_dims = [1] x [0]
        : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      return %5 : tensor<4x4xf32>
    }
    """
    after, count = halved(text)
    assert count == 6
    assert "dense<-6.550400e+04> : tensor<4x4xf16>" in after
    # Each argument once, and the result.
    assert after.count("stablehlo.convert") == 3


def test_the_steps_of_a_norm_are_f32() -> None:
    text = """
    func.func @main(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %w = stablehlo.constant dense<0.3> : tensor<8x8xf32>
      %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
        : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
      %1 = stablehlo.multiply %0, %0 : tensor<2x8xf32>
      %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [1]
        : (tensor<2x8xf32>, tensor<f32>) -> tensor<2xf32>
      %3 = stablehlo.rsqrt %2 : tensor<2xf32>
      %4 = stablehlo.broadcast_in_dim %3, dims = [0] : (tensor<2xf32>) -> tensor<2x8xf32>
      %5 = stablehlo.multiply %0, %4 : tensor<2x8xf32>
      %6 = stablehlo.dot_general %5, %w, contracting_dims = [1] x [0]
        : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
      return %6 : tensor<2x8xf32>
    }
    """
    after, count = halved(text)
    assert count == 2
    assert "stablehlo.multiply" in after
    assert all("f16" not in line for line in after.splitlines() if "stablehlo.multiply" in line)


def test_a_table_of_weights_is_halves_though_what_is_looked_up_is_summed_in_f32() -> None:
    text = """
    func.func @main(%i: tensor<2x1xi32>) -> tensor<2xf32> {
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %table = stablehlo.constant dense<0.3> : tensor<9x8xf32>
      %0 = "stablehlo.gather"(%table, %i) {dimension_numbers = #stablehlo.gather<
        offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
        slice_sizes = array<i64: 1, 8>} : (tensor<9x8xf32>, tensor<2x1xi32>) -> tensor<2x8xf32>
      %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [1]
        : (tensor<2x8xf32>, tensor<f32>) -> tensor<2xf32>
      return %1 : tensor<2xf32>
    }
    """
    after, count = halved(text)
    assert count == 1
    assert "tensor<9x8xf16>" in after
    assert ": (tensor<2x8xf16>) -> tensor<2x8xf32>" in after


def test_answers_are_those_of_numpy_within_what_halves_are_worth(tmp_path: Path) -> None:
    (tmp_path / "half.mlir").write_text(halved(BEFORE)[0])
    module = compile(tmp_path / "half.mlir", "cpu", CompileOptions(output=tmp_path / "h.vmfb"))
    x = np.random.default_rng(0).standard_normal((2, 8)).astype(np.float32)
    keep = np.array([[1, 1, 0, 1], [1, 0, 0, 1]], np.float32)
    with load(module) as loaded:
        found = np.asarray(loaded.main(x, keep))
    scores = np.exp(x @ np.full((8, 4), 0.3, np.float32)) * keep
    expected = scores / scores.sum(1, keepdims=True)
    np.testing.assert_allclose(found, expected, atol=2e-3)
    assert (found[keep == 0] == 0).all()


@pytest.mark.vulkan
def test_the_error_is_said_and_a_large_one_refused_with_advice(tmp_path: Path) -> None:
    path = tmp_path / "net.mlir"
    path.write_text("""
    func.func @main(%x: tensor<4x64xf32>, %w: tensor<64x32xf32>) -> tensor<4x32xf32> {
      %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
        : (tensor<4x64xf32>, tensor<64x32xf32>) -> tensor<4x32xf32>
      return %0 : tensor<4x32xf32>
    }
    """)
    options = CompileOptions(output=tmp_path / "net.vmfb", precision=Precision.F16)
    draw = np.random.default_rng(0)
    x, w = (draw.standard_normal(s).astype(np.float32) for s in ((4, 64), (64, 32)))
    for scale, is_right in ((1.0, True), (1000.0, False)):  # products beyond f16
        call = GoldenCall(signature="main", inputs=(x * scale, w * scale),
                          outputs=((x * scale) @ (w * scale),))  # fmt: skip
        Golden(calls=(call,)).save(Golden.path_for(path))
        if is_right:
            report = compile_with_report(path, "vulkan", options).report
            assert report.check.startswith("checked")
            (note,) = [note for note in report.notes if "f16" in note]
            error = float(note.split("off by ")[1].split()[0])
            assert 1e-5 < error < 6.7e-3
        else:
            with pytest.raises(WrongAnswer) as raised:
                compile(path, "vulkan", options)
            assert "leave out --precision=f16" in str(raised.value.hint)
