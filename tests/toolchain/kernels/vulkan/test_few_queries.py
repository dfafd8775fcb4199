"""Attention of few queries over many keys, beside the same function by JAX."""

import re
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edgec import runtime, toolchain
from edgec.exporters import export
from edgec.toolchain import CompileOptions
from edgec.toolchain.kernels.vulkan.glsl_compiler import tools
from tests.toolchain.kernels.cuda.block_cases import seen, unmasked


def lone(q: Any, k: Any, v: Any) -> Any:
    """A query for each of nine heads, three of which share keys."""
    k, v = (jnp.repeat(each, 3, axis=0) for each in (k, v))
    return jnp.einsum("hk,hkd->hd", jax.nn.softmax(jnp.einsum("hd,hkd->hk", q, k) / 8), v)


def before(q: Any, k: Any, v: Any, last: Any, hidden: float = -jnp.inf) -> Any:
    """Queries that see the keys before a place; from 0 none, as far as the compiler knows some."""
    scores = jnp.einsum("hgd,hkd->hgk", q, k) / 8
    scores = jnp.where(jnp.arange(k.shape[1]) < last[0], scores, hidden)
    return jnp.einsum("hgk,hkd->hgd", jax.nn.softmax(scores), v)


def finite(q: Any, k: Any, v: Any, last: Any) -> Any:
    return before(q, k, v, last, -3e38)


def upto(q: Any, k: Any, v: Any, last: Any) -> Any:
    """Queries of one place each, which see what is before them."""
    hidden = jnp.arange(k.shape[1]) > last[0] + jnp.arange(q.shape[1])[:, None]
    scores = jnp.where(hidden, -1e9, jnp.einsum("hqd,hkd->hqk", q, k) / 8)
    return jnp.einsum("hqk,hkd->hqd", jax.nn.softmax(scores), v)


CASES = {
    "keys that are seen": (seen, ((2, 3, 64), (2, 300, 64), (2, 300, 64))),
    "some are seen": (before, ((2, 3, 64), (2, 300, 64), (2, 300, 64)), 70),
    "some are seen, finite": (finite, ((2, 3, 64), (2, 300, 64), (2, 300, 64)), 1),
    "none is seen": (before, ((2, 3, 64), (2, 300, 64), (2, 300, 64)), 0),
    "none is seen, finite": (finite, ((2, 3, 64), (2, 300, 64), (2, 300, 64)), 0),
    "a bias": (unmasked, ((4, 48), (4, 300, 48), (4, 300, 40), (4, 300))),
    "heads that share keys": (lone, ((9, 64), (3, 1280, 64), (3, 1280, 64))),
    "narrow": (seen, ((2, 4, 32), (2, 260, 32), (2, 260, 24))),
    "narrow, eight": (seen, ((2, 8, 20), (2, 260, 20), (2, 260, 32))),
    "wide": (seen, ((1, 5, 128), (1, 333, 128), (1, 333, 96))),
    "wide, few": (lone, ((9, 100), (3, 517, 100), (3, 517, 128))),
    "few keys": (seen, ((2, 3, 64), (2, 70, 64), (2, 70, 64))),
    "many keys": (seen, ((1, 2, 16), (1, 9000, 16), (1, 9000, 16))),
    "masks by query": (upto, ((2, 5, 64), (2, 400, 64), (2, 400, 64)), 120),
}


@pytest.mark.sweep(fast=3)
@pytest.mark.vulkan
@pytest.mark.skipif(tools() is None, reason="its kernel needs edgec[vulkan]")
@pytest.mark.parametrize(
    ("target", "case"),
    [
        *(("vulkan:android", case) for case in CASES),
        *(("vulkan:nvidia-turing", case) for case in ["some are seen", "a bias"]),
    ],
)
def test_keys_are_split_and_put_together(target: str, case: str, tmp_path: Path) -> None:
    function, shapes, *last = CASES[case]
    rng = np.random.default_rng(len(case))
    given = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    given += [np.array(last, np.int32)] if last else []
    path = tmp_path / "few.vmfb"
    program = export(function, tuple(given))
    made = toolchain.compile(program, target, CompileOptions(output=path))
    assert made.facts.kernels is not None
    assert made.facts.kernels.own_flops > 0.9 * made.facts.kernels.flops
    names = set(re.findall(rb"edgec_(attention_[a-z0-9_]+?)_[0-9a-f]{8}", path.read_bytes()))
    assert any(b"_parts_" in name for name in names) == (given[1].shape[1] >= 128)
    with jax.default_matmul_precision("highest"):
        wanted = jax.tree.leaves(function(*given))
    with runtime.load(path, device="edgert://vulkan") as loaded:
        found = jax.tree.leaves(loaded.main(*given))
    for got, array in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, array, atol=2e-5)


KEPT = {
    "some are seen": (before, ((2, 3, 64), (2, 300, 64), (2, 300, 64)), 70),
    "none is seen, finite": (finite, ((2, 3, 64), (2, 300, 64), (2, 300, 64)), 0),
    "few keys": (seen, ((2, 3, 64), (2, 70, 64), (2, 70, 64))),
    "in no fours": (seen, ((2, 3, 30), (2, 300, 30), (2, 300, 64))),
}


@pytest.mark.sweep(fast=2)
@pytest.mark.vulkan
@pytest.mark.skipif(tools() is None, reason="its kernel needs edgec[vulkan]")
@pytest.mark.parametrize("case", KEPT)
def test_keys_and_values_that_are_kept_in_halves_are_read_so(case: str, tmp_path: Path) -> None:
    function, shapes, *last = KEPT[case]

    def widened(q: Any, k: Any, v: Any, *more: Any) -> Any:
        return function(q, k.astype(jnp.float32), v.astype(jnp.float32), *more)

    rng = np.random.default_rng(len(case))
    given = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    given[1:] = [each.astype(np.float16) for each in given[1:]]
    given += [np.array(last, np.int32)] if last else []
    path = tmp_path / "kept.vmfb"
    toolchain.compile(export(widened, tuple(given)), "vulkan:android", CompileOptions(output=path))
    assert (b"_kept_f32" in path.read_bytes()) == (case != "in no fours")
    with jax.default_matmul_precision("highest"):
        wanted = widened(*given)
    with runtime.load(path, device="edgert://vulkan") as loaded:
        np.testing.assert_allclose(loaded.main(*given), wanted, atol=2e-5)
