"""Loops against JAX, and what becomes of them."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from iree.compiler import ir

from edgec.exporters import export
from edgec.runtime import load
from edgec.toolchain import CompileOptions, compile, run_passes
from edgec.toolchain.passes.simplify.unroll_loops import UnrollLoops

LOOP = """
func.func @main(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %end = stablehlo.constant dense<TRIPS> : tensor<i32>
  %0:3 = stablehlo.while(%i = %zero, %v = %x, %c = %w) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %1 = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %1 = stablehlo.multiply %v, %c : tensor<4xf32>
    %2 = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %2, %1, %c : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %0#1 : tensor<4xf32>
}
"""


def unrolled(text: str) -> tuple[str, int]:
    with ir.Context():
        module = ir.Module.parse(text)
        count = UnrollLoops().run(module)
        module.operation.verify()
        return str(module), count


@pytest.mark.parametrize(
    ("trips", "steps", "left"),
    [(50, 25, 0), (34, 17, 0), (58, 25, 8), (101, 25, 1)],
)
def test_a_turn_takes_many_steps_and_what_is_left_over_stands_after_the_loop(trips, steps, left):
    after, count = unrolled(LOOP.replace("TRIPS", str(trips)))
    assert count == 1  # if only for the constant
    inside = after[: after.index("stablehlo.return", after.index("} do {"))]
    assert inside.count("stablehlo.multiply") == steps
    assert after.count("stablehlo.multiply") == steps + left
    if left:
        assert f"dense<{trips - left}>" in after


def test_many_loops_take_fewer_steps_a_turn_each():
    loop = LOOP.replace("TRIPS", "50")
    after, count = unrolled("".join(loop.replace("@main", f"@f{i}") for i in range(100)))
    assert count == 100
    assert after.count("stablehlo.multiply") == 500  # of three operations a step, 1500 in all


@pytest.mark.parametrize("trips", [1, 6, 29])
def test_a_loop_of_one_turn_is_a_straight_line(trips):
    after, count = unrolled(LOOP.replace("TRIPS", str(trips)))
    assert count == 1
    assert "stablehlo.while" not in after
    assert after.count("stablehlo.multiply") == trips


def test_what_never_changes_comes_from_outside():
    after, _ = unrolled(LOOP.replace("TRIPS", "58"))
    assert re.search(r"stablehlo.multiply %iterArg_?\d*, %arg1", after)


def test_a_loop_of_unknown_length_keeps_its_steps():
    after, _ = unrolled(LOOP.replace("TRIPS", "6").replace("compare LT", "compare GT"))
    assert after.count("stablehlo.multiply") == 1


def recurrent(x):
    """An LSTM with a loop inside its loop, whose bound is the outer counter's."""
    w = np.random.default_rng(0).standard_normal((24, 64)).astype(np.float32) / 5

    def step(state, value):
        h, c = state
        gates = jnp.concatenate([h, value]) @ w
        i, f, g, o = jnp.split(gates, 4)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        c = jax.lax.fori_loop(0, 3, lambda j, v: v * 0.9 + j, c)
        return (jax.nn.sigmoid(o) * jnp.tanh(c), c), h.sum()

    zero = jnp.zeros(16)
    (h, c), sums = jax.lax.scan(step, (zero, zero), x)
    powers = jax.lax.while_loop(lambda v: v[0] < 100, lambda v: v * 2 + 1, h[:2] + 3)
    return h, c, sums, powers


@pytest.mark.parametrize(
    ("target", "length"),
    [pytest.param("cpu", 30, marks=pytest.mark.slow), ("cpu", 53), ("vulkan", 29)],
)
def test_loops_answer_as_jax_does(target, length, tmp_path):
    x = np.random.default_rng(1).standard_normal((length, 8)).astype(np.float32)
    program = export(recurrent, (x,))
    assert run_passes(program, target).changes["unroll-loops"] >= 2
    module = compile(program, target, CompileOptions(cache=False, output=tmp_path / "m.vmfb"))
    with load(module) as loaded:
        for answer, wanted in zip(loaded.main(x), jax.jit(recurrent)(x), strict=True):
            np.testing.assert_allclose(np.asarray(answer), np.asarray(wanted), 1e-4, 1e-4)


def test_a_loop_among_the_steps_left_over_takes_what_the_loop_before_gave(tmp_path):
    """The inner one uses what the outer one carries as it is, with no operation between."""

    def nested(x):
        def step(i, kept):
            x, total = kept
            grown = jax.lax.while_loop(lambda v: v[0] < 9, lambda v: v * 2 + x + 1, total % 7)
            return (x * 3 + i) & 15, grown

        return jax.lax.fori_loop(0, 53, step, (x, jnp.zeros_like(x)))

    x = np.arange(6, dtype=np.int32)
    (tmp_path / "nested.mlir").write_text(jax.jit(nested).lower(x).as_text())
    with load(compile(tmp_path / "nested.mlir", "cpu")) as module:
        for found, want in zip(module.main(x), jax.jit(nested)(x), strict=True):
            np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("name", ["if", "case"])
def test_a_loop_with_branches_keeps_its_steps(name):
    """The compiler does not follow many branches of one turn."""
    choice = f"""
    %s = stablehlo.slice %v [0:1] : (tensor<4xf32>) -> tensor<1xf32>
    %t = stablehlo.reshape %s : (tensor<1xf32>) -> tensor<f32>
    %p = stablehlo.convert %t : (tensor<f32>) -> tensor<{"i1" if name == "if" else "i32"}>
    %1 = "stablehlo.{name}"(%p) ({{
      %3 = stablehlo.multiply %v, %c : tensor<4xf32>
      stablehlo.return %3 : tensor<4xf32>
    }}, {{
      stablehlo.return %c : tensor<4xf32>
    }}) : (tensor<{"i1" if name == "if" else "i32"}>) -> tensor<4xf32>"""
    plain = "    %1 = stablehlo.multiply %v, %c : tensor<4xf32>"
    after, _ = unrolled(LOOP.replace("TRIPS", "50").replace(plain, choice))
    assert after.count("stablehlo.multiply") == 1
