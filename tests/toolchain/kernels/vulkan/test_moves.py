"""Slices at places that the device computes, and rows that are turned, beside JAX."""

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

F32, F16, I32 = np.float32, np.float16, np.int32


def summed(x: Any) -> Any:
    """A product, so that there are kernels at all."""
    return x.reshape(1, -1)[:, :4].astype(jnp.float32) @ jnp.ones((4, 4))


def put(keys: Any, values: Any, key: Any, value: Any, at: Any) -> Any:
    place = at[0] + 1
    write = jax.lax.dynamic_update_slice_in_dim
    keys, values = (write(a, b, place, 1) for a, b in ((keys, key), (values, value)))
    return keys, values, summed(keys)


def put_into_zeros(key: Any, value: Any, at: Any) -> Any:
    """Two arrays that are one value until something is put into them."""
    keys, values = (jnp.zeros((2, 40, 16), key.dtype) for _ in range(2))
    return put(keys, values, key, value, at)


def put_into_equals(x: Any, key: Any, value: Any, at: Any) -> Any:
    """Two arrays that are found to be equal only when more is known of them."""
    return put(jnp.sin(x), jnp.sin(x + 0), key, value, at)


def put_apart(x: Any, part: Any, at: Any) -> Any:
    """At three places that only the device knows, and one that is known."""
    x = jax.lax.dynamic_update_slice(x, part, (at[0], 1, at[0] // 2, at[0] * 2, 0))
    return x, summed(x)


def turned(x: Any, angle: Any) -> Any:
    """As `transformers` turns rows."""
    a, b = jnp.split(x, 2, axis=-1)
    cosine, sine = (jnp.concatenate([f(angle)] * 2, -1).astype(x.dtype) for f in (jnp.cos, jnp.sin))
    return x * cosine + jnp.concatenate([-b, a], -1) * sine


def put_turned(keys: Any, values: Any, key: Any, value: Any, query: Any, at: Any) -> Any:
    angle = at.astype(jnp.float32) * jnp.linspace(0.1, 1, query.shape[-1] // 2)
    query = turned(query, angle)
    write = jax.lax.dynamic_update_slice_in_dim
    keys = write(keys, turned(key, angle), at[0], 1)
    return keys, write(values, value, at[0], 1), query, summed(query)


def take(x: Any, at: Any) -> Any:
    part = jax.lax.dynamic_slice(x, (at[0] - 3, 0, at[0] * 9), (2, 9, 3))
    return part, summed(part.astype(jnp.float32))


def take_row(x: Any, at: Any) -> Any:
    row = jnp.take(x, at[0], axis=1, mode="clip")
    return row, summed(row)


def halves(x: Any, angle: Any) -> Any:
    """As JAX's models turn rows."""
    a, b = jnp.split(x, 2, axis=-1)
    rows = jnp.concatenate(
        [a * jnp.cos(angle) - b * jnp.sin(angle), b * jnp.cos(angle) + a * jnp.sin(angle)], -1
    )
    return rows, summed(rows)


CACHE = ((2, 40, 16), (2, 40, 16), (2, 1, 16), (2, 1, 16))
CASES = {
    "put": (put, CACHE, (F32,) * 4, 17, 1),
    "put, beyond the end": (put, CACHE, (F32,) * 4, 99, 1),
    "put, before the beginning": (put, CACHE, (F32,) * 4, -7, 1),
    "put into zeros": (put_into_zeros, CACHE[2:], (F32,) * 2, 17, 1),
    "put into equals": (put_into_equals, CACHE[1:], (F32,) * 3, 17, 1),
    "put apart": (put_apart, ((6, 5, 7, 8, 4), (2, 3, 4, 5, 4)), (F32,) * 2, 3, 1),
    "put halves": (put, CACHE, (F16,) * 4, 5, 1),
    "put integers": (put, CACHE, (I32,) * 4, 5, 1),
    "put turned": (put_turned, (*CACHE, (6, 1, 16)), (F32,) * 5, 23, 2),
    "put turned halves": (put_turned, (*CACHE, (6, 1, 16)), (F16,) * 5, 23, 2),
    "take": (take, ((5, 9, 30),), (F32,), 2, 1),
    "take integers": (take, ((5, 9, 30),), (I32,), 4, 1),
    "take a row": (take_row, ((3, 90, 16),), (F32,), 50, 1),
    "turned in halves": (halves, ((1, 9, 30, 16), (1, 1, 30, 8)), (F32,) * 2, None, 1),
}


@pytest.mark.sweep(fast=4)
@pytest.mark.vulkan
@pytest.mark.skipif(tools() is None, reason="its kernel needs edgec[vulkan]")
@pytest.mark.parametrize(
    ("target", "case"),
    [
        *(("vulkan:android", case) for case in CASES),
        *(("vulkan:nvidia-turing", case) for case in ("put turned", "put turned halves")),
    ],
)
def test_what_is_moved_is_what_jax_moves(target: str, case: str, tmp_path: Path) -> None:
    function, shapes, dtypes, at, most = CASES[case]
    rng = np.random.default_rng(len(case))
    given = [
        (rng.standard_normal(shape) * 100 if dtype == I32 else rng.standard_normal(shape)).astype(
            dtype
        )
        for shape, dtype in zip(shapes, dtypes, strict=True)
    ]
    given += [] if at is None else [np.array([at], np.int32)]
    path = tmp_path / "moved.vmfb"
    toolchain.compile(export(function, tuple(given)), target, CompileOptions(output=path))
    names = set(re.findall(rb"edgec_((?:put|take)[a-z0-9_]*?)_[0-9a-f]{8}", path.read_bytes()))
    assert 1 <= len(names) <= most
    wanted = jax.tree.leaves(function(*given))
    with runtime.load(path, device="edgert://vulkan") as loaded:
        for _ in range(2):
            found = jax.tree.leaves(loaded.main(*given))
    tolerance = 2e-3 if F16 in dtypes else 1e-5
    for got, array in zip(found, wanted, strict=True):
        np.testing.assert_allclose(
            np.asarray(got, np.float32), np.asarray(array, np.float32), tolerance, tolerance
        )


@pytest.mark.vulkan
def test_a_row_at_a_known_place_is_left_to_the_compiler(tmp_path: Path) -> None:
    x = np.random.default_rng(1).standard_normal((9, 3)).astype(F32)

    def percentile(x: Any) -> Any:
        return jnp.percentile(x, 30.0, axis=0)

    path = tmp_path / "percentile.vmfb"
    toolchain.compile(export(percentile, (x,)), "vulkan:android", CompileOptions(output=path))
    with runtime.load(path, device="edgert://vulkan") as loaded:
        np.testing.assert_allclose(loaded.main(x), np.percentile(x, 30, axis=0), 1e-5)
