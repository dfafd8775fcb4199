"""Batch norms and other scales by channel, folded into weights, against PyTorch."""

import re

import numpy as np
import pytest
import torch
from iree.compiler import ir

from edgec.exporters import export
from edgec.runtime import load
from edgec.toolchain import CompileOptions, compile, run_passes
from edgec.toolchain.passes.simplify.fold_scales import FoldScales

BEFORE = """func.func @main(%x: tensor<1x4x4x2xf32>) -> tensor<1x4x4x3xf32> {
  %w = stablehlo.constant dense<[[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]]]> : tensor<1x1x2x3xf32>
  %mean = stablehlo.constant dense<[1.0, 2.0, 4.0]> : tensor<3xf32>
  %scale = stablehlo.constant dense<[2.0, 0.5, -1.0]> : tensor<3xf32>
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
    window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x4x4x2xf32>, tensor<1x1x2x3xf32>) -> tensor<1x4x4x3xf32>
  %1 = stablehlo.broadcast_in_dim %mean, dims = [3] : (tensor<3xf32>) -> tensor<1x4x4x3xf32>
  %2 = stablehlo.subtract %0, %1 : tensor<1x4x4x3xf32>
  %3 = stablehlo.broadcast_in_dim %scale, dims = [3] : (tensor<3xf32>) -> tensor<1x4x4x3xf32>
  %4 = stablehlo.multiply %2, %3 : tensor<1x4x4x3xf32>
  return %4 : tensor<1x4x4x3xf32>
}
"""


def folded(text: str) -> tuple[str, int]:
    with ir.Context():
        module = ir.Module.parse(text)
        count = FoldScales().run(module)
        module.operation.verify()
        return str(module), count


def test_the_factor_goes_into_the_weights_and_one_sum_is_left() -> None:
    after, count = folded(BEFORE)
    assert count == 1
    assert "[2.000000e+00, 1.000000e+00, -3.000000e+00]" in after
    assert "[8.000000e+00, 2.500000e+00, -6.000000e+00]" in after
    assert "dense<[-2.000000e+00, -1.000000e+00, 4.000000e+00]>" in after
    assert after.count("stablehlo.add") == 1
    assert "stablehlo.multiply" not in after and "stablehlo.subtract" not in after


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # one sum alone, which a kernel takes along
        ("stablehlo.multiply %2, %3", "stablehlo.maximum %2, %3"),
        # the product itself is used, too
        ("return %4", "%5 = stablehlo.add %4, %0 : tensor<1x4x4x3xf32>\n  return %5"),
        # a scale that follows from the input
        ("%3 = stablehlo.broadcast_in_dim %scale", "%3 = stablehlo.broadcast_in_dim %y"),
    ],
)
def test_other_chains_stay(old: str, new: str) -> None:
    inputs = "(%x: tensor<1x4x4x2xf32>, %y: tensor<3xf32>)"
    text = BEFORE.replace("(%x: tensor<1x4x4x2xf32>)", inputs)
    assert folded(text)[1] == 1
    assert folded(text.replace(old, new))[1] == 0


MOVED = """func.func @main(%x: tensor<16x2xf32>) -> tensor<1x3x4x4xf32> {
  %w = stablehlo.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
  %bias = stablehlo.constant dense<[1.0, 2.0, 4.0]> : tensor<3xf32>
  %scale = stablehlo.constant dense<[2.0, 0.5, -1.0]> : tensor<3xf32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<16x2xf32>, tensor<2x3xf32>) -> tensor<16x3xf32>
  %1 = stablehlo.reshape %0 : (tensor<16x3xf32>) -> tensor<1x4x4x3xf32>
  %2 = stablehlo.broadcast_in_dim %bias, dims = [3] : (tensor<3xf32>) -> tensor<1x4x4x3xf32>
  %3 = stablehlo.add %1, %2 : tensor<1x4x4x3xf32>
  %4 = stablehlo.transpose %3, dims = [0, 3, 1, 2]
    : (tensor<1x4x4x3xf32>) -> tensor<1x3x4x4xf32>
  %5 = stablehlo.broadcast_in_dim %scale, dims = [1] : (tensor<3xf32>) -> tensor<1x3x4x4xf32>
  %6 = stablehlo.multiply %4, %5 : tensor<1x3x4x4xf32>
  return %6 : tensor<1x3x4x4xf32>
}
"""


def test_a_scale_is_followed_past_transposes_and_reshapes() -> None:
    after, count = folded(MOVED)
    assert count == 1
    assert "[2.000000e+00, 1.000000e+00, -3.000000e+00]" in after
    assert "dense<[2.000000e+00, 1.000000e+00, -4.000000e+00]>" in after
    assert "stablehlo.multiply" not in after
    assert re.search(r"stablehlo.add .* : tensor<1x3x4x4xf32>\n\s*return", after)


def test_weights_of_halves_do_not_take_the_scale_of_a_layer() -> None:
    assert folded(MOVED.replace("f32", "f16"))[1] == 0


def test_a_scale_by_rows_of_the_image_stays() -> None:
    rows = "[2.0, 1.0, 1.0, 3.0]> : tensor<4xf32>"
    text = BEFORE.replace("[2.0, 0.5, -1.0]> : tensor<3xf32>", rows)
    by_channel, by_row = "dims = [3] : (tensor<3xf32>)", "dims = [1] : (tensor<4xf32>)"
    text = text.replace(f"%scale, {by_channel}", f"%scale, {by_row}")
    assert "stablehlo.multiply" in folded(text)[0]


class Network(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = torch.nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.norm = torch.nn.BatchNorm2d(16)
        self.light = torch.nn.Conv2d(16, 16, 3, groups=16)
        self.other = torch.nn.BatchNorm2d(16)
        self.last = torch.nn.Linear(16, 8)
        self.scale = torch.nn.Parameter(torch.rand(8) + 0.5)
        for norm in (self.norm, self.other):
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2)
            torch.nn.init.normal_(norm.weight)
            torch.nn.init.normal_(norm.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.first(x)))
        x = self.other(self.light(x))
        return 3 - self.last(x.mean((2, 3))) * self.scale / 2


@pytest.mark.sweep(fast=1)
@pytest.mark.parametrize("outside", [False, True], ids=["embedded", "outside"])
@pytest.mark.parametrize("kind", [torch.float32, torch.float16])
def test_answers_are_those_of_pytorch(kind: torch.dtype, outside: bool, tmp_path) -> None:
    model = Network().eval()
    x = torch.randn(2, 3, 8, 8)
    wanted = model.double()(x.to(kind).double()).detach().numpy()
    weights = tmp_path / "w.safetensors" if outside else None
    export(Network().eval().to(kind), (x.to(kind),), external_weights=weights).save(
        program := tmp_path / "net.mlirbc"
    )
    assert run_passes(program, "cpu").changes["fold-scales"] == 3
    module = compile(program, "cpu", CompileOptions(cache=False, output=tmp_path / "m.vmfb"))
    with load(module) as loaded:
        answer = np.asarray(loaded.main(x.to(kind).numpy()), np.float64)
    allowed = 1e-5 if kind is torch.float32 else 1e-2
    np.testing.assert_allclose(answer, wanted, allowed, allowed * np.abs(wanted).max())
