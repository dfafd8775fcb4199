"""Poolings on the CPU beside PyTorch and NumPy: edges, NaN, distances, what follows, the rest."""

import re
from collections.abc import Callable
from dataclasses import dataclass

import jax
import numpy as np
import pytest
import torch
from iree.compiler import ir
from jax import lax
from torch import nn
from torch.nn import functional

from edgec.exporters import export
from edgec.runtime import load
from edgec.toolchain import CompileOptions, compile
from edgec.toolchain.kernels.cpu.source import VectorUnit
from edgec.toolchain.match.validation import validating
from edgec.toolchain.passes.place.pooling_kernels import PoolingKernels
from edgec.toolchain.stablehlo import parse_stablehlo

RANDOM = np.random.default_rng(7)
ARM = VectorUnit(lanes=4, registers=32)


def image(*sizes):
    """Numbers with a NaN and infinities at an edge and inside."""
    x = RANDOM.standard_normal(sizes).astype(np.float32)
    x[..., 0, 1, 2] = np.nan
    x[..., 4, 4, 0] = np.inf
    x[..., -1, -1, -1] = -np.inf
    return x


def rewritten(function, x):
    """How many kernels there are for another processor, and the program with them."""
    text = str(jax.jit(function).lower(x).compiler_ir("stablehlo"))
    with ir.Context() as context, validating():
        module = parse_stablehlo(text, context)
        count = PoolingKernels(unit=ARM).run(module)
        module.operation.verify()
        return count, str(module)


@dataclass(frozen=True, kw_only=True)
class Windows:
    """A pooling in JAX, and in NumPy, since XLA loses a NaN of some windows."""

    join: Callable = lax.max
    start: float = -np.inf
    window: tuple = (3, 3)
    stride: tuple = (2, 2)
    pads: tuple = ((1, 1), (1, 1))
    apart: tuple = (1, 1)

    def __call__(self, x):
        return lax.reduce_window(
            x,
            self.start,
            self.join,
            (1, *self.window, 1),
            (1, *self.stride, 1),
            [(0, 0), *self.pads, (0, 0)],
            window_dilation=(1, *self.apart, 1),
        )

    def numbers(self, x):
        join = {lax.max: np.maximum, lax.min: np.minimum, lax.add: np.add}[self.join]
        wide = np.pad(x, [(0, 0), *self.pads, (0, 0)], constant_values=self.start)
        reach = [(n - 1) * far + 1 for n, far in zip(self.window, self.apart, strict=True)]
        views = np.lib.stride_tricks.sliding_window_view(wide, reach, (1, 2))
        down, across = self.stride
        views = views[:, ::down, ::across, :, :: self.apart[0], :: self.apart[1]]
        return join.reduce(views, axis=(-2, -1), initial=self.start)


CASES = {
    "largest": Windows(pads=((1, 1), (0, 1))),
    "smallest": Windows(
        join=lax.min, start=np.inf, window=(2, 3), stride=(1, 2), pads=((0, 1), (2, 0))
    ),
    "apart": Windows(window=(2, 2), stride=(2, 1), pads=((3, 0), (2, 4)), apart=(3, 2)),
    "some have nothing of the image": Windows(start=-1.0, window=(2, 2), pads=((4, 3), (3, 4))),
    "sum": Windows(join=lax.add, start=0.0, window=(2, 5), stride=(1, 3)),
}


@pytest.mark.sweep(fast=4)
@pytest.mark.parametrize("channels", [20, 32])
@pytest.mark.parametrize("case", CASES)
def test_windows_at_edges_and_nan_are_those_of_numpy(case, channels, tmp_path):
    x, function = image(2, 9, 11, channels), CASES[case]
    count, text = rewritten(function, x)
    assert count == 1
    assert "stablehlo.pad" not in text
    example = (np.nan_to_num(x, posinf=9, neginf=-9),)
    options = CompileOptions(cache=False, output=tmp_path / "m.vmfb")
    with load(compile(export(function, example), "cpu", options)) as loaded:
        np.testing.assert_allclose(loaded.main(x), function.numbers(x), 1e-5, 1e-6)


def mean(x):
    """By how many pixels a window has, and then for a convolution that wants zeros around it."""
    total = Windows(join=lax.add, start=0.0)
    means = total(x) / total(np.ones((1, *x.shape[1:]), np.float32))
    return lax.pad(lax.max(means, 0.0), np.float32(0), [(0, 0, 0), (1, 2, 0), (0, 1, 0), (0, 0, 0)])


def test_what_follows_and_the_zeros_of_a_convolution_are_written_by_the_kernel(tmp_path):
    x = RANDOM.standard_normal((2, 9, 11, 24)).astype(np.float32)
    count, text = rewritten(mean, x)
    assert count == 1
    assert not re.search(r"stablehlo\.(pad|divide|maximum) .*tensor<2x", text)
    options = CompileOptions(cache=False, output=tmp_path / "m.vmfb")
    with load(compile(export(mean, (x,)), "cpu", options)) as loaded:
        np.testing.assert_allclose(loaded.main(x), mean(x), 1e-5, 1e-6)


class Pools(nn.Module):
    """Channels first, as PyTorch has them, between convolutions and by itself."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 24, 3)
        self.last = nn.Conv2d(24, 16, 1)

    def forward(self, x):
        x = functional.max_pool2d(self.conv(x), 3, 2, 1, ceil_mode=True)
        x = functional.avg_pool2d(x, (3, 2), 1, (1, 0), count_include_pad=False)
        x = functional.max_pool2d(self.last(x), 2, 1, dilation=2)
        return functional.avg_pool2d(x, 2, 1, 1)


def test_pytorchs_poolings_between_convolutions_are_kernels(tmp_path):
    torch.manual_seed(0)
    model, x = Pools().eval(), torch.randn(1, 3, 24, 21)
    program = export(model, (x,))
    x[0, 1, 5, 5] = np.nan
    module = compile(program, "cpu", CompileOptions(cache=False, output=tmp_path / "m.vmfb"))
    assert module.path.read_bytes().count(b"edgec_pooling_") >= 4
    with load(module) as loaded, torch.no_grad():
        np.testing.assert_allclose(loaded.main(x.numpy()), model(x).numpy(), 1e-4, 1e-5)


def across(x):
    return lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 2), (1, 2, 2, 2), "SAME")


@pytest.mark.parametrize(
    ("function", "x"),
    [
        (Windows(), np.ones((1, 8, 8, 3), np.float32)),  # three channels are no vector
        (Windows(window=(8, 8), pads=((0, 0), (0, 0))), np.ones((1, 8, 8, 8), np.float32)),
        (Windows(join=lax.add, start=0), np.ones((1, 9, 9, 8), np.int32)),
        (across, np.ones((1, 4, 4, 8), np.float32)),
    ],
)
def test_what_is_no_pooling_of_an_image_is_left(function, x):
    assert rewritten(function, x)[0] == 0
