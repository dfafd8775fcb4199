"""A softmax by itself against NumPy in 64 bits, and what becomes of it."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from iree.compiler import ir

from edgec.exporters import export
from edgec.runtime import load
from edgec.toolchain import CompileOptions, compile, run_passes
from edgec.toolchain.kernels.cpu.source import VectorUnit
from edgec.toolchain.match.validation import validating
from edgec.toolchain.passes.place.softmax_kernels import SoftmaxKernels
from edgec.toolchain.passes.simplify.canonicalise import Canonicalise
from edgec.toolchain.passes.simplify.fold_constants import FoldConstants
from edgec.toolchain.stablehlo import parse_stablehlo

AVX512 = VectorUnit(lanes=16, registers=32, broadcasts=True)


def rewritten(program) -> tuple[str, int]:
    with ir.Context() as context, validating():
        module = parse_stablehlo(program.bytecode, context)
        Canonicalise().run(module)
        FoldConstants().run(module)
        count = SoftmaxKernels(unit=AVX512).run(module)
        module.operation.verify()
        text = str(module)
        return text[text.index("func.func public @main") :], count


def written_out(x):
    powers = jnp.exp(x)
    return powers / powers.sum(1, keepdims=True)


class Safe(torch.nn.Module):
    """PyTorch's own, which gives zeros for rows of minus infinity."""

    def forward(self, x):
        return torch.ops.aten._safe_softmax(x, -1)


@pytest.mark.parametrize(
    "function",
    [lambda x: jax.nn.softmax(x, -1), lambda x: jax.nn.softmax(x, 0), written_out],
)
def test_a_softmax_along_any_axis_becomes_one_dispatch(function):
    after, count = rewritten(export(function, (jnp.zeros((8, 33, 20)),)))
    assert count == 1
    assert not re.search(r"stablehlo\.(reduce|exponential|divide|subtract|maximum)", after)


def test_one_that_a_framework_makes_safe_is_one_dispatch_too():
    after, count = rewritten(export(Safe(), (torch.zeros(3, 40),)))
    assert count == 1
    assert "stablehlo.select" not in after


@pytest.mark.parametrize(
    "function",
    [
        lambda x: jnp.exp(x) / jnp.exp(2 * x).sum(1, keepdims=True),
        lambda x: jnp.exp(x) / (1 + jnp.exp(x).sum(1, keepdims=True)),
        lambda x: jnp.exp(x) / jnp.exp(x).sum((1, 2), keepdims=True),
    ],
)
def test_what_only_looks_like_one_is_none(function):
    assert rewritten(export(function, (jnp.zeros((8, 33, 20)),)))[1] == 0


def test_short_rows_are_declined_with_a_reason():
    report = run_passes(export(lambda x: jax.nn.softmax(x), (jnp.zeros((9, 3)),)), "cpu:x86-64-v4")
    assert report.kernels is not None
    assert "rows of 3 elements" in {left.reason for left in report.kernels.left}


def shares(x, axis):
    x = x.astype(np.float64)
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def test_shares_are_those_of_numpy(tmp_path):
    def model(x, y, large):
        most = jax.nn.softmax(jnp.where(y > 0, y, -jnp.inf), 1)
        along = [jax.nn.softmax(x, axis) for axis in range(3)]
        return (*along, most, jax.nn.softmax(large), jax.nn.softmax(y.astype(jnp.float16)))

    random = np.random.default_rng(0)
    x = random.standard_normal((6, 37, 52)).astype(np.float32) * 5
    y = np.abs(random.standard_normal((5, 1003)).astype(np.float32))
    y[:, ::3] *= -1
    y[3] = -1  # nothing but minus infinity: the framework's answer is NaN
    large = np.array([[1e38, -1e38, 0, 3e38] * 8, [88, 89, -200, 0] * 8], np.float32)
    compile(
        export(model, (x, y, large)).save(tmp_path / "m.mlirbc"),
        "cpu",
        CompileOptions(output=tmp_path / "m.vmfb", cache=False, check=False),
    )
    masked = np.where(y > 0, y, -np.inf)
    halves = y.astype(np.float16)
    with np.errstate(invalid="ignore"):
        expected = [*(shares(x, axis) for axis in range(3)), shares(masked, 1)]
    expected += [shares(large, 1), shares(halves, 1)]
    with load(tmp_path / "m.vmfb") as module:
        results = [np.asarray(each) for each in module["main"](x, y, large)]
    for result, wanted in zip(results, expected, strict=True):
        close = 1e-3 if result.dtype == np.float16 else 2e-6
        np.testing.assert_allclose(result, wanted, rtol=close, atol=1e-9 if close < 1e-4 else 1e-6)


def test_rows_of_minus_infinity_give_zeros_where_they_are_safe(tmp_path):
    x = torch.randn(7, 40)
    x[2] = -torch.inf
    compile(
        export(Safe(), (x,)).save(tmp_path / "m.mlirbc"),
        "cpu",
        CompileOptions(output=tmp_path / "m.vmfb", cache=False, check=False),
    )
    with load(tmp_path / "m.vmfb") as module:
        result = np.asarray(module["main"](x.numpy()))
    np.testing.assert_allclose(result, torch.softmax(x, -1).nan_to_num().numpy(), atol=1e-7)
    assert not result[2].any()
