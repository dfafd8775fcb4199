"""What a scatter gives put into a larger array, of which iree-compile dies for SPIR-V."""

from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edgec import runtime, toolchain
from edgec.exporters import export
from edgec.toolchain import CompileOptions
from edgec.toolchain.passes.legalise.whole_scatters import WholeScatters
from tests.toolchain.passes.before_after import rewrite

PLACES = np.array([41, 151, 87, 29, 158])
U = np.random.default_rng(0).normal(size=(5, 67)).astype(np.float32)


def scattered(u: jax.Array) -> jax.Array:
    return jnp.zeros((164, 67)).at[PLACES].add(u)


def padded(u: jax.Array) -> jax.Array:
    return jax.lax.pad(scattered(u), 1.0, ((2, 0, 0), (1, 1, 0)))


PADDED = jax.jit(padded).lower(U).as_text()
PUT = {
    "padded": padded,
    "into": lambda u: jnp.ones((200, 100)).at[3:167, 5:72].set(scattered(u)),
    "where-the-device-says": lambda u: jax.lax.dynamic_update_slice(
        jnp.ones((200, 100)), scattered(u), (u[0, 0].astype(int), 0)
    ),
    "a-part": lambda u: jnp.pad(scattered(u)[:100].T, ((2, 0), (1, 1)), constant_values=1.0),
    "and-read": lambda u: jnp.pad(scattered(u), ((2, 0), (1, 1))).sum() + scattered(u).max(),
}


@pytest.mark.vulkan
@pytest.mark.parametrize("function", PUT.values(), ids=PUT)
def test_it_is_right_where_it_is_put(function: Callable, tmp_path: Path) -> None:
    options = CompileOptions(check=False, output=tmp_path / "case.vmfb")
    module = toolchain.compile(export(jax.jit(function), (U,)), "vulkan", options)
    with runtime.load(module) as loaded:
        np.testing.assert_allclose(loaded.main(U), function(U), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("function", "count"),
    [
        (padded, 1),
        (scattered, 0),
        (lambda u: jnp.concatenate([scattered(u), u]), 0),
        (lambda u: jax.lax.pad(u, 1.0, ((2, 0, 0), (1, 1, 0))), 0),
    ],
    ids=["padded", "alone", "joined", "nothing-scattered"],
)
def test_no_other_scatter_is_kept_apart(function: Callable, count: int) -> None:
    assert rewrite(WholeScatters(), export(jax.jit(function), (U,)).bytecode)[0] == count
