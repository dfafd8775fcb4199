"""Loops behind each other whose values, and what was before them, meet; beside JAX and NumPy."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from edgec import runtime, toolchain
from edgec.toolchain.passes.legalise.loop_order import LoopOrder
from tests.toolchain.passes.before_after import rewrite

Y = np.full(6, 0.8, np.float32)

MEETING = """\
func.func public @main(%y: tensor<6xf32>) -> tensor<f32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %0 = stablehlo.dot_general %y, %y, contracting_dims = [0] x [0]
    : (tensor<6xf32>, tensor<6xf32>) -> tensor<f32>
  %1 = stablehlo.compare GT, %0, %one : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %2 = stablehlo.select %1, %0, %zero : tensor<i1>, tensor<f32>
  %3 = stablehlo.add %y, %y : tensor<6xf32>
  %4:2 = stablehlo.while(%on = %1, %v = %2) : tensor<i1>, tensor<f32>
  cond {
    stablehlo.return %on : tensor<i1>
  } do {
    %10 = stablehlo.subtract %v, %one : tensor<f32>
    %11 = stablehlo.compare GT, %10, %one : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %12 = stablehlo.and %on, %11 : tensor<i1>
    stablehlo.return %12, %10 : tensor<i1>, tensor<f32>
  }
  %5:2 = stablehlo.while(%w = %3, %v = %4#1) : tensor<6xf32>, tensor<f32>
  cond {
    %10 = stablehlo.compare LT, %v, %one : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %10 : tensor<i1>
  } do {
    %10 = stablehlo.subtract %w, %y : tensor<6xf32>
    %11 = stablehlo.add %v, %one : tensor<f32>
    stablehlo.return %10, %11 : tensor<6xf32>, tensor<f32>
  }
  %6 = stablehlo.dot_general %5#0, %5#0, contracting_dims = [0] x [0]
    : (tensor<6xf32>, tensor<6xf32>) -> tensor<f32>
  %7 = stablehlo.subtract %6, %2 : tensor<f32>
  return %7 : tensor<f32>
}
"""
"""What iree-compile 3.13 cannot put in an order."""


def meeting(y: np.ndarray) -> np.float32:
    """The program in NumPy; `y` has 6 elements, the result is a number."""
    before = y @ y
    last = before if before > 1 else np.float32(0)
    before = last
    while last > 1:
        last = last - 1
    turned = y + y
    while last < 1:
        turned, last = turned - y, last + 1
    return turned @ turned - before


@pytest.mark.parametrize("size", [0.1, 0.8, 1.3])
def test_a_sum_behind_two_loops_and_one_before_them(size: float, tmp_path) -> None:
    (tmp_path / "case.mlir").write_text(MEETING)
    with runtime.load(toolchain.compile(tmp_path / "case.mlir", "cpu")) as loaded:
        y = Y / 0.8 * np.float32(size)
        np.testing.assert_allclose(loaded.main(y), meeting(y), rtol=1e-5, atol=1e-5)


def test_barriers_are_put_where_loops_follow_each_other_alone() -> None:
    def count(x: Any, y: Any) -> Any:
        return lax.while_loop(lambda v: v[0] < 9, lambda v: (v[0] + 1, v[1] * 1.1), (x, y))[1]

    def one(x: Any, y: Any) -> Any:
        return count(x, y * 2) + y * 2

    def beside(x: Any, y: Any) -> Any:
        return count(x, y * 2) + count(x + 1, y * 3) + y * 2

    def behind(x: Any, y: Any) -> Any:
        return count(x, count(x, y * 2))

    def meet(x: Any, y: Any) -> Any:
        double = y * 2
        return count(x, count(x, double)) + jnp.sin(double)

    for function, barriers in ((one, 0), (beside, 1), (behind, 1), (meet, 1)):
        text = jax.jit(function).lower(np.float32(0), Y).as_text()
        assert rewrite(LoopOrder(), text)[0] == barriers, function.__name__


@pytest.mark.slow
def test_forty_loops_behind_each_other(tmp_path) -> None:
    """Values that went through the barriers of all loops were more than the compiler follows."""

    def program(x: Any) -> Any:
        before = []
        for step in range(40):
            before.append(jnp.sin(x + step))
            x = lax.while_loop(lambda v: jnp.sum(v) < 50, lambda v: v + 1, x / 2)
        return x + sum(before)

    (tmp_path / "case.mlir").write_text(jax.jit(program).lower(Y).as_text())
    with runtime.load(toolchain.compile(tmp_path / "case.mlir", "cpu")) as loaded:
        expected = jax.jit(program)(Y)
        np.testing.assert_allclose(loaded.main(Y), expected, rtol=1e-5)
