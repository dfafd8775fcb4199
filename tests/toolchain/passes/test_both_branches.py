"""Small branches become selects, beside JAX; large ones and divisions of integers stay."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from iree.compiler import ir, passmanager
from jax import lax

from edgec import runtime, toolchain
from edgec.toolchain.passes.legalise.both_branches import BothBranches
from edgec.toolchain.stablehlo import parse_stablehlo

_CHOICE = """
    %cN = stablehlo.compare LT, %yN, %tN : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %tM = "stablehlo.if"(%cN) ({
      stablehlo.return %tN : tensor<f32>
    }, {
      %aN = stablehlo.add %tN, %yN : tensor<f32>
      stablehlo.return %aN : tensor<f32>
    }) : (tensor<i1>) -> tensor<f32>
    %yM = stablehlo.multiply %yN, %x : tensor<f32>"""
_CHOICES = "".join(_CHOICE.replace("N", str(n)).replace("M", str(n + 1)) for n in range(8))
CHOICES = f"""
func.func @main(%x: tensor<f32>) -> tensor<f32> {{
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %end = stablehlo.constant dense<3> : tensor<i32>
  %0:3 = stablehlo.while(%i = %zero, %t0 = %x, %y0 = %x) : tensor<i32>, tensor<f32>, tensor<f32>
  cond {{
    %1 = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }} do {{{_CHOICES}
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %t8, %y8 : tensor<i32>, tensor<f32>, tensor<f32>
  }}
  return %0#1 : tensor<f32>
}}"""
"""A loop with eight choices in each turn."""

X = np.arange(8, dtype=np.float32) - 3
LONG = np.ones(4096, np.float32)


def one_of_two(x: Any, i: Any) -> Any:
    return lax.cond(i > 0, lambda x: (x * 2, x), lambda x: (x, x + 1), x)


def one_of_three(x: Any, i: Any) -> Any:
    return lax.switch(i, [lambda x: x, lambda x: x * 2, lambda x: -x], x)


def within(x: Any, i: Any) -> Any:
    """A choice in a choice."""
    return lax.cond(i > 0, lambda x: one_of_two(x, i - 2)[0], lambda x: x - 1, x)


def in_a_loop(x: Any, i: Any) -> Any:
    """As many choices in a row as the compiler does not follow, in JAX's Bessel functions."""

    def step(j: Any, kept: Any) -> Any:
        x, total = kept
        total = lax.cond(j % 2 == 0, lambda t: t + 2 * x[1], lambda t: t, total)
        return x * 0.5 + i, total

    return lax.fori_loop(0, 81, step, (x, jnp.float32(0)))


def divided(x: Any, i: Any) -> Any:
    """A division that the branch is there to avoid."""
    return lax.cond(i != 0, lambda i: 12 // i, lambda i: i, i) + x.astype(np.int32)


def large(x: Any, i: Any) -> Any:
    return lax.cond(i > 0, lambda x: x * 2, lambda x: x + 1, x)


def handed_on(x: Any, i: Any) -> Any:
    """Nothing is computed, and much would be copied."""
    return lax.cond(i > 0, lambda x, y: x, lambda x, y: y, x, x[::-1])


@pytest.mark.sweep(fast=3)
@pytest.mark.parametrize(
    ("function", "x", "changed"),
    [
        *((one_of_two, X, 1), (one_of_three, X, 1), (within, X, 2), (in_a_loop, X, 1)),
        *((divided, X, 0), (large, LONG, 0), (handed_on, LONG, 0)),
    ],
)
def test_small_branches_are_chosen_between(
    function: Callable[[Any, Any], Any], x: np.ndarray, changed: int, tmp_path: Path
) -> None:
    text = str(jax.jit(function).lower(x, np.int32(1)).compiler_ir("stablehlo"))
    with ir.Context() as context:
        module = parse_stablehlo(text, context)
        passmanager.PassManager.parse("builtin.module(inline)").run(module.operation)
        assert BothBranches().run(module) == changed
        assert module.operation.verify()
        left = str(module).count("stablehlo.case") + str(module).count("stablehlo.if")
        assert left == (not changed)
    (tmp_path / "case.mlir").write_text(text)
    with runtime.load(toolchain.compile(tmp_path / "case.mlir", "cpu")) as loaded:
        for i in (-5, 0, 1, 2, 3, 9):
            found = jax.tree.leaves(loaded.main(x, np.int32(i)))
            want = jax.tree.leaves(jax.jit(function)(x, np.int32(i)))
            for one, other in zip(found, want, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-5)
