"""Loops with values that are only tested, only returned, or returned twice, beside JAX."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from edgec import runtime, toolchain
from edgec.toolchain.passes.legalise.read_carried import ReadCarried
from tests.toolchain.passes.before_after import rewrite

X = np.arange(4, dtype=np.float32)


def only_returned(x: Any) -> Any:
    """What the last turn found, which no turn reads."""

    def step(kept: Any) -> Any:
        k, _ = kept
        return k * 2 + 1, jnp.sqrt((x * x).sum() + k)

    return lax.while_loop(lambda kept: kept[0] < 3, step, (0, x[0]))[1]


def only_tested(x: Any) -> Any:
    """Whether to go on, first in the list, and a norm to return."""

    def step(kept: Any) -> Any:
        _, k, v, _ = kept
        norm = jnp.sqrt((v * v).sum())
        return norm < 50, k + 1, v * 1.5, norm

    return lax.while_loop(lambda s: s[0] & (s[1] < 9), step, (True, 0, x, jnp.float32(0)))[2:]


def returned_twice(x: Any) -> Any:
    def step(kept: Any) -> Any:
        k, a, b = kept
        both = jnp.tanh(a + b)
        return k * 2 + 1, both, both

    return lax.while_loop(lambda kept: kept[0] < 20, step, (0, x, x * 2))[1:]


def within(x: Any) -> Any:
    """A loop whose turns have such a loop."""

    def step(kept: Any) -> Any:
        _, k, v, norm = kept

        def half(inner: Any) -> Any:
            return inner[0] * 0.5, jnp.sqrt((v * v).sum())

        norm = lax.while_loop(lambda inner: inner[0] > 0.1, half, (v[1], norm))[1]
        return norm < 30, k + 1, v * 1.5, norm

    return lax.while_loop(lambda s: s[0], step, (True, 0, x, jnp.float32(0)))[2:]


@pytest.mark.parametrize("function", [only_returned, only_tested, returned_twice, within])
def test_loops_answer_as_jax_does(function: Callable[[Any], Any], tmp_path: Path) -> None:
    text = jax.jit(function).lower(X).as_text()
    count, after = rewrite(ReadCarried(), text)
    assert count >= 1
    assert after.count("optimization_barrier") >= 1
    (tmp_path / "case.mlir").write_text(text)
    with runtime.load(toolchain.compile(tmp_path / "case.mlir", "cpu")) as loaded:
        found, want = (jax.tree.leaves(run(X)) for run in (loaded.main, jax.jit(function)))
    for one, other in zip(found, want, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_what_is_read_or_handed_on_stays() -> None:
    def function(x: Any, y: Any) -> Any:
        return lax.while_loop(lambda s: s[0] < 9, lambda s: (s[0] + s[1][0], s[1]), (x, y))

    text = jax.jit(function).lower(np.float32(0), X).as_text()
    assert rewrite(ReadCarried(), text)[0] == 0
