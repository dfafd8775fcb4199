"""Attention of a few queries over a cache, against NumPy: what a mask hides is not even read."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edgec.exporters import Bundle, Entry, export
from edgec.runtime import load
from edgec.toolchain import CompileOptions, compile

WIDTH, HEADS, SHARED = 32, 6, 3


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32)


def masked(q, k, v, position):
    """Grouped heads; a query sees the keys up to its own position."""
    queries, keys = q.shape[1], k.shape[1]
    scores = jnp.einsum("hgqd,hkd->hgqk", q.reshape(HEADS // SHARED, SHARED, queries, WIDTH), k)
    seen = jnp.arange(keys) <= position + jnp.arange(queries)[:, None]
    scores = jnp.where(seen, scores / 5, -jnp.inf)
    return jnp.einsum("hgqk,hkd->hgqd", jax.nn.softmax(scores), v).reshape(q.shape)


def biased(q, k, v, position):
    """What is hidden has minus infinity added; a cap before."""
    keys = k.shape[1]
    scores = jnp.einsum("hgqd,hkd->hgqk", q.reshape(HEADS // SHARED, SHARED, -1, WIDTH), k)
    bias = jnp.where(jnp.arange(keys) <= position, jnp.arange(keys) / keys, -jnp.inf)
    scores = 3 * jnp.tanh(scores / 15) + bias
    return jnp.einsum("hgqk,hkd->hgqd", jax.nn.softmax(scores), v).reshape(q.shape)


def plain(q, k, v):
    return jax.nn.softmax(0.2 * (q @ k.swapaxes(-1, -2))) @ v


def expected(name: str, q, k, v, position) -> np.ndarray:
    q, k, v = (array.astype(float) for array in (q, k, v))
    result = np.zeros(q.shape)
    for head in range(len(q)):
        keys, values = (array[head * len(array) // len(q)] for array in (k, v))
        for query in range(q.shape[1]):
            count = len(keys) if name == "plain" else position + 1
            count += query if name == "masked" else 0
            scores = keys[:count] @ q[head, query] * (0.2 if name != "biased" else 1 / 15)
            if name == "biased":
                scores = 3 * np.tanh(scores) + np.arange(count) / len(keys)
            powers = np.exp(scores - scores.max())
            result[head, query] = powers @ values[:count] / powers.sum()
    return result


def inputs(queries: int, keys: int, heads: int):
    return numbers(HEADS, queries, WIDTH), numbers(heads, keys, WIDTH), numbers(heads, keys, WIDTH)


CASES = {
    # What, queries, keys: whole blocks of keys, and a last one that is none.
    "masked_1": (masked, 1, 64),
    "masked_3": (masked, 3, 83),
    "biased_1": (biased, 1, 83),
    "plain_2": (plain, 2, 19),
}


@pytest.fixture(
    scope="module",
    params=["cpu", pytest.param("cpu:x86-64-v3", marks=pytest.mark.slow), "cpu:x86-64"],
)
def module(request, tmp_path_factory):
    entries = []
    for name, (function, queries, keys) in CASES.items():
        shared = function is not plain
        given = inputs(queries, keys, HEADS // SHARED if shared else HEADS)
        if shared:
            given = (*given, np.int32(0))
        entries.append(Entry(function, given, name=name))
    output = tmp_path_factory.mktemp("few") / "few.vmfb"
    options = CompileOptions(cache=False, output=output, validate=True)
    compiled = compile(export(Bundle(tuple(entries))), request.param, options)
    with load(compiled) as loaded:
        yield loaded


@pytest.mark.sweep(fast=3)
@pytest.mark.parametrize("name", CASES)
def test_what_is_hidden_is_not_read_and_the_rest_is_what_numpy_works_out(module, name):
    function, queries, keys = CASES[name]
    if function is plain:
        given = inputs(queries, keys, HEADS)
        np.testing.assert_allclose(module[name](*given), expected(name[:5], *given, 0), 1e-4, 1e-5)
        return
    for position in (0, 15, 16, 37, keys - queries):
        q, k, v = inputs(queries, keys, HEADS // SHARED)
        # A whole block further on, whatever its size, may hold anything.
        k[:, position + queries + 16 :] = v[:, position + queries + 16 :] = np.nan
        answer = module[name](q, k, v, np.int32(position))
        wanted = expected(name[:-2], q, k, v, position)
        np.testing.assert_allclose(answer, wanted, 1e-4, 1e-5)
