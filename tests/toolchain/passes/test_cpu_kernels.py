"""edgec's CPU kernels against JAX: odd shapes, every kind of tail, several vector units."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from iree.compiler import ir

from edgec.exporters import export
from edgec.runtime import load
from edgec.toolchain import CompileOptions, compile, run_passes
from edgec.toolchain.kernels.cpu.source import VectorUnit
from edgec.toolchain.passes.place.cpu_kernels import CpuKernels
from tests.toolchain.by_lane import BY_LANE

AVX512 = VectorUnit(lanes=16, registers=32, broadcasts=True)
BEFORE = """
func.func @main(%x: tensor<1x8x8x16xf32>, %r: tensor<1x8x8x32xf32>) -> tensor<1x8x8x32xf32> {
  %w = stablehlo.constant dense<0.5> : tensor<3x3x16x32xf32>
  %b = stablehlo.constant dense<1.0> : tensor<32xf32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
    window = {pad = [[1, 1], [1, 1]]}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x8x8x16xf32>, tensor<3x3x16x32xf32>) -> tensor<1x8x8x32xf32>
  %1 = stablehlo.broadcast_in_dim %b, dims = [3] : (tensor<32xf32>) -> tensor<1x8x8x32xf32>
  %2 = stablehlo.add %0, %1 : tensor<1x8x8x32xf32>
  %3 = stablehlo.add %2, %r : tensor<1x8x8x32xf32>
  %4 = stablehlo.broadcast_in_dim %z, dims = [] : (tensor<f32>) -> tensor<1x8x8x32xf32>
  %5 = stablehlo.maximum %3, %4 : tensor<1x8x8x32xf32>
  return %5 : tensor<1x8x8x32xf32>
}
"""


def rewritten(text: str) -> tuple[str, int]:
    with ir.Context():
        module = ir.Module.parse(text)
        count = CpuKernels(unit=AVX512).run(module)
        module.operation.verify()
        return str(module), count


def test_a_convolution_and_its_tail_become_one_dispatch():
    after, count = rewritten(BEFORE)
    assert count == 1
    function = after[after.index("func.func @main") :]
    assert not re.search(r"stablehlo\.(convolution|add|maximum)", function)
    assert len(re.findall("flow.dispatch ", function)) == 1
    assert "tensor<1x10x10x16xf32>" in function  # the padding of the input, which nobody wrote yet
    assert "vector.fma" in after


def test_weights_are_kept_only_as_they_were_packed():
    after, _ = rewritten(BEFORE)
    assert "stablehlo.constant dense<5.000000e-01> : tensor<1x144x32xf32>" in after
    assert "tensor<3x3x16x32xf32>" not in after


def test_bounds_of_another_width_are_numbers_not_tensors():
    half = BEFORE.replace(
        "%z = stablehlo.constant dense<0.0> : tensor<f32>",
        """
  %h = stablehlo.constant dense<0.5> : tensor<f16>
  %z = stablehlo.convert %h : (tensor<f16>) -> tensor<f32>""",
    )
    after, count = rewritten(half)
    assert count == 1
    dispatch = next(line for line in after.splitlines() if "flow.dispatch " in line)
    assert dispatch.count("tensor<1x8x8x32xf32>") == 2  # the residual and the result
    assert "arith.constant dense<5.000000e-01>" in after


TWICE = """
func.func @main(%x: tensor<1x8x8x16xf32>) -> tensor<1x8x8x16xf32> {
  %v = stablehlo.constant dense<0.5> : tensor<1x1x16x16xf32>
  %w = stablehlo.constant dense<0.5> : tensor<3x3x16x16xf32>
  %0 = stablehlo.convolution(%x, %v) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
    window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x8x8x16xf32>, tensor<1x1x16x16xf32>) -> tensor<1x8x8x16xf32>
  %1 = stablehlo.convolution(%0, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
    window = {pad = [[1, 1], [1, 1]]}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x8x8x16xf32>, tensor<3x3x16x16xf32>) -> tensor<1x8x8x16xf32>
  return %1 : tensor<1x8x8x16xf32>
}
"""


def test_padding_is_written_by_the_kernel_before():
    after, count = rewritten(TWICE)
    assert count == 2
    assert "stablehlo.pad" not in after
    assert "-> tensor<1x10x10x16xf32>" in after


def test_weights_that_are_inputs_are_packed_in_each_call():
    text = BEFORE.replace(", %r:", ", %w: tensor<3x3x16x32xf32>, %r:")
    text = "\n".join(line for line in text.splitlines() if "dense<0.5>" not in line)
    after, count = rewritten(text)
    assert count == 2  # what packs them is a kernel, too
    assert after.count("stablehlo.convolution") == 0
    assert len(re.findall(r"flow.dispatch @", after)) == 2


def test_other_element_types_are_left_alone():
    assert rewritten(BEFORE.replace("f32", "f16"))[1] == 0


def convolve(x, w, stride=(1, 1), padding="SAME", groups=1, dilation=(1, 1)):
    numbers = ("NHWC", "HWIO", "NHWC") if x.ndim == 4 else ("NWC", "WIO", "NWC")
    return jax.lax.conv_general_dilated(
        x,
        w,
        stride[: x.ndim - 2],
        padding,
        rhs_dilation=dilation[: x.ndim - 2],
        dimension_numbers=numbers,
        feature_group_count=groups,
    )


def weights(*shape):
    """The same numbers at every trace of a function, of a size that keeps sums near one."""
    values = np.random.default_rng(shape).standard_normal(shape)
    return (values / np.sqrt(max(1, np.prod(shape[:-1])))).astype(np.float32)


CONVOLUTIONS = {
    "pointwise": (weights(1, 1, 12, 40), {}),
    "few channels out": (weights(3, 3, 12, 5), {}),
    "one channel out": (weights(3, 3, 12, 1), {}),
    "stride 2": (weights(3, 3, 12, 33), {"stride": (2, 2)}),
    "stride 2 by 1": (weights(5, 3, 12, 24), {"stride": (2, 1)}),
    "dilated": (weights(3, 3, 12, 16), {"dilation": (2, 3)}),
    "uneven padding": (weights(2, 4, 12, 17), {"padding": [(0, 1), (2, 0)]}),
    "no padding": (weights(3, 3, 12, 64), {"padding": "VALID"}),
    "depthwise": (weights(3, 3, 1, 12), {"groups": 12}),
    "depthwise stride 2": (weights(5, 5, 1, 12), {"groups": 12, "stride": (2, 2)}),
    "depthwise dilated": (weights(3, 3, 1, 12), {"groups": 12, "dilation": (2, 2)}),
}


def every_convolution(x):
    return {name: convolve(x, w, **how) for name, (w, how) in CONVOLUTIONS.items()}


def tails(x):
    w, b, gate = weights(3, 3, 12, 20), weights(20), weights(2, 13, 11, 20)
    y = convolve(x, w)
    z = convolve(x, weights(1, 1, 12, 20))
    return {
        "relu6": jnp.clip(y + b, 0, 6),
        "hard swish": y * jax.nn.relu6(y + 3) / 6,
        "silu": jax.nn.silu(z * b - 1.5),
        "gelu": jax.nn.gelu(convolve(x, 2 * w) + b),
        "erf gelu": jax.nn.gelu(convolve(x, 3 * w) + b, approximate=False),
        "residual": jax.nn.relu(convolve(x, 4 * w) + convolve(x, -w[:1, :1]) * b + gate),
        "tanh": jnp.tanh(convolve(x, 5 * w)) * gate,
        "used twice": (q := convolve(x, 6 * w) + 1, q.mean((1, 2))),
        "scale by a mean": (s := jax.nn.silu(convolve(x, -w))) * s.mean((1, 2), keepdims=True),
    }


def chain(x):
    """Each wants other padding of what the one before writes."""
    y = jax.nn.relu(convolve(x, weights(1, 1, 12, 24)))
    y = jax.nn.relu(convolve(y, weights(3, 3, 1, 24), groups=24, stride=(2, 2)))
    y = convolve(y, weights(3, 3, 24, 16), padding=[(2, 2), (1, 0)])
    z = convolve(y, weights(3, 3, 16, 16)) + y
    return convolve(z, weights(5, 5, 16, 7), padding=[(2, 2), (2, 2)]), z


def winograd(x):
    """Windows of 3 x 3 over enough channels, odd sizes, padding handed on, all of it in batches."""
    y = jax.nn.relu(convolve(x, weights(1, 1, 12, 40)))
    y = jax.nn.relu(convolve(y, weights(3, 3, 40, 50)) + weights(50))
    z = convolve(y, weights(3, 3, 50, 33), padding=[(1, 2), (0, 1)])
    w = convolve(z, weights(3, 3, 33, 64), padding="VALID")
    return convolve(w, weights(3, 3, 64, 32)), y + convolve(y, weights(3, 3, 50, 50))


def products(x):
    rows = x.reshape(-1, 11 * 12)
    y = jax.nn.relu(rows @ weights(132, 50) + weights(50))
    one = jnp.tanh(rows[:1] @ weights(132, 300))
    other = jax.lax.dot_general(rows, weights(64, 132), (((1,), (1,)), ((), ())))
    lines = x[:, :, 0]
    return (
        y @ weights(50, 3),
        one,
        other,
        convolve(lines, weights(5, 12, 16), (2,), "SAME", 1, (1,)),
    )


def quads(x):
    """Sums of fours and others; rows of a window in one piece, or not."""
    y = convolve(x, weights(3, 3, 12, 27), dilation=(2, 3))
    z = convolve(y, weights(3, 3, 27, 30))
    return {
        "few channels in": convolve(x[..., :5], weights(3, 3, 5, 16), (2, 2)),
        "groups": convolve(y, weights(3, 2, 9, 12), groups=3),
        "Winograd": convolve(z, weights(3, 3, 30, 26)),
        "product": x.reshape(-1, 11 * 12) @ weights(132, 50),
        "one row": jnp.tanh(x.reshape(-1, 33)[:1] @ weights(33, 300)),
    }


FUNCTIONS = [every_convolution, tails, chain, winograd, products]
WINDOWS = (every_convolution, winograd)


def _case(function, target):
    """Beside this machine's, `make test` has 256 bits with windows and 128 with the others."""
    other = "cpu:x86-64" if function in WINDOWS else "cpu:x86-64-v3"
    return pytest.param(function, target, marks=[pytest.mark.slow] * (target == other))


CASES = [
    _case(function, target)
    for function in FUNCTIONS
    for target in ("cpu", "cpu:x86-64-v3", "cpu:x86-64")
]


@pytest.mark.sweep(fast=3)
@pytest.mark.parametrize(("function", "target"), [*CASES, (quads, BY_LANE)])
def test_answers_are_those_of_jax(function, target, tmp_path):
    x = weights(2, 13, 11, 12)
    program = export(function, (x,))
    assert run_passes(program, target).changes["cpu-kernels"] > 3
    module = compile(program, target, CompileOptions(cache=False, output=tmp_path / "m.vmfb"))
    with load(module) as loaded:
        answer = loaded.main(x)
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(np.asarray(a), np.asarray(b), 1e-4, 2e-4),
            answer,
            jax.jit(function)(x),
        )
