"""Loops of small steps against JAX, and what becomes of them."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from iree.compiler import ir

from edgec.exporters import export
from edgec.runtime import load
from edgec.toolchain import CompileOptions, compile, run_passes
from edgec.toolchain.kernels.cpu.source import VectorUnit
from edgec.toolchain.passes.place.recurrent_loops import RecurrentLoops

AVX512 = VectorUnit(lanes=16, registers=32, broadcasts=True)
LOOP = """
func.func @main(%x: tensor<9x1x8xf32>, %h0: tensor<1x16xf32>)
    -> (tensor<1x16xf32>, tensor<9x16xf32>) {
  %w = stablehlo.constant dense<0.5> : tensor<8x16xf32>
  %u = stablehlo.constant dense<0.1> : tensor<16x16xf32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %end = stablehlo.constant dense<9> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<9x16xf32>
  %0:4 = stablehlo.while(%i = %zero, %h = %h0, %ys = %none, %c = %u)
      : tensor<i32>, tensor<1x16xf32>, tensor<9x16xf32>, tensor<16x16xf32>
  cond {
    %1 = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %1 = stablehlo.dynamic_slice %x, %i, %zero, %zero, sizes = [1, 1, 8]
      : (tensor<9x1x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x1x8xf32>
    %2 = stablehlo.reshape %1 : (tensor<1x1x8xf32>) -> tensor<1x8xf32>
    %3 = stablehlo.dot_general %2, %w, contracting_dims = [1] x [0]
      : (tensor<1x8xf32>, tensor<8x16xf32>) -> tensor<1x16xf32>
    %4 = stablehlo.dot_general %h, %c, contracting_dims = [1] x [0]
      : (tensor<1x16xf32>, tensor<16x16xf32>) -> tensor<1x16xf32>
    %5 = stablehlo.add %3, %4 : tensor<1x16xf32>
    %6 = stablehlo.tanh %5 : tensor<1x16xf32>
    %7 = stablehlo.dynamic_update_slice %ys, %6, %i, %zero
      : (tensor<9x16xf32>, tensor<1x16xf32>, tensor<i32>, tensor<i32>) -> tensor<9x16xf32>
    %8 = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %8, %6, %7, %c
      : tensor<i32>, tensor<1x16xf32>, tensor<9x16xf32>, tensor<16x16xf32>
  }
  return %0#1, %0#2 : tensor<1x16xf32>, tensor<9x16xf32>
}
"""


def rewritten(text: str) -> tuple[str, int]:
    with ir.Context():
        module = ir.Module.parse(text)
        count = RecurrentLoops(unit=AVX512).run(module)
        module.operation.verify()
        return str(module), count


def test_a_loop_becomes_one_dispatch_and_the_product_of_its_input_one_before_it():
    after, count = rewritten(LOOP)
    assert count == 1
    function = after[after.index("func.func @main") :]
    assert "stablehlo.while" not in function
    assert len(re.findall("flow.dispatch ", function)) == 1
    products = re.findall(r"stablehlo.dot_general.*-> (\S+)", function)
    assert products == ["tensor<9x1x16xf32>"]
    assert "scf.for" in after
    assert "math.tanh" in after


READS = """%9 = stablehlo.slice %ys [0:1, 0:16] : (tensor<9x16xf32>) -> tensor<1x16xf32>
    %6 = stablehlo.add %9, %5 : tensor<1x16xf32>"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("dense<9> : tensor<i32>", "dense<3> : tensor<i32>"),  # too short to be worth it
        ("compare LT", "compare GT"),  # nobody knows how long
        ("%6 = stablehlo.tanh %5 : tensor<1x16xf32>", READS),  # what it writes is read, too
        ("%6 = stablehlo.tanh %5", "%6 = stablehlo.tan %5"),  # the kernel cannot
    ],
)
def test_other_loops_stay(old, new):
    after, count = rewritten(LOOP.replace(old, new, 1))
    assert count == 0
    assert "stablehlo.while" in after


def test_a_step_with_much_work_stays():
    large = LOOP.replace("16x16x", "2048x2048x").replace("1x16x", "1x2048x")
    after, count = rewritten(large.replace("8x16x", "8x2048x").replace("9x16x", "9x2048x"))
    assert count == 0
    assert "stablehlo.while" in after
    assert "tensor<9x1x2048xf32>" in after  # but its input's product is done at once


def weights(seed: int, *shape: int) -> np.ndarray:
    values = np.random.default_rng(seed).standard_normal(shape)
    return (values / np.sqrt(shape[0])).astype(np.float32)


def lstm(x):
    """Gates from one product of the input and the state, joined; odd widths, several rows."""
    w, b = weights(0, 13 + 37, 4 * 37), weights(1, 4 * 37)

    def step(state, value):
        h, c = state
        i, f, g, o = jnp.split(jnp.concatenate([value, h], axis=-1) @ w + b, 4, axis=-1)
        c = jax.nn.sigmoid(f + 1) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    first = jnp.zeros((3, 37)), jnp.full((3, 37), 0.25)
    return jax.lax.scan(step, first, jnp.swapaxes(x, 0, 1))


def gru_backwards(x):
    """From the last step to the first, with a product of a product; the first state is an input."""
    w, u, v = weights(2, 13, 3 * 24), weights(3, 24, 2 * 24), weights(4, 24, 24)

    def step(h, value):
        from_x = value @ w
        r, z = jnp.split(jax.nn.sigmoid(from_x[:, :48] + h @ u), 2, axis=-1)
        new = jnp.tanh(from_x[:, 48:] + (r * h) @ v)
        h = (1 - z) * h + z * new
        return h, h * 2

    return jax.lax.scan(step, x[:, 0, :1] * jnp.ones((1, 24)), x.swapaxes(0, 1), reverse=True)


def vectors(x):
    """Matrices on the left of vectors, two layers in one step, gates as rows of a matrix."""
    w, u, v = weights(5, 40, 13), weights(6, 40, 20), weights(7, 20, 20)

    def step(state, value):
        h, k, n = state
        gates = jnp.reshape(w @ value + u @ h, (2, 20))
        h = jnp.where(gates[0] > 0, gates[0], 0.1 * h) + jnp.clip(gates[1], -0.5, 0.5)
        k = jax.nn.relu(v @ h) + 0.5 * k
        return (h, k, n + 0.5), jnp.stack([k, h])

    first = jnp.zeros(20), jnp.ones(20), jnp.float32(3)
    return jax.lax.scan(step, first, x[0])


def averages(x):
    """No product; the count is used, too, and what the loop does not write stays as it was."""

    def body(t, state):
        mean, every, swapped = state
        mean = 0.9 * mean + 0.1 * jax.lax.dynamic_index_in_dim(x, t, axis=1, keepdims=False)
        every = jax.lax.dynamic_update_index_in_dim(every, mean, 2 * t + 1, axis=1)
        return swapped, every, mean

    return jax.lax.fori_loop(0, 11, body, (x[:, 3], jnp.ones((3, 24, 13)), x[:, 4] * 2))


def every_loop(x):
    return lstm(x), gru_backwards(x), vectors(x), averages(x)


@pytest.mark.parametrize("target", ["cpu", pytest.param("cpu:x86-64", marks=pytest.mark.slow)])
def test_answers_are_those_of_jax(target, tmp_path):
    x = np.random.default_rng(8).standard_normal((3, 11, 13)).astype(np.float32)
    program = export(every_loop, (x,))
    assert run_passes(program, target).changes["recurrent-loops"] == 4
    module = compile(program, target, CompileOptions(cache=False, output=tmp_path / "m.vmfb"))
    with load(module) as loaded:
        answers = jax.tree.leaves(loaded.main(x))
    for answer, wanted in zip(answers, jax.tree.leaves(jax.jit(every_loop)(x)), strict=True):
        np.testing.assert_allclose(np.asarray(answer), np.asarray(wanted), 2e-6, 2e-6)
