"""Truth values that products take as numbers, beside JAX."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from iree.compiler import ir

from edgec import runtime, toolchain
from edgec.toolchain.passes.legalise.chosen_truths import ChosenTruths
from edgec.toolchain.stablehlo import parse_stablehlo

RANDOM = np.random.default_rng(6)


def masked(x: Any, mask: Any) -> Any:
    return x @ mask.astype(jnp.float32)


def moved(x: Any, mask: Any) -> Any:
    """By way of a transposition and a slice."""
    return mask.astype(jnp.float32).T[:5] @ x


def whole(x: Any, mask: Any) -> Any:
    return x.astype(jnp.int32) @ mask.astype(jnp.int32)


def added(x: Any, mask: Any) -> Any:
    """No product takes the numbers."""
    return mask.astype(jnp.float32) + x[:, None]


@pytest.mark.parametrize(("function", "changed"), [(masked, 1), (moved, 1), (whole, 1), (added, 0)])
def test_a_product_takes_chosen_numbers(
    function: Callable[[Any, Any], Any], changed: int, tmp_path: Path
) -> None:
    x = (RANDOM.standard_normal(7) * 4).astype(np.float32)
    mask = RANDOM.random((7, 6)) < 0.5
    text = str(jax.jit(function).lower(x, mask).compiler_ir("stablehlo"))
    with ir.Context() as context:
        module = parse_stablehlo(text, context)
        assert ChosenTruths().run(module) == changed
        assert ("stablehlo.convert %arg1" in str(module)) == (not changed)
        assert module.operation.verify()
    (tmp_path / "case.mlir").write_text(text)
    with runtime.load(toolchain.compile(tmp_path / "case.mlir", "cpu")) as loaded:
        np.testing.assert_allclose(loaded.main(x, mask), function(x, mask), rtol=1e-5, atol=1e-5)


def test_a_product_in_a_loop_takes_chosen_numbers(tmp_path: Path) -> None:
    """Which the loop only hands on, as JAX writes it, and which are seen once it is written out."""

    def looped(x: Any, mask: Any) -> Any:
        def step(_: Any, kept: Any) -> Any:
            x, m = kept
            return x @ m / 4, m

        return jax.lax.fori_loop(0, 3, step, (x, mask.astype(jnp.float32)))[0]

    x = RANDOM.standard_normal(6).astype(np.float32)
    mask = RANDOM.random((6, 6)) < 0.5
    (tmp_path / "case.mlir").write_text(jax.jit(looped).lower(x, mask).as_text())
    with runtime.load(toolchain.compile(tmp_path / "case.mlir", "cpu")) as loaded:
        np.testing.assert_allclose(loaded.main(x, mask), looped(x, mask), rtol=1e-4, atol=1e-5)
