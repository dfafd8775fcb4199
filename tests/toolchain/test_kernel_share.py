"""What a compile says of the work that edgec's own kernels do."""

import json

import pytest

from edgec.runtime.kernel_share import KernelShare, Left
from edgec.toolchain import CompileOptions, compile_with_report, run_passes

# A product by weights (2 * 8 * 32 * 64 operations) with its activation, and a sine that no kernel
# of edgec's own does.
PROGRAM = """func.func @main(%x: tensor<8x32xf32>, %y: tensor<8x8xf32>)
    -> (tensor<8x64xf32>, tensor<8x8xf32>) {
  %w = stablehlo.constant dense<0.5> : tensor<32x64xf32>
  %zeros = stablehlo.constant dense<0.0> : tensor<8x64xf32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<8x32xf32>, tensor<32x64xf32>) -> tensor<8x64xf32>
  %1 = stablehlo.maximum %0, %zeros : tensor<8x64xf32>
  %2 = stablehlo.sine %y : tensor<8x8xf32> loc("model.py":7:1)
  return %1, %2 : tensor<8x64xf32>, tensor<8x8xf32>
}
"""
LOOP = """func.func @main(%x: tensor<16xf32>) -> tensor<16xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<16xf32>
   cond {
    %n = stablehlo.constant dense<10> : tensor<i32>
    %t = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    %b = stablehlo.sine %a : tensor<16xf32>
    stablehlo.return %j, %b : tensor<i32>, tensor<16xf32>
  }
  return %0#1 : tensor<16xf32>
}
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "net.mlir"
    path.write_text(PROGRAM)
    return path


def test_the_share_is_what_kernels_took_and_the_rest_is_named_with_its_line(program) -> None:
    share = run_passes(program, "cpu").kernels
    assert share.flops == 2 * 8 * 32 * 64 + 8 * 64 + 8 * 8
    assert share.own_flops == 2 * 8 * 32 * 64 + 8 * 64
    assert [(left.what, left.where, left.flops) for left in share.left] == [
        ("sine to 8x8, f32", "model.py:7", 64)
    ]
    assert str(share).startswith("99 % of 33.3 kFLOP")


def test_a_function_written_out_in_many_steps_counts_and_is_named_as_one(tmp_path) -> None:
    path = tmp_path / "functions.mlir"
    path.write_text(
        """func.func @main(%x: tensor<4x4xf32>, %z: tensor<3xcomplex<f32>>)
    -> (tensor<4x4xf32>, tensor<3xcomplex<f32>>) {
  %0 = stablehlo.sine %x : tensor<4x4xf32> loc("model.py":7:1)
  %1 = stablehlo.remainder %0, %x : tensor<4x4xf32> loc("model.py":8:1)
  %2 = stablehlo.atan2 %1, %0 : tensor<4x4xf32> loc("model.py":9:1)
  %3 = stablehlo.cosine %2 : tensor<4x4xf32> loc("model.py":7:1)
  %4 = stablehlo.exponential %z : tensor<3xcomplex<f32>> loc("model.py":10:1)
  return %3, %4 : tensor<4x4xf32>, tensor<3xcomplex<f32>>
}
"""
    )
    share = run_passes(path, "vulkan").kernels
    assert {(left.what, left.where, left.flops) for left in share.left} == {
        ("sine to 4x4, f32", "model.py:7", 16),
        ("remainder to 4x4, f32", "model.py:8", 16),
        ("atan2 to 4x4, f32", "model.py:9", 16),
        ("cosine to 4x4, f32", "model.py:7", 16),
        ("exponential to 3, complex<f32>", "model.py:10", 3),
    }


def test_without_its_pass_nothing_is_done_by_own_kernels_and_the_report_says_so(program) -> None:
    options = CompileOptions(disabled=("cpu-kernels",), cache=False)
    made = compile_with_report(program, "cpu", options)
    assert made.report.kernels.own_flops == 0
    assert made.report.kernels.left[0].what == "product 8x32 by 32x64, f32"
    assert any("left out, as asked: cpu-kernels" in note for note in made.report.notes)


def test_the_module_and_the_cache_carry_the_share(program, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("EDGEC_CACHE_DIR", str(tmp_path / "cache"))
    first = compile_with_report(program, "cpu")
    again = compile_with_report(program, "cpu")
    assert (first.report.cached, again.report.cached) == (False, True)
    assert first.module.facts.kernels == again.report.kernels == first.report.kernels


def test_work_in_a_loop_counts_as_often_as_it_turns(tmp_path) -> None:
    path = tmp_path / "loop.mlir"
    path.write_text(LOOP)
    share = run_passes(path, "vulkan").kernels
    assert share.flops == 10 * (16 + 1)


def test_what_sizes_of_each_call_hide_is_said_and_not_nothing(tmp_path) -> None:
    path = tmp_path / "any.mlir"
    path.write_text(
        """func.func @main(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %0 = stablehlo.sine %x : tensor<?x8xf32>
  %1 = stablehlo.add %x, %0 : tensor<?x8xf32>
  return %1 : tensor<?x8xf32>
}
"""
    )
    share = run_passes(path, "cpu").kernels
    assert (share.flops, share.uncounted) == (0, 2)
    assert str(share) == "2 operations on sizes chosen at each call, whose work is not known"


def test_json_keeps_everything() -> None:
    share = KernelShare(
        flops=10,
        own_flops=4,
        bytes=8,
        own_bytes=2,
        left=(Left(what="sine", where="", reason="none", count=1, flops=6, bytes=6),),
        uncounted=3,
    )
    assert KernelShare.from_json(json.loads(json.dumps(share.to_json()))) == share
    assert share.weight(share.left[0]) == 0.75


def test_what_is_done_with_weights_alone_is_no_work_of_a_call(tmp_path) -> None:
    path = tmp_path / "weights.mlir"
    path.write_text(
        """func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %w = stablehlo.constant dense<2.0> : tensor<8x8xf32>
  %0 = stablehlo.sine %w : tensor<8x8xf32>
  %1 = stablehlo.add %x, %0 : tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}
"""
    )
    assert run_passes(path, "vulkan").kernels.flops == 64


PRODUCTS = """func.func @main(%x: tensor<256x256xf32>, %y: tensor<256x256xf32>)
    -> (tensor<256x256xf32>, tensor<256x256xf32>) {
  %w = stablehlo.constant dense<0.5> : tensor<256x256xf32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32> loc("model.py":3:1)
  %1 = stablehlo.negate %0 : tensor<256x256xf32> loc("model.py":4:1)
  %2 = stablehlo.cbrt %1 : tensor<256x256xf32> loc("model.py":5:1)
  %3 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]
    : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32> loc("model.py":6:1)
  return %2, %3 : tensor<256x256xf32>, tensor<256x256xf32>
}
"""


@pytest.mark.parametrize(
    ("target", "line", "tail"),
    [
        ("cpu", 5, "cbrt after a product"),
        # As `edge-values` writes the root.
        ("cuda:sm_86", 4, "a function of abs, cbrt, compare, negate, select"),
    ],
)
def test_a_tail_that_is_cut_short_is_said_and_products_of_what_is_computed_are_taken(
    target, line, tail, tmp_path
) -> None:
    path = tmp_path / "products.mlir"
    path.write_text(PRODUCTS)
    share = run_passes(path, target).kernels
    reasons = {left.where: left.reason for left in share.left}
    assert reasons[f"model.py:{line}"] == tail
    assert "model.py:6" not in reasons
