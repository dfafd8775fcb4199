"""A sum or product used along other axes gets a kernel of its own, and is right on Vulkan."""

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from edgec import runtime, toolchain
from edgec.toolchain.passes.legalise.separate_reductions import SeparateReductions
from edgec.toolchain.process import compiler_path
from tests.toolchain.passes.before_after import rewrite

FENCED = r"iree_tensor_ext.compute_barrier.start (%\w+) : (tensor<[^>]*>) -> tensor<[^>]*>"
SUM = """
func.func @main(%x: tensor<6x10x{last}xf32>) -> tensor<{result}xf32> {{
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %sum = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [{axis}]
    : (tensor<6x10x{last}xf32>, tensor<f32>) -> tensor<{kept}xf32>
  %same = stablehlo.tanh %sum : tensor<{kept}xf32>
  {rest}
}}"""
QUOTIENT = """%all = stablehlo.broadcast_in_dim %same, dims = [{dims}]
    : (tensor<{kept}xf32>) -> tensor<6x10x5xf32>
  %q = stablehlo.divide %x, %all : tensor<6x10x5xf32>
  return %q : tensor<6x10x5xf32>"""


def quotient(axis: int, kept: str, dims: str) -> str:
    rest = QUOTIENT.format(kept=kept, dims=dims)
    return SUM.format(axis=axis, kept=kept, last=5, result="6x10x5", rest=rest)


TURNED = SUM.format(
    axis=2,
    kept="6x10",
    last=1,
    result="10x6",
    rest="""%t = stablehlo.transpose %same, dims = [1, 0] : (tensor<6x10xf32>) -> tensor<10x6xf32>
  return %t : tensor<10x6xf32>""",
)
RESHAPED = SUM.format(
    axis=2,
    kept="6x10",
    last=5,
    result="60",
    rest="""%t = stablehlo.reshape %same : (tensor<6x10xf32>) -> tensor<60xf32>
  return %t : tensor<60xf32>""",
)


def product(rest: str, result: str) -> str:
    return f"""
func.func @main(%x: tensor<40x64xf32>, %w: tensor<64x40xf32>, %b: tensor<40x40xf32>,
                %all: tensor<5x40x40xf32>) -> tensor<{result}xf32> {{
  %xw = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<40x64xf32>, tensor<64x40xf32>) -> tensor<40x40xf32>
  %p = stablehlo.tanh %xw : tensor<40x40xf32>
  {rest}
}}"""


BESIDE = product(
    """%y = stablehlo.add %p, %b : tensor<40x40xf32>
  return %y : tensor<40x40xf32>""",
    "40x40",
)
ACROSS = product(
    """%t = stablehlo.transpose %p, dims = [1, 0] : (tensor<40x40xf32>) -> tensor<40x40xf32>
  %m = stablehlo.multiply %p, %b : tensor<40x40xf32>
  %y = stablehlo.add %t, %m : tensor<40x40xf32>
  return %y : tensor<40x40xf32>""",
    "40x40",
)
SPREAD = product(
    """%s = stablehlo.broadcast_in_dim %p, dims = [1, 2]
    : (tensor<40x40xf32>) -> tensor<5x40x40xf32>
  %y = stablehlo.multiply %s, %all : tensor<5x40x40xf32>
  return %y : tensor<5x40x40xf32>""",
    "5x40x40",
)
TRAILING = product(
    """%s = stablehlo.broadcast_in_dim %p, dims = [0, 1]
    : (tensor<40x40xf32>) -> tensor<40x40x5xf32>
  return %s : tensor<40x40x5xf32>""",
    "40x40x5",
)


CONVERTED = """
func.func @main(%x: tensor<2x9x4xf32>, %w: tensor<3x1x4xbf16>) -> tensor<2x9x4xf32> {
  %k = stablehlo.convert %w : (tensor<3x1x4xbf16>) -> tensor<3x1x4xf32>
  %y = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f],
    window = {pad = [[1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 4 : i64}
    : (tensor<2x9x4xf32>, tensor<3x1x4xf32>) -> tensor<2x9x4xf32>
  return %y : tensor<2x9x4xf32>
}"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (quotient(2, "6x10", "0, 1"), 0),
        (quotient(1, "6x5", "0, 2"), 1),
        (quotient(0, "10x5", "1, 2"), 1),
        (TURNED, 1),
        (RESHAPED, 0),
        (BESIDE, 0),
        (ACROSS, 1),
        (SPREAD, 1),
        (TRAILING, 1),
    ],
    ids=[
        "last axis",
        "middle axis",
        "first axis",
        "turned",
        "reshaped",
        "a product",
        "a product turned",
        "a product spread",
        "a product spread behind",
    ],
)
def test_only_other_axes_are_fenced_after_what_is_computed_with_the_sum(
    text: str, expected: int
) -> None:
    count, after = rewrite(SeparateReductions(), text)
    assert count == expected
    kinds = (" = stablehlo.", " = iree_tensor_ext.")
    lines = [
        line.split(" = ")[1].split(" ")[0]
        for line in after.splitlines()
        if any(kind in line for kind in kinds)
    ]
    if expected:
        assert lines[lines.index("iree_tensor_ext.compute_barrier.start") - 1] == "stablehlo.tanh"
    else:
        assert "iree_tensor_ext.compute_barrier.start" not in lines


def test_weights_that_are_converted_are_fenced_before_their_convolution() -> None:
    count, after = rewrite(SeparateReductions(), CONVERTED)
    assert count == 1
    assert re.search(r"convert.*\n.*compute_barrier.*\n.*convolution", after)


def test_a_sum_of_sums_does_not_run_in_the_kernel_of_the_first() -> None:
    count, _ = rewrite(
        SeparateReductions(),
        """
    func.func @main(%x: tensor<4x6x8xf32>) -> tensor<4xf32> {
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [2]
        : (tensor<4x6x8xf32>, tensor<f32>) -> tensor<4x6xf32>
      %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.maximum across dimensions = [1]
        : (tensor<4x6xf32>, tensor<f32>) -> tensor<4xf32>
      return %1 : tensor<4xf32>
    }""",
    )
    assert count == 1


def test_a_fence_leaves_a_call_in_one_piece() -> None:
    """StableHLO's barrier does not: the host would wait for what is before it."""
    _, after = rewrite(SeparateReductions(), quotient(1, "6x5", "0, 2"))
    pieces = {}
    for name, text in (
        ("own", after),
        ("stablehlo", re.sub(FENCED, r"stablehlo.optimization_barrier \1 : \2", after)),
    ):
        command = [compiler_path(), "-", "--iree-input-type=stablehlo", "--compile-to=stream"]
        found = subprocess.run(
            [*command, "--iree-hal-target-device=vulkan"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout
        pieces[name] = found.count("stream.cmd.execute")
    assert pieces == {"own": 1, "stablehlo": 2}


@pytest.mark.vulkan
@pytest.mark.parametrize("axis", [0, 1])
def test_a_quotient_by_sums_over_any_axis_is_right_on_vulkan(axis: int, tmp_path: Path) -> None:
    kept, dims = ("10x5", "1, 2") if axis == 0 else ("6x5", "0, 2")
    (tmp_path / "case.mlir").write_text(quotient(axis, kept, dims))
    module = toolchain.compile(tmp_path / "case.mlir", "vulkan")
    x = np.random.default_rng(axis).uniform(0.1, 1, (6, 10, 5)).astype(np.float32)
    with runtime.load(module) as loaded:
        np.testing.assert_allclose(
            loaded.main(x), x / np.tanh(x.sum(axis, keepdims=True)), rtol=1e-4
        )


@pytest.mark.vulkan
@pytest.mark.parametrize("text", [ACROSS, SPREAD], ids=["turned", "spread"])
def test_a_product_used_along_other_axes_is_right_on_vulkan(text: str, tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    shapes = ((40, 64), (64, 40), (40, 40), (5, 40, 40))
    x, w, b, every = (random.normal(size=shape).astype(np.float32) for shape in shapes)
    p = np.tanh(x.astype(np.float64) @ w)
    expected = p * every if text is SPREAD else p.T + p * b
    (tmp_path / "case.mlir").write_text(text)
    with runtime.load(toolchain.compile(tmp_path / "case.mlir", "vulkan")) as loaded:
        for _ in range(3):
            np.testing.assert_allclose(loaded.main(x, w, b, every), expected, atol=1e-5)
