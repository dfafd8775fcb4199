"""Attention of a few queries over a cache, against its formula in NumPy and 64 bits."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edgec.exporters import export
from edgec.runtime import load
from edgec.toolchain import CompileOptions, compile
from tests.toolchain.by_lane import BY_LANE

_HEADS = 2


def _given(queries: int, keys: int, width: int, depth: int) -> list[np.ndarray]:
    random = np.random.default_rng((queries, keys, width, depth))
    sizes = ((queries, width), (keys, width), (keys, depth))
    return [random.standard_normal((_HEADS, *size)).astype(np.float32) for size in sizes]


def _attention(q: Any, k: Any, v: Any, mask: Any) -> Any:
    scores = jnp.einsum("hqd,hkd->hqk", q, k) * 0.3
    scores = jnp.where(mask, scores, -jnp.inf)
    return jnp.einsum("hqk,hkd->hqd", jax.nn.softmax(scores), v)


def _wanted(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray) -> np.ndarray:
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    with np.errstate(all="ignore"):
        scores = np.where(mask, np.einsum("hqd,hkd->hqk", q, k) * 0.3, -np.inf)
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        return np.asarray(np.einsum("hqk,hkd->hqd", powers / powers.sum(-1, keepdims=True), v))


def _masks(queries: int, keys: int) -> dict[str, np.ndarray]:
    """What a text leaves of a cache, and what it does not: which keys each query sees."""
    at = np.arange(keys)
    random = np.random.default_rng(keys)
    rows = {
        "the beginning": at < keys // 3,
        "one key": at == keys - 2,
        "the end": at > keys - 5,
        "all": at >= 0,
        "here and there": random.random(keys) > 0.9,
    }
    masks = {name: np.tile(row, (queries, 1)) for name, row in rows.items()}
    return masks | {"each its own": at <= np.linspace(3, keys - 1, queries).astype(int)[:, None]}


def _call(target: Any, folder: Any, given: list[np.ndarray], masks: list[np.ndarray]) -> list[Any]:
    module = compile(
        export(_attention, (*given, masks[0])),
        target,
        CompileOptions(cache=False, output=folder / "m.vmfb"),
    )
    code = (folder / "m.vmfb").read_bytes()
    assert b"edgec_attention" in code  # the kernel took it,
    assert b"edgec_keys" not in code  # and not the one that packs all keys
    with load(module) as loaded:
        return [np.asarray(loaded.main(*given, mask)) for mask in masks]


@pytest.mark.sweep(fast=4)
@pytest.mark.parametrize(
    ("sizes", "target"),
    [
        ((1, 1100, 64, 64), "cpu"),
        ((3, 530, 32, 64), "cpu"),
        ((7, 700, 16, 48), "cpu:x86-64-v3"),
        ((4, 1024, 128, 128), "cpu:x86-64-v4"),
        ((2, 77, 8, 24), BY_LANE),
        ((15, 130, 64, 32), "cpu"),
        ((5, 600, 256, 256), "cpu"),
        ((3, 530, 32, 64), "cpu:x86-64"),
    ],
    ids=str,
)
def test_keys_that_a_mask_leaves_count_and_no_others(sizes: Any, target: Any, tmp_path: Any):
    given, masks = _given(*sizes), _masks(*sizes[:2])
    answers = _call(target, tmp_path, given, list(masks.values()))
    for (name, mask), answer in zip(masks.items(), answers, strict=True):
        np.testing.assert_allclose(answer, _wanted(*given, mask), 1e-4, 1e-5, err_msg=name)


def test_no_key_and_what_is_no_number_are_answered_as_the_formula_has_it(tmp_path: Any):
    q, k, v = _given(2, 1100, 32, 32)
    k[0, 3, 5] = np.nan
    k[1, 1050] = 1e30  # its scores are infinite
    v[0, 600, 2] = np.inf
    at = np.arange(1100)
    masks = [
        np.stack([at < 0, at < 40]),  # nothing at all; NaN among the keys
        np.stack([at > 1040, (at > 590) & (at < 650)]),
        np.stack([at == 3, (at == 3) | (at == 900)]),
        np.stack([(at > 10) & (at < 600), (at > 10) & (at < 500)]),
    ]
    for mask, answer in zip(masks, _call("cpu", tmp_path, [q, k, v], masks), strict=True):
        wanted = _wanted(q, k, v, mask).astype(np.float32)
        np.testing.assert_array_equal(np.isnan(answer), np.isnan(wanted))
        np.testing.assert_allclose(answer, wanted, 1e-4, 1e-5)
