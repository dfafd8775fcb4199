"""Sorts of many elements are NumPy's and JAX's, and quick, on every target."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edgec import exporters, runtime, toolchain
from edgec.toolchain.passes.legalise.sort_networks import SortNetworks
from tests.toolchain.passes.before_after import rewrite

RANDOM = np.random.default_rng(3)
FLOATS = RANDOM.normal(size=(3, 300)).astype(np.float32)
EDGES = FLOATS.copy()
EDGES[0, ::7], EDGES[1, ::5], EDGES[1, 1::5] = np.nan, 0.0, -0.0
EDGES[2, 3], EDGES[2, 9] = np.inf, -np.inf
TIES = RANDOM.integers(-5, 5, (3, 300)).astype(np.int32)
BYTES = RANDOM.integers(0, 255, (300, 4)).astype(np.uint8)
TRUTHS = RANDOM.integers(0, 2, (2, 300)).astype(bool)

CASES: dict[str, tuple[Callable[[Any], Any], np.ndarray]] = {
    "numbers that are none": (lambda x: jnp.sort(x, -1), EDGES),
    "places of them": (lambda x: jnp.argsort(x, -1), EDGES),
    "downwards": (lambda x: jnp.sort(x, -1, descending=True), EDGES),
    "places of ties": (lambda x: jnp.argsort(x, -1), TIES),
    "places of truths": (lambda x: jnp.argsort(x, 1), TRUTHS),
    "first axis": (lambda x: jnp.sort(x, 0), BYTES),
    "axis between": (lambda x: jnp.argsort(x.reshape(3, 100, 3), 1), TIES),
    "two keys": (lambda x: jax.lax.sort((x, x * x, -x), dimension=1, num_keys=2), TIES),
    "largest": (lambda x: jax.lax.top_k(x, 7), EDGES),
    "largest of ties": (lambda x: jax.lax.top_k(x, 290), TIES),
    "largest bytes": (lambda x: jax.lax.top_k(x.T, 9), BYTES),
    "in a loop": (lambda x: jax.lax.fori_loop(0, 3, lambda _, v: jnp.sort(-v, -1), x), FLOATS),
    "in a branch": (
        lambda x: jax.lax.cond(x[0, 0] > 0, lambda v: jnp.sort(v, 1), lambda v: v * 2, x),
        FLOATS,
    ),
}


def all_of_them(*inputs: Any) -> list[Any]:
    return [function(x) for (function, _), x in zip(CASES.values(), inputs, strict=True)]


@pytest.mark.parametrize("target", ["cpu", pytest.param("vulkan", marks=pytest.mark.vulkan)])
def test_they_are_those_of_jax(target: str, tmp_path: Path) -> None:
    inputs = [x for _, x in CASES.values()]
    options = toolchain.CompileOptions(output=tmp_path / "all.vmfb", check=False)
    toolchain.compile(exporters.export(all_of_them, inputs), target, options)
    with runtime.load(options.output) as module:
        found = iter([each.numpy() for each in module["main"].call_flat(inputs)])
    for case, (function, x) in CASES.items():
        for expected in jax.tree.leaves(function(x)):
            np.testing.assert_array_equal(next(found), expected, err_msg=case)


SORT = """
func.func @main(%x: tensor<{count}xf32>) -> tensor<{count}xf32> {{
  %y = "stablehlo.sort"(%x) ({{
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %less = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %less : tensor<i1>
  }}) {{dimension = 0 : i64, is_stable = false}} : (tensor<{count}xf32>) -> tensor<{count}xf32>
  return %y : tensor<{count}xf32>
}}"""


@pytest.mark.parametrize(("count", "changed"), [(63, 0), (64, 1), (1000, 1)])
def test_few_elements_are_left_to_the_compiler(count: int, changed: int) -> None:
    found, after = rewrite(SortNetworks(), SORT.format(count=count))
    assert found == changed
    assert ("stablehlo.while" in after) == bool(changed)
