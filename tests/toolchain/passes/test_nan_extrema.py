"""The largest and the least of floats, NaN among them, as NumPy has them."""

import re

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from edgec.exporters import export
from edgec.toolchain.passes.legalise.nan_extrema import NanExtrema
from tests.toolchain.passes.before_after import rewrite, run

KINDS = (np.float32, np.float16, ml_dtypes.bfloat16)


def numbers(kind: type) -> np.ndarray:
    x = np.random.default_rng(6).standard_normal((7, 60)).astype(kind)
    x[0, 5], x[1, 7], x[2, 9] = np.nan, np.inf, -np.inf
    x[3], x[4] = -np.abs(x[3]), np.abs(x[4])
    x[5, :2] = (-0.0, np.copysign(np.nan, -1))
    x[6] = -np.inf
    return x


@pytest.mark.sweep(fast=4)
@pytest.mark.vulkan
@pytest.mark.parametrize("target", ["cpu", "vulkan"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["min", "max"])
def test_it_is_nan_where_one_is(name: str, kind: type, target: str, tmp_path) -> None:
    x = numbers(kind)
    program = export(lambda x: getattr(jnp, name)(x, 1), (x,))
    count, after = rewrite(NanExtrema(), program.bytecode)
    assert count == 1
    assert re.search(rf"applies stablehlo.{name}imum across.*xi32>", after)
    found = run(after, tmp_path, x, target=target).astype(np.float32)
    np.testing.assert_array_equal(found, getattr(np, name)(x.astype(np.float32), 1))


@pytest.mark.parametrize("function", [jax.nn.softmax, jax.nn.log_softmax])
def test_what_a_softmax_subtracts_stays(function) -> None:
    program = export(function, (np.zeros((4, 60), np.float32),))
    assert rewrite(NanExtrema(), program.bytecode)[0] == 0


def test_a_difference_alone_is_no_softmax() -> None:
    program = export(lambda x: x - jnp.max(x, 1, keepdims=True), (np.zeros((4, 60), np.float32),))
    assert rewrite(NanExtrema(), program.bytecode)[0] == 1
