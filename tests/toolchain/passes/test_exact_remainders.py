"""Remainders of floats beside C's `fmod`, as NumPy calls it."""

from pathlib import Path

import jax
import ml_dtypes
import numpy as np
import pytest
from jax import export as jax_export
from jax import lax

from edgec import runtime, toolchain
from edgec.toolchain.passes.legalise.exact_remainders import ExactRemainders
from tests.toolchain.passes.before_after import rewrite

RNG = np.random.default_rng(11)


def remainders(x: np.ndarray, y: np.ndarray, target: str, folder: Path) -> np.ndarray:
    (folder / "f.mlir").write_text(jax.jit(lax.rem).lower(x, y).as_text())
    with runtime.load(toolchain.compile(folder / "f.mlir", target)) as loaded:
        return np.asarray(loaded.main(x, y))


def test_any_two_numbers(tmp_path) -> None:
    x, y = 10.0 ** RNG.uniform(-37, 38, (2, 4000)) * RNG.choice([-1, 1], (2, 4000))
    x[:1000] = y[:1000] * RNG.uniform(-1e6, 1e6, 1000)
    x[1000:2000] = y[1000:2000] * RNG.integers(-1000, 1000, 1000)
    x, y = np.clip([x, y], -3e38, 3e38).astype(np.float32)
    actual = remainders(x, y, "vulkan", tmp_path)
    expected = np.fmod(x, y)
    is_normal = (np.abs(expected) > np.finfo(np.float32).tiny) | (expected == 0)
    np.testing.assert_array_equal(actual[is_normal], expected[is_normal])


def test_corners(tmp_path) -> None:
    values = [0, -0.0, 1, -1, 0.1, 3, np.inf, -np.inf, np.nan, 3.4e38, -7.5, 2.0**24]
    x, y = (each.ravel() for each in np.meshgrid(*[np.array(values, np.float32)] * 2))
    actual = remainders(x, y, "vulkan", tmp_path)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(actual, np.fmod(x, y))


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
def test_numbers_of_16_bits(kind: type, tmp_path) -> None:
    x, y = RNG.uniform(-3e4, 3e4, 2000).astype(kind), RNG.uniform(0.1, 3, 2000).astype(kind)
    actual = remainders(x, y, "vulkan", tmp_path).astype(np.float32)
    expected = np.fmod(x.astype(np.float32), y.astype(np.float32))
    np.testing.assert_array_equal(actual, expected)


def test_sizes_that_only_a_call_knows(tmp_path) -> None:
    (size,) = jax_export.symbolic_shape("n")
    kinds = [jax.ShapeDtypeStruct((size,), np.float32)] * 2
    (tmp_path / "f.mlir").write_text(jax_export.export(jax.jit(lax.rem))(*kinds).mlir_module())
    with runtime.load(toolchain.compile(tmp_path / "f.mlir", "vulkan")) as loaded:
        for size in (1, 30):
            x, y = RNG.uniform(1, 1e5, (2, size)).astype(np.float32)
            np.testing.assert_array_equal(loaded.main(x, y / 7), np.fmod(x, y / 7))


def test_a_remainder_of_floats_alone_is_divided_out() -> None:
    for kind, times in ((np.float32, 1), (np.int32, 0)):
        x = np.ones(3, kind)
        assert rewrite(ExactRemainders(), jax.jit(lax.rem).lower(x, x).as_text())[0] == times
