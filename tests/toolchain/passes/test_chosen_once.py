"""Selects and masks by one truth: folded, and right where the compiler reads another result."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import edgec.runtime as er
from edgec import toolchain
from edgec.exporters import export
from edgec.toolchain.passes.legalise.chosen_once import ChosenOnce
from tests.toolchain.passes.before_after import rewrite

MASKED_TWICE = """func.func public @main(%x: tensor<5xf32>, %m: tensor<5x5xf32>, %c: tensor<5xi1>)
    -> (tensor<5xf32>, tensor<5xf32>, tensor<5xf32>) {
  %z = stablehlo.constant dense<0.0> : tensor<5xf32>
  %y = stablehlo.exponential %x : tensor<5xf32>
  %s = stablehlo.sine %y : tensor<5xf32>
  %a = stablehlo.select %c, %s, %z : tensor<5xi1>, tensor<5xf32>
  %b = stablehlo.select %c, %a, %z : tensor<5xi1>, tensor<5xf32>
  %0 = stablehlo.dot_general %m, %y, contracting_dims = [1] x [0]
    : (tensor<5x5xf32>, tensor<5xf32>) -> tensor<5xf32>
  %1 = stablehlo.dot_general %m, %a, contracting_dims = [1] x [0]
    : (tensor<5x5xf32>, tensor<5xf32>) -> tensor<5xf32>
  %2 = stablehlo.dot_general %m, %b, contracting_dims = [1] x [0]
    : (tensor<5x5xf32>, tensor<5xf32>) -> tensor<5xf32>
  return %0, %1, %2 : tensor<5xf32>, tensor<5xf32>, tensor<5xf32>
}"""
TARGETS = ["cpu", pytest.param("vulkan", marks=pytest.mark.vulkan)]


def answers(x: np.ndarray, m: np.ndarray, c: np.ndarray) -> list[np.ndarray]:
    """What `MASKED_TWICE` gives."""
    y = np.exp(x)
    masked = np.where(c, np.sin(y), 0)
    return [m @ each for each in (y, masked, masked)]


def folded(body: str) -> tuple[int, str]:
    """Lines of a function of %x, %y (floats), %i, %j (integers) and %p, %q (truths)."""
    arguments = ", ".join(
        f"%{name}: tensor<4x{kind}>"
        for kind, names in (("f32", "xy"), ("i32", "ij"), ("i1", "pq"))
        for name in names
    )
    return rewrite(ChosenOnce(), f"func.func @main({arguments}) -> tensor<4xf32> {{\n{body}\n}}")


S = "tensor<4xi1>, tensor<4xf32>"


def test_a_choice_of_a_choice_takes_its_branch() -> None:
    count, after = folded(f"""%0 = stablehlo.select %p, %x, %y : {S}
      %1 = stablehlo.select %p, %y, %0 : {S}
      %2 = stablehlo.select %p, %1, %x : {S}
      return %2 : tensor<4xf32>""")
    assert count > 0
    assert after.count("stablehlo.select") == 1
    assert "stablehlo.select %arg4, %arg1, %arg0" in after


def test_the_contrary_takes_the_other_branch() -> None:
    _, after = folded(f"""%n = stablehlo.not %p : tensor<4xi1>
      %0 = stablehlo.select %p, %x, %y : {S}
      %1 = stablehlo.select %n, %0, %x : {S}
      return %1 : tensor<4xf32>""")
    assert "stablehlo.select %0, %arg1, %arg0" in after


def test_choices_by_others_stay() -> None:
    count, after = folded(f"""%0 = stablehlo.select %q, %x, %y : {S}
      %1 = stablehlo.select %p, %0, %x : {S}
      return %1 : tensor<4xf32>""")
    assert count == 0 and after.count("stablehlo.select") == 2


def test_predicates_computed_twice_are_one() -> None:
    count, after = folded(f"""%0 = stablehlo.compare LT, %x, %y
        : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
      %1 = stablehlo.compare LT, %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
      %2 = stablehlo.select %0, %x, %y : {S}
      %3 = stablehlo.select %1, %2, %y : {S}
      return %3 : tensor<4xf32>""")
    assert count == 1 and after.count("stablehlo.select") == 1


@pytest.mark.parametrize("name", ["and", "or"])
def test_bits_are_masked_once(name: str) -> None:
    count, after = folded(f"""%0 = stablehlo.{name} %i, %j : tensor<4xi32>
      %1 = stablehlo.bitcast_convert %0 : (tensor<4xi32>) -> tensor<4xf32>
      %2 = stablehlo.bitcast_convert %1 : (tensor<4xf32>) -> tensor<4xi32>
      %3 = stablehlo.{name} %j, %2 : tensor<4xi32>
      %4 = stablehlo.bitcast_convert %3 : (tensor<4xi32>) -> tensor<4xf32>
      return %4 : tensor<4xf32>""")
    assert count > 0 and after.count(f"stablehlo.{name}") == 1


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_masked_twice_is_right(target: str, tmp_path: Path) -> None:
    source = tmp_path / "program.mlir"
    source.write_text(MASKED_TWICE)
    options = toolchain.CompileOptions(cache=False, check=False, output=tmp_path / "module.vmfb")
    toolchain.compile(source, target, options)
    rng = np.random.default_rng(1)
    given = (
        rng.normal(size=5).astype(np.float32),
        rng.normal(size=(5, 5)).astype(np.float32),
        np.array([True, False, True, True, False]),
    )
    with er.load(tmp_path / "module.vmfb") as module:
        for found, right in zip(module.main(*given), answers(*given), strict=True):
            np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-5)


def test_the_second_derivative_of_a_rematerialised_branch_is_jaxs(tmp_path: Path) -> None:
    def layers(w: jax.Array) -> jax.Array:
        def taken(x: jax.Array) -> jax.Array:
            for _ in range(3):
                x = jnp.sin(x @ w)
            return x

        return jax.lax.cond(w.sum() > 0, taken, lambda x: x, jnp.ones(5))

    kept = jax.checkpoint(layers, policy=jax.checkpoint_policies.checkpoint_dots)

    def slope(w: jax.Array, cotangent: jax.Array) -> jax.Array:
        return jax.vjp(jax.jit(kept), w)[1](cotangent)[0]

    def second(w: jax.Array, cotangent: jax.Array, change: jax.Array) -> tuple[jax.Array, ...]:
        return jax.vjp(slope, w, cotangent)[1](change)

    rng = np.random.default_rng(0)
    given = [np.ones((5, 5)), rng.normal(size=5), rng.normal(size=(5, 5))]
    given = [each.astype(np.float32) for each in given]
    options = toolchain.CompileOptions(cache=False, check=False, output=tmp_path / "module.vmfb")
    toolchain.compile(export(second, tuple(given)), "cpu", options)
    with er.load(tmp_path / "module.vmfb") as module:
        for found, right in zip(module.main(*given), jax.jit(second)(*given), strict=True):
            np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-5)
