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


def over_rows(x):
    return x * jax.lax.rsqrt((x * x).mean(0, keepdims=True) + 1e-6)


@pytest.mark.parametrize(
    ("function", "sizes"),
    [
        (jax_layer_norm, (5, 50)),  # no whole vectors
        (jax_layer_norm, (5, 16)),  # too narrow to be worth it
        (over_rows, (64, 64)),
    ],
)
def test_other_norms_stay(function, sizes):
    after, count = rewritten(function, *sizes)
    assert count == 0
    assert "stablehlo.rsqrt" in after


def norms(x, y):
    return (
        jax_layer_norm(x, column(192, 2), column(192, 3)),
        jax_layer_norm(-x),
        jax_rms_norm(x, column(192, 4)),
        jax_layer_norm(y, None, column(36, 5)),
    )


@pytest.mark.parametrize("target", ["cpu", "cpu:x86-64"])
def test_answers_are_right(target, tmp_path):
    x = np.random.default_rng(6).standard_normal((2, 197, 192)).astype(np.float32) * 3 + 20
    y = np.random.default_rng(7).standard_normal((3, 36)).astype(np.float32)
    y[0] = 0.5
    program = export(norms, (x, y))
    assert run_passes(program, target).changes["norm-kernels"] == 4
    module = compile(program, target, CompileOptions(cache=False, output=tmp_path / "m.vmfb"))
    x, y = x.astype(np.float64), y.astype(np.float64)
    wanted = (
        layer_norm(x, column(192, 2), column(192, 3)),
        layer_norm(-x),
        rms_norm(x, column(192, 4)),
        layer_norm(y, 1.0, column(36, 5)),
    )
    with load(module) as loaded:
        answers = loaded.main(x.astype(np.float32), y.astype(np.float32))
    for answer, right in zip(answers, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(answer), right, 2e-5, 2e-5)


@pytest.mark.parametrize("mean", [True, False])
def test_norms_are_compared_with_their_operations(mean) -> None:
    function = jax_layer_norm if mean else jax_rms_norm
    with validating() as found:
        rewritten(lambda x: function(x, column(48, 0)), 2, 7, 48)
    assert (found.same, found.left) == ({"norm": 1}, [])
