"""Sums of products and of negatives for CUDA, which the compiler refuses as they are."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edgec import toolchain
from edgec.toolchain.passes.legalise.summed_products import SummedProducts
from tests.toolchain.passes.before_after import rewrite

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
