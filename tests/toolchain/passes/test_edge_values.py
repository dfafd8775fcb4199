"""log(1 + x) and cube roots beside NumPy's in 64 bits, over all magnitudes of f32."""

from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export as jax_export

from edgec import runtime, toolchain
from edgec.toolchain.passes.legalise.edge_values import EdgeValues
from tests.toolchain.passes.before_after import rewrite

RNG = np.random.default_rng(3)
CORNERS = np.array([0, -0.0, 1, -1, -0.4, 0.4, 0.41, -0.9999, -2, np.inf, -np.inf, np.nan])
ANY = np.concatenate([CORNERS, 10.0 ** RNG.uniform(-37, 38, 3000) * RNG.choice([-1, 1], 3000)])
ANY = ANY.astype(np.float32)


def called(function: Callable, x: np.ndarray, target: str, folder: Path) -> np.ndarray:
    (folder / "f.mlir").write_text(jax.jit(function).lower(x).as_text())
    with runtime.load(toolchain.compile(folder / "f.mlir", target)) as loaded:
        return np.asarray(loaded.main(x))


@pytest.mark.parametrize(
    ("function", "right"),
    [(jnp.log1p, np.log1p), (jnp.arcsinh, np.arcsinh), (jnp.arctanh, np.arctanh)],
)
def test_logarithms_of_numbers_near_one_on_vulkan(function, right, tmp_path) -> None:
    actual = called(function, ANY, "vulkan", tmp_path)
    with np.errstate(all="ignore"):
        expected = right(ANY.astype(np.float64))
    np.testing.assert_allclose(actual, expected, rtol=1e-6)
    np.testing.assert_array_equal(np.signbit(actual[:2]), [False, True])


@pytest.mark.parametrize("target", ["cpu", "vulkan"])
def test_cube_roots_of_anything(target: str, tmp_path) -> None:
    actual = called(jnp.cbrt, ANY, target, tmp_path)
    np.testing.assert_allclose(actual, np.cbrt(ANY.astype(np.float64)), rtol=3e-6)


def test_half_precision_and_sizes_that_only_a_call_knows(tmp_path) -> None:
    (size,) = jax_export.symbolic_shape("n")
    kind = jax.ShapeDtypeStruct((size,), np.float16)
    program = jax_export.export(jax.jit(jnp.log1p))(kind)
    (tmp_path / "f.mlir").write_text(program.mlir_module())
    x = RNG.uniform(-0.9, 9, 300).astype(np.float16)
    with runtime.load(toolchain.compile(tmp_path / "f.mlir", "vulkan")) as loaded:
        for count in (1, 300):
            expected = np.log1p(x[:count].astype(np.float64))
            actual = np.asarray(loaded.main(x[:count])).astype(np.float64)
            np.testing.assert_allclose(actual, expected, rtol=2e-3)


def test_a_processor_keeps_its_own_logarithm() -> None:
    text = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.log_plus_one %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
    count, after = rewrite(EdgeValues(), text)
    assert (count, "log_plus_one" in after) == (0, True)
