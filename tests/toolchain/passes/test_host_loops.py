"""Loops that the host counts, against JAX's own answers, and what the compiler makes of them."""

import re
import subprocess

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from edgec import runtime, toolchain
from edgec.exporters import export
from edgec.toolchain.passes.simplify.host_loops import HostLoops
from edgec.toolchain.process import compiler_path
from tests.toolchain.passes.before_after import rewrite

PLAIN = toolchain.CompileOptions(disabled=("unroll-loops", "recurrent-loops"))
"""Short loops would become straight lines."""
X = np.random.RandomState(0).randn(60, 24).astype(np.float32)


def scanned(x):
    def step(h, row):
        h = jnp.tanh(h * 0.5 + row)
        return h, (h * 2, row.astype(jnp.bfloat16), row > 0, jnp.argmax(h))

    return lax.scan(step, jnp.zeros(24), x, reverse=True)


def nested(x):
    def outer(h, row):
        h2, inner = lax.scan(lambda a, b: (a * 0.5 + b, a * b), h.sum(), row)
        return jnp.tanh(h + row * h2), inner

    return lax.scan(outer, jnp.zeros(24), x)


def columns(x):
    return lax.fori_loop(
        0,
        24,
        lambda i, c: lax.dynamic_update_slice(c, x[:, 23 - i][:, None] * i, (0, i)),
        x * 0 + 3,
    )


def beyond(x):
    """Parts that would begin before the array, and end behind it."""
    return lax.fori_loop(
        0,
        60,
        lambda i, c: lax.dynamic_update_slice(c, x[:4] + i, (i * 2 - 5, i - 3)),
        jnp.full((50, 30), 7.0),
    )


def read(x):
    """An array that the loop reads is no array that it only fills."""
    return lax.fori_loop(1, 60, lambda i, c: c.at[i].set(c[i - 1] * 0.5 + x[i]), jnp.zeros_like(x))


def counted(x):
    """What counters are after the loop, one of them by threes."""
    return lax.fori_loop(
        3, 57, lambda i, c: (c[0].at[i].set(x[i] * i), c[1] + 3), (jnp.full_like(x, 7.0), 4)
    )


def anew(x):
    """An array that no turn reads, and each makes anew."""
    return lax.fori_loop(0, 60, lambda i, c: x * i, jnp.zeros_like(x))


def alike(x):
    """Two loops that fill arrays which begin as the same: both ways of a recurrent layer."""

    def way(sign, reverse):
        def step(h, row):
            h = jnp.tanh(h * 0.5 + sign * row)
            return h, (h, (sign * row).astype(jnp.float16), (sign * row).astype(jnp.bfloat16))

        return lax.scan(step, jnp.zeros(24), x, reverse=reverse)[1]

    return way(1, False), way(-1, True)


@pytest.mark.sweep(fast=3)
@pytest.mark.parametrize("function", [scanned, nested, columns, beyond, read, counted, alike, anew])
def test_answers_are_the_frameworks(function):
    module = toolchain.compile(export(function, (X,)), "cpu", options=PLAIN)
    with runtime.load(module) as loaded:
        for found, right in zip(
            jax.tree.leaves(loaded.main(X)), jax.tree.leaves(jax.jit(function)(X)), strict=True
        ):
            right = np.asarray(right).astype(np.float32)
            np.testing.assert_allclose(np.asarray(found).astype(np.float32), right, atol=2e-6)


def test_as_many_turns_as_an_input_says():
    def first(x, count):
        return lax.fori_loop(0, count, lambda i, c: c.at[i].set(x[i]), jnp.full_like(x, -1.0))

    module = toolchain.compile(export(first, (X, np.int32(20))), "cpu")
    with runtime.load(module) as loaded:
        for count in (0, 1, 33, 60):
            found = np.asarray(loaded.main(X, np.int32(count)))
            np.testing.assert_array_equal(found[:count], X[:count])
            assert (found[count:] == -1).all()


def test_loops_that_go_on_filling_arrays_of_open_sizes():
    def both(x):
        rows = x.shape[0]

        def filled(first, carried):
            def turn(i, c):
                row = lax.dynamic_slice(x, (i, 0), (1, 24))
                wide, narrow = (
                    lax.dynamic_update_slice(array, values, (i, 0))
                    for array, values in zip(c, (row * 2, row[:, :8] + i), strict=False)
                )
                return wide, narrow, c[2] + row.sum()

            return lax.fori_loop(first, jnp.minimum(rows, first + 20), turn, carried)

        start = (jnp.zeros((rows, 24)), jnp.zeros((rows, 8)), jnp.zeros(4))
        return filled(20, filled(0, start))

    program = export(both, (X[:30],), dynamic="x:0=n=1..40", chunk=0)
    module = toolchain.compile(program, "cpu", options=PLAIN)
    with runtime.load(module) as loaded:
        for count in (1, 20, 31, 40):
            for found, right in zip(loaded.main(X[:count]), both(X[:count]), strict=True):
                np.testing.assert_allclose(np.asarray(found), right, rtol=1e-4, atol=1e-4)


FILLS = """
func.func @main(%x: tensor<64x8xf32>) -> tensor<64x8xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %end = stablehlo.constant dense<64> : tensor<i32>
  %full = stablehlo.constant dense<1.5> : tensor<64x8xf32>
  %0:2 = stablehlo.while(%i = %zero, %c = %full) : tensor<i32>, tensor<64x8xf32>
  cond {
    %1 = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %1 = stablehlo.dynamic_slice %x, %i, %zero, sizes = [1, 8]
      : (tensor<64x8xf32>, tensor<i32>, tensor<i32>) -> tensor<1x8xf32>
    %2 = stablehlo.tanh %1 : tensor<1x8xf32>
    %3 = stablehlo.dynamic_update_slice %c, %2, %i, %zero
      : (tensor<64x8xf32>, tensor<1x8xf32>, tensor<i32>, tensor<i32>) -> tensor<64x8xf32>
    %4 = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %4, %3 : tensor<i32>, tensor<64x8xf32>
  }
  return %0#1 : tensor<64x8xf32>
}
"""


@pytest.mark.parametrize("device", ["local", "vulkan", "cuda"])
def test_a_turn_copies_nothing_of_the_array(device):
    """The compiler writes into the array itself; without the pass it copies all of it."""

    def turn(text: str) -> str:
        found = subprocess.run(
            [
                *(compiler_path(), "-", "--iree-input-type=stablehlo", "--compile-to=stream"),
                f"--iree-hal-target-device={device}",
                *(["--iree-hal-local-target-device-backends=llvm-cpu"] * (device == "local")),
            ],
            input=text,
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout
        blocks = re.split(r"\^bb\d+", found[found.index("util.func public @main") :])
        return next(block for block in blocks if "stream.cmd.dispatch" in block)

    assert "stream.resource.alloca" in turn(FILLS)
    count, after = rewrite(HostLoops(), FILLS)
    assert count == 1
    found = turn(after)
    assert "alloca" not in found
    assert "stream.cmd.copy" not in found


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("dense<64>", "dense<1>"),  # one turn
        ("stablehlo.compare LT", "stablehlo.compare NE"),
        ("dense<1> : tensor<i32>", "dense<-1> : tensor<i32>"),
        ("%4 = stablehlo.add %i, %one", "%4 = stablehlo.multiply %i, %one"),
    ],
)
def test_other_loops_stay(before, after):
    assert rewrite(HostLoops(), FILLS.replace(before, after))[0] == 0


def test_an_array_that_is_read_is_handed_on():
    text = FILLS.replace("stablehlo.dynamic_slice %x,", "stablehlo.dynamic_slice %c,")
    count, after = rewrite(HostLoops(), text)
    assert count == 1
    assert "hal.tensor" not in after


def test_a_page_hands_arrays_on():
    count, after = rewrite(HostLoops(fills=False), FILLS)
    assert count == 1
    assert "scf.for" in after
    assert "hal.tensor" not in after
