"""Networks with their channels first against PyTorch, and what is left to turn."""

import re

import numpy as np
import torch
from iree.compiler import ir
from torch import nn
from torch.nn import functional as F  # noqa: N812

from edgec.exporters import export
from edgec.runtime import load
from edgec.toolchain import CompileOptions, compile, run_passes
from edgec.toolchain.ir.evaluate import evaluate
from edgec.toolchain.passes.simplify.channels_last import ChannelsLast

NET = """
func.func @main(%x: tensor<1x3x8x8xf32>) -> tensor<1x4x8x8xf32> {
  %v = stablehlo.constant dense<0.5> : tensor<4x3x3x3xf32>
  %w = stablehlo.constant dense<0.5> : tensor<4x4x1x1xf32>
  %b = stablehlo.constant dense<1.0> : tensor<4xf32>
  %0 = stablehlo.convolution(%x, %v) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
    window = {pad = [[1, 1], [1, 1]]}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x8x8xf32>
  %1 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<4xf32>) -> tensor<1x4x8x8xf32>
  %2 = stablehlo.add %0, %1 : tensor<1x4x8x8xf32>
  %3 = stablehlo.convolution(%2, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
    window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x4x8x8xf32>, tensor<4x4x1x1xf32>) -> tensor<1x4x8x8xf32>
  return %3 : tensor<1x4x8x8xf32>
}
"""


def turned(text: str) -> tuple[str, int]:
    with ir.Context():
        module = ir.Module.parse(text)
        count = ChannelsLast().run(module)
        module.operation.verify()
        return str(module), count


def test_a_network_is_turned_where_it_begins_and_where_it_ends():
    after, count = turned(NET)
    assert count == 3
    assert after.count("[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]") == 2
    turns = re.findall(r"stablehlo.transpose %(\S+), dims = (\[[\d, ]+\])", after)
    images = [dims for source, dims in turns if not source.startswith("cst")]
    assert images == ["[0, 2, 3, 1]", "[0, 3, 1, 2]"]
    assert "dims = [3] : (tensor<4xf32>) -> tensor<1x8x8x4xf32>" in after


def test_a_network_with_its_channels_last_is_left_alone():
    once, _ = turned(NET)
    inner = once.replace("[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]", "")
    assert turned(inner)[1] == 0


WIDE = """
util.global private @w = #flow.parameter.named<"model"::"w"> : tensor<4x3x5x5xf32>
func.func @main(%x: tensor<1x3x6x6xf32>{argument}) -> tensor<1x4x2x2xf32> {{
  {load}
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
    window = {{}} {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
    : (tensor<1x3x6x6xf32>, tensor<4x3x5x5xf32>) -> tensor<1x4x2x2xf32>
  return %0 : tensor<1x4x2x2xf32>
}}
"""


def test_a_large_window_is_an_image_only_where_it_is_no_weight():
    load = "%w = util.global.load @w : tensor<4x3x5x5xf32>"
    assert turned(WIDE.format(argument="", load=load))[1] > 0
    gradient = WIDE.format(argument=", %w: tensor<4x3x5x5xf32>", load="")
    assert "[b, f, 0, 1]x[o, i, 0, 1]" in turned(gradient)[0]


class Blocks(nn.Module):
    """Strides, groups, norms, pooling, concatenation, gates, upsampling and tokens."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, 2, 1)
        self.norm = nn.BatchNorm2d(16)
        self.deep = nn.Conv2d(16, 16, 3, 1, 1, groups=16)
        self.grouped = nn.Conv2d(16, 24, 3, padding=1, groups=4)
        self.groups = nn.GroupNorm(4, 24)
        self.gate = nn.Conv2d(24, 24, 1)
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.wide = nn.Conv2d(40, 8, 3, padding=2, dilation=2)
        self.up = nn.ConvTranspose2d(8, 6, 2, 2)
        self.head = nn.Linear(8, 10)

    def forward(self, x):
        x = torch.relu(self.norm(self.stem(x)))
        y = F.silu(self.groups(self.grouped(self.deep(x))))
        y = y * torch.sigmoid(self.gate(y.mean((2, 3), keepdim=True)))
        z = self.wide(self.pool(torch.cat([x, y], 1)))
        average = F.avg_pool2d(z, 2)
        tokens = z.flatten(2).transpose(1, 2)
        padded = F.pad(z, (1, 2, 0, 1))[:, 2:5, 1:]
        return self.head(z.mean((2, 3))), average, self.up(z), tokens, padded, z.sum(1)


GROUPS = """
func.func @main(%x: tensor<2x3x4x4xf32>, %v: tensor<12x3x1x1xf32>, %w: tensor<4x12x1x1xf32>,
                %s: tensor<12xf32>) -> tensor<2x4x4x4xf32> {
  %0 = stablehlo.convolution(%x, %v) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
    window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<2x3x4x4xf32>, tensor<12x3x1x1xf32>) -> tensor<2x12x4x4xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %count = stablehlo.constant dense<48.0> : tensor<2x4xf32>
  %epsilon = stablehlo.constant dense<0.01> : tensor<2x4xf32>
  %1 = stablehlo.reshape %0 : (tensor<2x12x4x4xf32>) -> tensor<2x4x48xf32>
  %2 = stablehlo.multiply %1, %1 : tensor<2x4x48xf32>
  %3 = stablehlo.reduce(%2 init: %zero) applies stablehlo.add across dimensions = [2]
    : (tensor<2x4x48xf32>, tensor<f32>) -> tensor<2x4xf32>
  %4 = stablehlo.divide %3, %count : tensor<2x4xf32>
  %5 = stablehlo.add %4, %epsilon : tensor<2x4xf32>
  %6 = stablehlo.rsqrt %5 : tensor<2x4xf32>
  %7 = stablehlo.broadcast_in_dim %6, dims = [0, 1] : (tensor<2x4xf32>) -> tensor<2x4x48xf32>
  %8 = stablehlo.multiply %1, %7 : tensor<2x4x48xf32>
  %9 = stablehlo.reshape %8 : (tensor<2x4x48xf32>) -> tensor<2x12x4x4xf32>
  %10 = stablehlo.broadcast_in_dim %s, dims = [1] : (tensor<12xf32>) -> tensor<2x12x4x4xf32>
  %11 = stablehlo.multiply %9, %10 : tensor<2x12x4x4xf32>
  %12 = stablehlo.tanh %11 : tensor<2x12x4x4xf32>
  %13 = stablehlo.convolution(%12, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
    window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<2x12x4x4xf32>, tensor<4x12x1x1xf32>) -> tensor<2x4x4x4xf32>
  return %13 : tensor<2x4x4x4xf32>
}
"""


def answer(module: ir.Module) -> np.ndarray:
    """What a function gives for random inputs, in NumPy."""
    (function,) = module.body.operations
    block = function.regions[0].blocks[0]
    rng = np.random.default_rng(0)
    inputs = {each: rng.standard_normal(each.type.shape) for each in block.arguments}
    (result,) = evaluate(list(block.operations)[-1].operands, inputs)
    return result


def test_a_norm_over_groups_of_channels_is_turned_with_what_is_around_it():
    with ir.Context():
        module = ir.Module.parse(GROUPS)
        before = answer(module)
        ChannelsLast().run(module)
        module.operation.verify()
        after = str(module)
        np.testing.assert_allclose(answer(module), before, 1e-9, 1e-9)
    turns = re.findall(r"stablehlo.transpose %(\S+), dims = (\[[\d, ]+\])", after)
    images = [dims for _, dims in turns if dims != "[2, 3, 1, 0]"]
    assert images == ["[0, 2, 3, 1]", "[0, 3, 1, 2]"]
    assert "(tensor<2x4x4x12xf32>) -> tensor<2x16x4x3xf32>" in after
    assert "tensor<2x12x4x4xf32>" not in after


class Sound(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Conv1d(2, 12, 7, 2, 3)
        self.two = nn.Conv1d(12, 12, 5, padding=2, groups=12)
        self.three = nn.Conv1d(12, 5, 1)

    def forward(self, x):
        return self.three(F.gelu(self.two(F.relu(self.one(x))))).amax(-1)


def check(model: nn.Module, x: torch.Tensor, folder) -> None:
    torch.manual_seed(0)
    model = model.eval()
    for parameter in model.buffers():
        if parameter.dtype == torch.float32:
            parameter.uniform_(0.5, 2)
    program = export(model, (x,))
    changes = run_passes(program, "cpu").changes
    assert changes["channels-last"] > 3
    assert changes["cpu-kernels"] >= 3
    module = compile(program, "cpu", CompileOptions(cache=False, output=folder / "m.vmfb"))
    with load(module) as loaded, torch.no_grad():
        answers = loaded.main(x.numpy())
        expected = model(x)
        if isinstance(expected, torch.Tensor):
            answers, expected = [answers], [expected]
        for answer, wanted in zip(answers, expected, strict=True):
            np.testing.assert_allclose(np.asarray(answer), wanted.numpy(), 1e-4, 1e-4)


def test_a_network_of_many_blocks_answers_as_pytorch_does(tmp_path):
    check(Blocks(), torch.randn(2, 3, 33, 32), tmp_path)


def test_a_network_on_sound_answers_as_pytorch_does(tmp_path):
    check(Sound(), torch.randn(3, 2, 100), tmp_path)


TOKENS = """
func.func @main(%x: tensor<1x64x6xf32>, %w: tensor<6x12x1x1xf32>) -> tensor<1x6x8x8xf32> {
  %0 = stablehlo.exponential %x : tensor<1x64x6xf32>
  %1 = stablehlo.transpose %0, dims = [0, 2, 1] : (tensor<1x64x6xf32>) -> tensor<1x6x64xf32>
  %2 = stablehlo.reshape %1 : (tensor<1x6x64xf32>) -> tensor<1x6x8x8xf32>
  %3 = stablehlo.concatenate %2, %2, dim = 1
    : (tensor<1x6x8x8xf32>, tensor<1x6x8x8xf32>) -> tensor<1x12x8x8xf32>
  %4 = stablehlo.convolution(%3, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
    window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x12x8x8xf32>, tensor<6x12x1x1xf32>) -> tensor<1x6x8x8xf32>
  return %4 : tensor<1x6x8x8xf32>
}
"""


def test_tokens_that_become_an_image_are_not_turned_twice():
    after, _ = turned(TOKENS)
    assert "stablehlo.reshape %0 : (tensor<1x64x6xf32>) -> tensor<1x8x8x6xf32>" in after
    assert "dim = 3 : (tensor<1x8x8x6xf32>, tensor<1x8x8x6xf32>)" in after
    assert "tensor<1x6x64xf32>" not in after


def test_a_turned_matrix_stays_one():
    matrix = TOKENS.replace("exponential %x", "tanh %x").replace(
        "  %2 = stablehlo.reshape %1 :",
        "  %m = stablehlo.abs %1 : tensor<1x6x64xf32>\n  %2 = stablehlo.reshape %1 :",
    )
    after, _ = turned(matrix)
    assert "stablehlo.transpose %0, dims = [0, 2, 1]" in after
