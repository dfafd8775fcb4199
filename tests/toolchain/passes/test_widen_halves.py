"""Programs in half precision on the CPU: types at the surface, numbers against JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from iree.compiler import ir

from edgec.exporters import export
from edgec.runtime import load
from edgec.toolchain import CompileOptions, compile, run_passes
from edgec.toolchain.passes.simplify.widen_halves import WidenHalves

BEFORE = """
func.func @main(%x: tensor<2x4xf16>) -> (tensor<2x3xf16>, tensor<2x4xf16>) {
  %w = stablehlo.constant dense<0.5> : tensor<4x3xf16>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<2x4xf16>, tensor<4x3xf16>) -> tensor<2x3xf16>
  %1 = stablehlo.tanh %0 : tensor<2x3xf16>
  return %1, %x : tensor<2x3xf16>, tensor<2x4xf16>
}
"""


def widened(text: str) -> tuple[str, int]:
    with ir.Context():
        module = ir.Module.parse(text)
        count = WidenHalves().run(module)
        module.operation.verify()
        return str(module), count


def test_the_inside_is_wide_and_the_signature_is_kept():
    after, count = widened(BEFORE)
    assert count > 0
    assert "(%arg0: tensor<2x4xf16>) -> (tensor<2x3xf16>, tensor<2x4xf16>)" in after
    assert "stablehlo.tanh %" in after
    assert "tensor<2x3xf32>" in after[after.index("stablehlo.tanh") :].splitlines()[0]


BITS = """
func.func @main(%x: tensor<2x4xf16>) -> (tensor<2x3xi16>, tensor<2x3xbf16>) {
  %w = stablehlo.constant dense<0.3> : tensor<4x3xf16>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<2x4xf16>, tensor<4x3xf16>) -> tensor<2x3xf16>
  %1 = stablehlo.bitcast_convert %0 : (tensor<2x3xf16>) -> tensor<2x3xi16>
  %2 = stablehlo.convert %0 : (tensor<2x3xf16>) -> tensor<2x3xbf16>
  return %1, %2 : tensor<2x3xi16>, tensor<2x3xbf16>
}
"""


def test_programs_that_look_at_bits_see_those_of_halves(tmp_path):
    after, count = widened(BITS)
    assert count > 0
    assert "(tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>" in after
    source = tmp_path / "bits.mlir"
    source.write_text(BITS)
    module = compile(source, "cpu", CompileOptions(cache=False, output=tmp_path / "m.vmfb"))
    x = np.random.default_rng(2).standard_normal((2, 4)).astype(np.float16)
    exact = x.astype(np.float64) @ np.full((4, 3), np.float16(0.3), np.float64)
    with load(module) as loaded:
        bits, brains = loaded.main(x)
    np.testing.assert_array_equal(np.asarray(bits).view(np.float16), exact.astype(np.float16))
    np.testing.assert_array_equal(np.asarray(brains), exact.astype(jnp.bfloat16))


def test_programs_without_products_are_left_alone():
    text = BEFORE.replace("f16", "f32")
    assert widened(text) == (widened(text)[0], 0)


def network(kind):
    weights = np.random.default_rng(0).standard_normal((3, 3, 8, 16)) / 8

    def apply(x):
        y = jax.lax.conv_general_dilated(
            x,
            jnp.asarray(weights, kind),
            (1, 1),
            "SAME",
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )
        y = jax.nn.relu(y + kind(0.5))
        y = jax.lax.reduce_window(
            y, kind(-jnp.inf), jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"
        )
        z = jax.lax.fori_loop(0, 7, lambda i, v: (v * kind(0.9)).astype(kind), y)
        return z.mean((1, 2)), y.astype(jnp.float32) * 2

    return apply


@pytest.mark.parametrize(("kind", "tolerance"), [(jnp.float16, 1e-2), (jnp.bfloat16, 5e-2)])
def test_a_network_of_halves_answers_as_jax_does(kind, tolerance, tmp_path):
    function = network(kind)
    x = np.random.default_rng(1).standard_normal((2, 8, 8, 8)).astype(kind)
    program = export(function, (x,))
    assert run_passes(program, "cpu").changes["widen-halves"] > 0
    module = compile(program, "cpu", CompileOptions(cache=False, output=tmp_path / "m.vmfb"))
    with load(module) as loaded:
        for answer, wanted in zip(loaded.main(x), jax.jit(function)(x), strict=True):
            answer = np.asarray(answer)
            assert answer.dtype == wanted.dtype
            np.testing.assert_allclose(
                answer.astype(np.float32), np.asarray(wanted, np.float32), tolerance, tolerance
            )
