"""Sines, cosines and tangents of arguments far from zero, beside NumPy's in 64 bits."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import export as jax_export

from edgec import runtime, toolchain
from edgec.toolchain.passes.legalise.far_angles import FarAngles
from tests.toolchain.passes.before_after import rewrite

RNG = np.random.default_rng(7)
SIZES = 10.0 ** RNG.uniform(-3, 38, 4000)
CORNERS = (0, np.pi, -np.pi / 2, 3, 22, 710, 2.0**31, 2.0**32, 2.0**64, 3.4e38, 1e-45)
X = np.concatenate([SIZES * RNG.choice([-1, 1], SIZES.size), CORNERS]).astype(np.float32)
FUNCTIONS = {"sin": np.sin, "cos": np.cos, "tan": np.tan}


def answers(function: Callable[[Any], Any], x: np.ndarray, target: str, folder: Path) -> np.ndarray:
    (folder / "f.mlir").write_text(jax.jit(function).lower(x).as_text())
    with runtime.load(toolchain.compile(folder / "f.mlir", target)) as loaded:
        return np.asarray(loaded.main(x))


@pytest.mark.parametrize("target", ["cpu", "vulkan"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_any_number_of_32_bits(name: str, target: str, tmp_path) -> None:
    expected = FUNCTIONS[name](X.astype(np.float64))
    actual = answers(getattr(jnp, name), X, target, tmp_path)
    wrong = np.abs(actual - expected)
    if name == "tan":  # it grows without bounds: its angle tells how far it is off
        wrong = np.abs(np.sin(np.arctan(actual.astype(np.float64)) - np.arctan(expected)))
    assert wrong.max() < 4e-7, f"{X[wrong.argmax()]}: {actual[wrong.argmax()]}"


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
def test_any_number_of_16_bits(kind: type, tmp_path) -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(kind)
    x = x[np.isfinite(x.astype(np.float32))]
    step = float(ml_dtypes.finfo(kind).eps)
    for name in ("sin", "cos"):
        expected = FUNCTIONS[name](x.astype(np.float64))
        actual = answers(getattr(jnp, name), x, "cpu", tmp_path).astype(np.float64)
        assert np.abs(actual - expected).max() < step / 2


@pytest.mark.parametrize("target", ["cpu", "vulkan"])
def test_what_has_no_angle_has_no_sine(target: str, tmp_path) -> None:
    x = np.array([np.inf, -np.inf, np.nan], np.float32)
    for function in (jnp.sin, jnp.cos, jnp.tan):
        assert np.isnan(answers(function, x, target, tmp_path)).all()


@pytest.mark.parametrize("target", ["cpu", "vulkan"])
def test_small_angles_of_both_signs_are_their_own_sines(target: str, tmp_path) -> None:
    x = np.array([-1e-3, -1e-6, -1e-9, -1e-30, 1e-30, 1e-9, 1e-6, 1e-3], np.float32)
    for function in (jnp.sin, jnp.tan):
        expected = getattr(np, function.__name__)(x.astype(np.float64))
        actual = answers(function, x, target, tmp_path)
        np.testing.assert_allclose(actual, expected, rtol=1e-6)
    zeros = answers(jnp.sin, np.array([0.0, -0.0], np.float32), target, tmp_path)
    np.testing.assert_array_equal(np.signbit(zeros), [False, True])


def test_sizes_that_only_a_call_knows(tmp_path) -> None:
    shape = jax_export.symbolic_shape("n, 3")
    exported = jax_export.export(jax.jit(jnp.sin))(jax.ShapeDtypeStruct(shape, np.float32))
    (tmp_path / "f.mlir").write_text(exported.mlir_module())
    with runtime.load(toolchain.compile(tmp_path / "f.mlir", "cpu")) as loaded:
        for rows in (1, 50):
            x = X[: 3 * rows].reshape(rows, 3)
            np.testing.assert_allclose(loaded.main(x), np.sin(x.astype(np.float64)), atol=4e-7)


@pytest.mark.parametrize("name", ["exp", "expm1", "sin", "cos", "tan", "tanh"])
def test_angles_of_complex_numbers(name: str, tmp_path) -> None:
    near, far = RNG.uniform(0.5, 2, 200), RNG.choice([-1, 1], 200) * 10.0 ** RNG.uniform(0, 30, 200)
    x = far + 1j * near if name in FUNCTIONS else near + 1j * far
    x = x.astype(np.complex64)
    expected = getattr(np, name)(x.astype(np.complex128))
    actual = answers(getattr(jnp, name), x, "cpu", tmp_path)
    assert np.abs(actual - expected).max() < 4e-6


def test_an_angle_alone_is_turned() -> None:
    assert rewrite(FarAngles(), jax.jit(jnp.cos).lower(X).as_text())[0] == 1
    assert rewrite(FarAngles(), jax.jit(jnp.tanh).lower(X).as_text())[0] == 0
    assert rewrite(FarAngles(), jax.jit(jnp.tanh).lower(X + 1j).as_text())[0] == 1
