"""Norms along the last axis against NumPy in 64 bits, and what becomes of them."""

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
from edgec.toolchain.match.validation import validating
from edgec.toolchain.passes.place.norm_kernels import NormKernels
from edgec.toolchain.stablehlo import parse_stablehlo

AVX512 = VectorUnit(lanes=16, registers=32, broadcasts=True)


def layer_norm(x, scale=1.0, shift=0.0):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * (1 / (variance + 1e-5) ** 0.5) * scale + shift


def rms_norm(x, scale):
    return x * (1 / ((x * x).mean(-1, keepdims=True) + 1e-6) ** 0.5) * scale


def jax_layer_norm(x, scale=None, shift=None):
    y = x - x.mean(-1, keepdims=True)
    y = y * jax.lax.rsqrt((y * y).mean(-1, keepdims=True) + 1e-5)
    y = y if scale is None else y * scale
    return y if shift is None else y + shift


def jax_rms_norm(x, scale):
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * scale


def rewritten(function, *sizes: int) -> tuple[str, int]:
    program = export(function, (jnp.zeros(sizes),))
    with ir.Context() as context:
        module = parse_stablehlo(program.bytecode, context)
        count = NormKernels(unit=AVX512).run(module)
        module.operation.verify()
        return str(module), count


def column(size: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(size).astype(np.float32)


def test_a_norm_with_scale_and_shift_becomes_one_dispatch():
    after, count = rewritten(lambda x: jax_layer_norm(x, column(48, 0), column(48, 1)), 2, 7, 48)
    assert count == 1
    function = after[after.index("func.func public @main") :]
    assert "stablehlo.reduce" not in function
    assert not re.search(r"stablehlo\.(add|subtract|multiply|divide|rsqrt)", function)
    assert len(re.findall("flow.dispatch ", function)) == 1


def over(axes, x):
    """By axes, with no scale."""
    y = x - x.mean(axes, keepdims=True)
    return y * jax.lax.rsqrt((y * y).mean(axes, keepdims=True) + 1e-5)


@pytest.mark.parametrize(
    ("function", "sizes", "reason"),
    [
        (jax_layer_norm, (5, 16), "rows of 16 elements"),
        (lambda x: over((0, 2), x), (32, 3, 40, 3), "rows whose elements lie apart"),
        (lambda x: over((1, 3), x), (2, 40, 2, 201), "rows of 201 neighbours in 402 columns"),
        (
            lambda x: over((2, 3), x) * jnp.arange(6.0).reshape(3, 1, 2),
            (1, 3, 40, 2),
            "scales that change",
        ),
    ],
)
def test_other_norms_are_declined_with_a_reason(function, sizes, reason):
    program = export(function, (jnp.zeros(sizes),))
    report = run_passes(program, "cpu:x86-64-v4")
    assert report.kernels is not None
    assert "norm-kernels" not in {k for k, count in report.changes.items() if count}
    reasons = {left.what: left.reason for left in report.kernels.left}
    assert any(r.startswith(reason) for what, r in reasons.items() if what.startswith("reduce"))


def norms(x, y, image, pixels):
    channel = image[0, :, 0, 0] + 2
    grouped = image.reshape(2, 4, 9, 7, 7)
    last = pixels.reshape(2, 49, 4, 12)
    return (
        jax_layer_norm(x, column(192, 2), column(192, 3)),
        jax_layer_norm(-x),
        jax_rms_norm(x, column(192, 4)),
        jax_layer_norm(y, None, column(50, 5)),
        over((2, 3, 4), grouped).reshape(image.shape) * channel[:, None, None] + 1.5,
        over((2, 3), image) * channel[:, None, None],
        over((1,), image) * channel[:, None, None] + channel[:, None, None],
        over((1, 2), pixels) * column(48, 8),
        over((1, 2, 3), pixels) * column(48, 9),
        over((1, 3), last).reshape(pixels.shape) + column(48, 10),
        over((2,), x + 1) * (1 + y[:2, None, :1] + column(192, 11)),
    )


def wanted(x, y, image, pixels):
    def over(axes, x):
        return (x - x.mean(axes, keepdims=True)) / (x.var(axes, keepdims=True) + 1e-5) ** 0.5

    channel = image[0, :, 0, 0] + 2
    by_channel = channel[:, None, None]
    grouped = over((2, 3, 4), image.reshape(2, 4, 9, 7, 7)).reshape(image.shape)
    return (
        layer_norm(x, column(192, 2), column(192, 3)),
        layer_norm(-x),
        rms_norm(x, column(192, 4)),
        layer_norm(y, 1.0, column(50, 5)),
        grouped * by_channel + 1.5,
        over((2, 3), image) * by_channel,
        over((1,), image) * by_channel + by_channel,
        over((1, 2), pixels) * column(48, 8),
        over((1, 2, 3), pixels) * column(48, 9),
        over((1, 3), pixels.reshape(2, 49, 4, 12)).reshape(pixels.shape) + column(48, 10),
        over((2,), x + 1) * (1 + y[:2, None, :1] + column(192, 11)),
    )


@pytest.mark.parametrize("target", ["cpu", "cpu:x86-64"])
def test_answers_are_right(target, tmp_path):
    rng = np.random.default_rng(6)
    x = rng.standard_normal((2, 197, 192)).astype(np.float32) * 3 + 20
    y = rng.standard_normal((3, 50)).astype(np.float32)
    y[0] = 0.5
    image = rng.standard_normal((2, 36, 7, 7)).astype(np.float32) * 2 - 5
    pixels = rng.standard_normal((2, 7, 7, 48)).astype(np.float32) + 7
    inputs = (x, y, image, pixels)
    program = export(norms, inputs)
    assert run_passes(program, target).changes["norm-kernels"] == 11
    module = compile(program, target, CompileOptions(cache=False, output=tmp_path / "m.vmfb"))
    right = wanted(*(each.astype(np.float64) for each in inputs))
    with load(module) as loaded:
        answers = loaded.main(*inputs)
    for number, (answer, each) in enumerate(zip(answers, right, strict=True)):
        np.testing.assert_allclose(np.asarray(answer), each, 3e-5, 3e-5, err_msg=str(number))


@pytest.mark.parametrize("mean", [True, False])
def test_norms_are_compared_with_their_operations(mean) -> None:
    function = jax_layer_norm if mean else jax_rms_norm
    with validating() as found:
        rewritten(lambda x: function(x, column(48, 0)), 2, 7, 48)
    assert (found.same, found.left) == ({"norm": 1}, [])
