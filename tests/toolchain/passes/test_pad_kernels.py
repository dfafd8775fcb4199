"""Edges around images on the CPU beside NumPy: between kernels, joined, of odd sizes, the rest."""

import re
from dataclasses import dataclass

import jax
import numpy as np
import pytest
import torch
from iree.compiler import ir
from jax import lax
from jax import numpy as jnp
from torch import nn

from edgec.exporters import export
from edgec.runtime import load
from edgec.toolchain import CompileOptions, compile
from edgec.toolchain.kernels.cpu.source import VectorUnit
from edgec.toolchain.passes.place.pad_kernels import PadKernels
from edgec.toolchain.stablehlo import parse_stablehlo

RANDOM = np.random.default_rng(7)
ARM = VectorUnit(lanes=4, registers=32)


def rewritten(function, *inputs):
    """How many kernels there are for another processor, and the program with them."""
    text = str(jax.jit(function).lower(*inputs).compiler_ir("stablehlo"))
    with ir.Context() as context:
        module = parse_stablehlo(text, context)
        count = PadKernels(unit=ARM).run(module)
        module.operation.verify()
        return count, str(module)


@dataclass(frozen=True, kw_only=True)
class Edges:
    """Some arrays, joined along an axis, and what is put around them."""

    shapes: tuple
    pads: tuple
    axis: int = -1
    edge: float = 0.0

    def inputs(self):
        return tuple(RANDOM.standard_normal(shape).astype(np.float32) for shape in self.shapes)

    def __call__(self, *parts):
        joined = jnp.concatenate(parts, self.axis) if len(parts) > 1 else parts[0]
        return lax.pad(joined, np.float32(self.edge), [(*pair, 0) for pair in self.pads])

    def numbers(self, *parts):
        return np.pad(np.concatenate(parts, self.axis), self.pads, constant_values=self.edge)


NONE = (0, 0)
CASES = {
    "image": Edges(shapes=((2, 5, 7, 24),), pads=(NONE, (1, 2), (0, 3), NONE)),
    "odd channels": Edges(shapes=((2, 5, 7, 3),), pads=(NONE, (2, 0), (1, 1), NONE), edge=-2.5),
    "columns alone": Edges(shapes=((2, 5, 7, 19),), pads=(NONE, NONE, (1, 0), NONE)),
    "rows alone": Edges(shapes=((2, 5, 7, 19),), pads=(NONE, (0, 2), NONE, NONE)),
    "channels first": Edges(shapes=((2, 3, 9, 37),), pads=(NONE, NONE, (1, 1), (2, 0))),
    "a sound": Edges(shapes=((1, 1, 200),), pads=(NONE, NONE, (7, 70)), edge=float("-inf")),
    "images of a video": Edges(shapes=((2, 3, 4, 4, 5),), pads=(NONE, (1, 1), NONE, NONE, NONE)),
    "joined": Edges(
        shapes=((2, 5, 7, 16), (2, 5, 7, 3), (2, 5, 7, 41)), pads=(NONE, (1, 1), (1, 1), NONE)
    ),
    "joined below": Edges(
        shapes=((2, 5, 7, 16), (2, 4, 7, 16)), pads=(NONE, (1, 1), (1, 1), NONE), axis=1
    ),
    "joined rows": Edges(
        shapes=((3, 5, 2, 8), (3, 5, 3, 8)), pads=(NONE, (1, 1), NONE, NONE), axis=2
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_pad_becomes_a_kernel_with_what_it_joins(case):
    edges = CASES[case]
    count, text = rewritten(edges, *edges.inputs())
    assert count == 1
    assert "stablehlo.pad" not in text
    assert ("stablehlo.concatenate" in text) == (case == "joined below")


def test_edges_are_those_of_numpy(tmp_path):
    inputs = {case: edges.inputs() for case, edges in CASES.items()}

    def every(given):
        return {case: edges(*given[case]) for case, edges in CASES.items()}

    options = CompileOptions(cache=False, output=tmp_path / "m.vmfb")
    with load(compile(export(every, (inputs,)), "cpu", options)) as loaded:
        answers = loaded.main(inputs)
    for case, edges in CASES.items():
        np.testing.assert_array_equal(answers[case], edges.numbers(*inputs[case]), case)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: lax.pad(x, np.float32(0), [(0, 0, 1), (1, 1, 0), (1, 1, 0), (0, 0, 0)]),
        lambda x: lax.pad(x, np.float32(0), [(0, 0, 0), (-1, 1, 0), (1, 1, 0), (0, 0, 0)]),
        lambda x: lax.pad(x, np.float32(0), [(0, 1, 0), (0, 0, 0), (0, 0, 0), (0, 1, 0)]),
        lambda x: lax.pad(x, x[0, 0, 0, 0], [(0, 0, 0), (1, 1, 0), (1, 1, 0), (0, 0, 0)]),
        lambda x: lax.pad(jnp.tanh(x), np.float32(0), [(0, 0, 0), (1, 1, 0), (1, 1, 0), (0, 0, 0)]),
        lambda x: jnp.tanh(lax.pad(x, np.float32(0), [(0, 0, 0), (1, 1, 0), (1, 1, 0), (0, 0, 0)])),
        lambda x: lax.pad(
            x.astype(jnp.int32), np.int32(0), [(0, 0, 0), (1, 1, 0), (1, 1, 0), (0, 0, 0)]
        ),
    ],
    ids=["between", "cut", "far apart", "computed", "after code", "before code", "integers"],
)
def test_other_pads_stay_with_the_compiler(function):
    assert rewritten(function, np.ones((2, 5, 7, 8), np.float32))[0] == 0


class TwoWays(nn.Module):
    """What is halved by a pooling on one way and by a convolution on the other."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 24, 3, padding=1)
        self.way = nn.Conv2d(24, 16, 3, stride=2, padding=1)
        self.last = nn.Conv2d(40, 16, 3, padding=1)

    def forward(self, x):
        x = self.first(x)
        x = torch.cat([nn.functional.max_pool2d(x, 2), self.way(x)], 1)
        return self.last(x)


def test_an_image_with_two_readers_gets_its_edge_from_one_kernel(tmp_path):
    torch.manual_seed(0)
    model, x = TwoWays().eval(), torch.randn(1, 3, 24, 20)
    output = tmp_path / "m.vmfb"
    module = compile(export(model, (x,)), "cpu", CompileOptions(cache=False, output=output))
    names = set(re.findall(rb"edgec_pad_[0-9x]+", output.read_bytes()))
    assert names == {b"edgec_pad_1x26x22x24", b"edgec_pad_1x14x12x40"}
    with torch.no_grad(), load(module) as loaded:
        np.testing.assert_allclose(loaded.main(x.numpy()), model(x), 1e-4, 1e-5)
