"""Rows of tables in blocks: the rows are what they were, and no table of f32 is left."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from iree.compiler import ir

from edgec.toolchain.ir.interpret import Interpreter
from edgec.toolchain.passes.simplify.canonicalise import Canonicalise
from edgec.toolchain.passes.simplify.inline_calls import InlineCalls
from edgec.toolchain.passes.simplify.look_up_blocks import LookUpBlocks
from edgec.toolchain.stablehlo import parse_stablehlo

RNG = np.random.default_rng(0)
CODES = RNG.integers(-128, 128, (40, 64), np.int8)
SCALE = RNG.uniform(0.1, 1, (40, 2)).astype(np.float16)
LEAST = RNG.uniform(-1, 1, (40, 2)).astype(np.float16)
TOKENS = np.array([[3, 39, 0], [7, 7, 21]], np.int32)


def eight(tokens, codes, scale, least):
    table = codes.reshape(40, 2, 32).astype(jnp.float32) * scale[..., None].astype(jnp.float32)
    return jnp.take(table.reshape(40, 64), tokens, axis=0, mode="clip")


def four(tokens, codes, scale, least):
    """Codes of 128 neighbours in 64 bytes, in runs of 32."""
    low, high = codes & 15, jax.lax.shift_right_logical(codes, jnp.int8(4))
    runs = [each.reshape(40, 4, 16) for each in (low, high)]
    whole = jnp.concatenate(runs, axis=2).reshape(40, 2, 64).astype(jnp.float32)
    wide = [each[..., None].astype(jnp.float32) for each in (scale, least)]
    return jnp.take((whole * wide[0] + wide[1]).reshape(40, 128), tokens, axis=0, mode="clip")


def rewritten(function) -> tuple[int, str, list[np.ndarray]]:
    inputs = (TOKENS, CODES, SCALE, LEAST)
    text = str(jax.jit(function, keep_unused=True).lower(*inputs).compiler_ir("stablehlo"))
    with ir.Context() as context:
        module = parse_stablehlo(text, context)
        InlineCalls().run(module)
        Canonicalise().run(module)
        count = LookUpBlocks().run(module)
        module.operation.verify()
        return count, str(module), Interpreter(module).call("main", inputs)


@pytest.mark.parametrize("function", [eight, four])
def test_only_the_rows_that_are_looked_up_become_floats(function):
    count, after, (found,) = rewritten(function)
    assert count == 1
    assert after.count('"stablehlo.gather"(') == (2 if function is eight else 3)
    assert "tensor<40x64xf32>" not in after
    assert "tensor<40x2x64xf32>" not in after
    expected = function(jnp.asarray(TOKENS), *map(jnp.asarray, (CODES, SCALE, LEAST)))
    np.testing.assert_allclose(found, expected, 1e-6, 1e-5)


def neighbours(tokens, codes, scale, least):
    table = codes.reshape(40, 2, 32).astype(jnp.float32) * scale[..., None].astype(jnp.float32)
    return jax.lax.dynamic_slice(table.reshape(1, 40, 64), (0, tokens[0, 1], 0), (1, 3, 64))


def second_axis(tokens, codes, scale, least):
    table = codes.reshape(40, 2, 32).astype(jnp.float32) * scale[..., None].astype(jnp.float32)
    return jnp.take(table.reshape(1, 40, 64), tokens, axis=1, mode="clip")


@pytest.mark.parametrize(
    ("function", "word"),
    [(neighbours, "stablehlo.dynamic_slice"), (second_axis, '"stablehlo.gather"(')],
)
def test_rows_beside_each_other_and_tables_among_axes_of_one_are_looked_up_in_blocks(
    function, word
):
    count, after, (found,) = rewritten(function)
    assert count == 1
    assert after.count(word) == 2
    assert "tensor<1x40x64xf32>" not in after
    expected = function(jnp.asarray(TOKENS), *map(jnp.asarray, (CODES, SCALE, LEAST)))
    np.testing.assert_allclose(found, expected, 1e-6, 1e-5)


@pytest.mark.parametrize("function", [eight, four])
def test_how_many_rows_are_looked_up_may_be_open(function):
    inputs = (TOKENS, CODES, SCALE, LEAST)
    (count_,) = jax.export.symbolic_shape("n")
    kinds = [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in inputs[1:]]
    tokens = jax.ShapeDtypeStruct((count_, 3), np.int32)
    text = jax.export.export(jax.jit(function, keep_unused=True))(tokens, *kinds).mlir_module()
    with ir.Context() as context:
        module = parse_stablehlo(text, context)
        InlineCalls().run(module)
        assert LookUpBlocks().run(module) == 1
        module.operation.verify()
        assert "tensor<40x64xf32>" not in str(module)
        tokens = np.array([[1, 39, 5]] * 4, np.int32)
        (found,) = Interpreter(module).call("main", (tokens, *inputs[1:]))
    expected = function(jnp.asarray(tokens), *map(jnp.asarray, inputs[1:]))
    np.testing.assert_allclose(found, expected, 1e-6, 1e-5)


def test_scales_among_other_numbers_are_left():
    def first(tokens, codes, scale, least):
        table = codes.astype(jnp.float32) * scale.reshape(80)[:40, None].astype(jnp.float32)
        return jnp.take(table, tokens, axis=0, mode="clip")

    count, _after, (found,) = rewritten(first)
    assert count == 0
    expected = first(jnp.asarray(TOKENS), *map(jnp.asarray, (CODES, SCALE, LEAST)))
    np.testing.assert_allclose(found, expected, 1e-6, 1e-5)


def test_parts_of_rows_are_left():
    def part(tokens, codes, scale, least):
        return (
            eight(tokens, codes, scale, least)[..., :8]
            + jnp.take(
                (codes.astype(jnp.float32) * scale[:, :1].astype(jnp.float32)), tokens[0, 0], axis=1
            ).reshape(40)[:8]
        )

    count, after, _found = rewritten(part)
    assert count == 1
    assert after.count('"stablehlo.gather"(') == 3
