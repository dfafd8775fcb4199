"""Sums of products and of negatives for CUDA and CPUs, which the compiler refuses as they are."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edgec import toolchain
from edgec.toolchain.passes.legalise.summed_products import SummedProducts
from tests.toolchain.passes.before_after import rewrite, run

X = np.ones((6, 10), np.float32)
PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "a constant": lambda x: jnp.sum(x * 1.5, 1),
    "a number for each row": lambda x: jnp.sum(x * x[:, :1], 1),
    "an outer product": lambda x: jnp.sum(x[0][:, None] * x[1][None, :], 1),
    "all of it": lambda x: jnp.sum(x * x * 1.5),
    "negatives": lambda x: jnp.sum(-jnp.exp(x), 1),
    "a loss": lambda x: jnp.mean(-jnp.sum(x * jax.nn.log_softmax(x), -1)),
    "halves": lambda x: jnp.sum(x.astype(jnp.float16) * 1.5, 1),
    "integers": lambda x: jnp.sum(x.astype(jnp.int32) * 3, 1),
    "in another shape": lambda x: jnp.sum((x * 1.5).reshape(5, 12), 1),
}


@pytest.mark.sweep(fast=4)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_sum_has_a_module(name: str, tmp_path) -> None:
    (tmp_path / "f.mlir").write_text(jax.jit(PROGRAMS[name]).lower(X).as_text())
    module = toolchain.compile(tmp_path / "f.mlir", "cuda:sm_80")  # which may refuse it
    assert "cuda" in repr(module)


def test_what_is_summed_otherwise_stays() -> None:
    def count(function: Callable[[Any], Any]) -> int:
        return rewrite(SummedProducts(), jax.jit(function).lower(X).as_text())[0]

    assert count(lambda x: jnp.sum(x * 2.0, 1)) == 1
    assert count(lambda x: jnp.sum(x, 1)) == 0
    assert count(lambda x: jnp.sum(jnp.exp(x), 1) * 2.0) == 0


RNG = np.random.default_rng(3)
ROWS, CUBE = (RNG.normal(size=size).astype(np.float32) for size in ((6, 10), (4, 5, 6)))
ON_CPU: dict[str, tuple[Callable[[Any], Any], np.ndarray]] = {
    "a weight for each column": (lambda x: jnp.sum(x * x[0]), ROWS),
    "computed weights": (lambda x: jnp.sum(jnp.exp(x[0]) * (x - x[1])), ROWS),
    "weights as a column": (lambda x: jnp.sum(x.T * x[:, 0]), ROWS),
    "of more rows": (lambda x: jnp.sum((x * x[0]).reshape(2, 3, 10)), ROWS),
    "an axis more": (lambda x: jnp.sum((x * x[0])[None]), ROWS),
    "an axis stays": (lambda x: jnp.sum(x * x[0, 0], (1, 2)), CUBE),
    "the last stays": (lambda x: jnp.sum(x * x[:, :1, :1], (0, 1)), CUBE),
    "one stays that no factor has": (
        lambda x: jnp.sum(jnp.broadcast_to((x[0] * x[1])[:, None], (5, 3, 6)), 0),
        CUBE,
    ),
    "integers": (lambda x: jnp.sum((10 * x).astype(jnp.int32) * jnp.arange(6)[None, :]), CUBE[0]),
}


@pytest.mark.sweep(fast=4)
@pytest.mark.parametrize("name", ON_CPU)
def test_a_sum_is_right_on_a_cpu(name: str, tmp_path) -> None:
    function, x = ON_CPU[name]
    answer = run(jax.jit(function).lower(x).as_text(), tmp_path, x)
    np.testing.assert_allclose(answer, function(x), rtol=1e-4, atol=1e-4)


def test_a_cpu_keeps_products_of_whole_arrays() -> None:
    def count(function: Callable[[Any], Any], x: np.ndarray = ROWS) -> int:
        text = jax.jit(function).lower(x).as_text()
        return rewrite(SummedProducts(repeated=True), text)[0]

    assert count(lambda x: jnp.sum(x * x[0])) == 1
    assert count(lambda x: jnp.sum(x * x[0, 0], (1, 2)), CUBE) == 1
    assert count(lambda x: jnp.sum((x * x[0]).reshape(1, 6, 10))) == 1
    assert count(lambda x: jnp.sum(x * x)) == 0
    assert count(lambda x: jnp.sum(x * x[0], 1)) == 0
    assert count(lambda x: jnp.sum(x * x[:1], 0)) == 0
    assert count(lambda x: jnp.sum(x * x[:, :1])) == 0
    assert count(lambda x: jnp.sum(-x)) == 0
    assert count(lambda x: jnp.sum(x * 2.0)) == 0
