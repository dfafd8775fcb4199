"""Pooling after a convolution: the kernel before writes what its windows want around the image."""

import numpy as np
import torch
from iree.compiler import ir
from torch import nn

from edgec.exporters import export
from edgec.runtime import load
from edgec.toolchain import CompileOptions, compile
from edgec.toolchain.kernels.cpu.source import VectorUnit
from edgec.toolchain.passes.place.cpu_kernels import CpuKernels
from edgec.toolchain.passes.simplify.canonicalise import Canonicalise
from edgec.toolchain.passes.simplify.channels_last import ChannelsLast
from edgec.toolchain.passes.simplify.inline_calls import InlineCalls
from edgec.toolchain.stablehlo import parse_stablehlo


class Pools(nn.Module):
    """Sums that are negative, too, so that zeros at the edge would be the largest."""

    def __init__(self):
        super().__init__()
        self.wide = nn.Conv2d(3, 20, 3, 2, 1)
        self.deep = nn.Conv2d(20, 32, 3, 1, 1)
        self.thin = nn.Conv2d(32, 32, 3, 1, 1, groups=32)

    def forward(self, x):
        x = nn.functional.max_pool2d(self.wide(x), 3, 2, 1)
        x = nn.functional.avg_pool2d(self.deep(x), 3, 1, 1)
        return nn.functional.max_pool2d(self.thin(x), (3, 2), 1, (1, 0))


def placed(program):
    """The program with its kernels."""
    module = parse_stablehlo(program.bytecode, ir.Context())
    for simplify in (InlineCalls(), Canonicalise(), ChannelsLast()):
        simplify.run(module)
    CpuKernels(unit=VectorUnit(lanes=16, registers=32)).run(module)
    module.operation.verify()
    return str(module)


def test_pooling_reads_its_border_from_the_kernel_before(tmp_path):
    torch.manual_seed(0)
    model, x = Pools().eval(), torch.randn(2, 3, 41, 37)
    program = export(model, (x,))
    text = placed(program)
    assert text.count("stablehlo.reduce_window") == 3
    assert text.count("padding = dense<0> : tensor<4x2xi64>") == 3
    assert "dense<0xFF800000> : vector<16xf32>" in text
    module = compile(program, "cpu", CompileOptions(cache=False, output=tmp_path / "m.vmfb"))
    with load(module) as loaded, torch.no_grad():
        answer = np.asarray(loaded.main(x.numpy()))
        np.testing.assert_allclose(answer, model(x).numpy(), 1e-4, 1e-5)


class Both(nn.Module):
    """Its sums are pooled, and read as they are."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, 2, 1)

    def forward(self, x):
        x = self.conv(x)
        return nn.functional.max_pool2d(x, 3, 2, 1), x


def test_what_others_read_too_gets_no_border():
    text = placed(export(Both().eval(), (torch.randn(1, 3, 32, 32),)))
    assert "padding = dense<0>" not in text
    assert "tensor<1x16x16x16xf32>" in text
