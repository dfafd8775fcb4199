"""What whole programs compute in NumPy is what JAX computes: loops, branches, gathers, sorts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from iree.compiler import ir

from edgec import exporters
from edgec.toolchain.ir.evaluate import NotEvaluated
from edgec.toolchain.ir.interpret import Interpreter
from edgec.toolchain.stablehlo import parse_stablehlo

X = np.random.default_rng(0).standard_normal((5, 7)).astype(np.float32)
NUMBERS = np.array([3, 0, 2, 2, 9, -1], np.int32)


def attend(x):
    scores = jax.nn.softmax(x @ x.T / 3)
    return jnp.where(jnp.isfinite(scores), scores, 0) @ x


def counted(x):
    return jax.lax.fori_loop(0, 4, lambda i, y: jnp.sin(y) + i * x[i], x)


def chosen(x):
    return jax.lax.cond(x[0, 0] > 5, lambda y: y + 1, lambda y: y * 2, x)


def switched(x):
    ways = [lambda y: y, lambda y: -y, lambda y: y * 3]
    return jax.lax.switch(jnp.int32(2), ways, x)


def cached(x):
    return jax.lax.dynamic_update_slice(x, x[:2] * 10, (jnp.int32(9), jnp.int32(0)))


def scanned(x):
    return jax.lax.scan(lambda carry, row: (carry + row, carry.sum()), jnp.zeros(7), x)


def bits(x):
    whole = (x * 1000).astype(jnp.int32)
    return whole >> 3, whole << 5, jax.lax.shift_right_logical(whole, jnp.int32(28))


CASES = {
    "calls and reductions": attend,
    "a loop": counted,
    "a branch": chosen,
    "one of several": switched,
    "a slice that is written": cached,
    "a scan": scanned,
    "rows by number": lambda x: jnp.take(x, NUMBERS, axis=0, mode="clip"),
    "columns by number": lambda x: x[:, NUMBERS[:4]],
    "places in a matrix": lambda x: x[NUMBERS[:4], NUMBERS[1:5] % 7],
    "rows that are set": lambda x: x.at[NUMBERS[:3]].set(x[:3] * 2),
    "rows that are added": lambda x: x.at[jnp.array([1, 1, 4, 9])].add(x[:4], mode="drop"),
    "the largest's place": lambda x: (x.argmax(1), jnp.argmin(x, 0)),
    "two numbers reduced in order": lambda x: jax.lax.reduce(
        (x / 2, x),
        (np.float32(1), np.float32(0)),
        lambda one, next: (one[0] * next[0], one[1] * next[0] + next[1]),
        (0,),
    ),
    "sorted": lambda x: (jnp.sort(x, 0), jnp.argsort(-x, 1)),
    "bits": bits,
    "an image": lambda x: jax.lax.conv_general_dilated(
        x[None, None], X[None, None, :3, :3], (1, 1), "SAME"
    ),
    "an error function": lambda x: jax.nn.gelu(x, approximate=False),
}


@pytest.mark.parametrize("name", CASES)
def test_the_answers_are_those_of_jax(name):
    function = CASES[name]
    text = str(jax.jit(function).lower(X).compiler_ir("stablehlo"))
    expected = jax.tree.leaves(function(jnp.asarray(X)))
    with ir.Context() as context:
        found = Interpreter(parse_stablehlo(text, context)).call("main", [X])
    for answer, wanted in zip(found, expected, strict=True):
        assert answer.shape == wanted.shape
        np.testing.assert_allclose(answer, np.asarray(wanted), 2e-5, 2e-5)


def test_a_constant_can_have_other_numbers():
    text = """func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %w = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
      %0 = stablehlo.add %x, %w : tensor<2xf32>
      return %0 : tensor<2xf32>
    }"""
    with ir.Context() as context:
        module = parse_stablehlo(text, context)
        (function,) = module.body.operations
        constant = function.regions[0].blocks[0].operations[0].operation.attributes["value"]
        instead = Interpreter(module, {constant: np.array([10.0, 20.0], np.float32)})
        (found,) = instead.call("main", [np.zeros(2, np.float32)])
    assert found.tolist() == [10, 20]


@pytest.mark.parametrize("side", [0, 1])
def test_products_by_large_weights_are_those_of_f64(side):
    rng = np.random.default_rng(2)
    sizes = [(900, 500), (500, 3)] if side == 0 else [(3, 500), (500, 900)]
    given = [rng.standard_normal(size).astype(np.float32) for size in sizes]
    text = str(jax.jit(jnp.matmul).lower(*given).compiler_ir("stablehlo"))
    with ir.Context() as context:
        module = parse_stablehlo(text, context)
        (found,) = Interpreter(module).call("main", given, fixed=[side])
    one, other = (each.astype(np.float64) for each in given)
    np.testing.assert_allclose(found, one @ other, 1e-11, 1e-11)


@pytest.mark.parametrize(
    ("left", "right", "gives"), [((2, 3), (3, 4), "2x4x"), ((2, 3), (3,), "2x"), ((3,), (3,), "")]
)
def test_plain_products_of_matrices_and_vectors_are_known(left, right, gives):
    rng = np.random.default_rng(1)
    one, other = (rng.standard_normal(size).astype(np.float32) for size in (left, right))
    kinds = ["x".join(map(str, size)) for size in (left, right)]
    module = parse_stablehlo(
        f"""func.func @main(%a: tensor<{kinds[0]}xf32>, %b: tensor<{kinds[1]}xf32>)
              -> tensor<{gives}f32> {{
          %0 = "stablehlo.dot"(%a, %b) : (tensor<{kinds[0]}xf32>, tensor<{kinds[1]}xf32>)
            -> tensor<{gives}f32>
          return %0 : tensor<{gives}f32>
        }}""",
        ir.Context(),
    )
    (found,) = Interpreter(module, {}).call("main", [one, other])
    np.testing.assert_allclose(found, one @ other, rtol=1e-5, atol=1e-6)


def test_what_it_does_not_know_is_said():
    text = """func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %0 = stablehlo.custom_call @mystery(%x) : (tensor<2xf32>) -> tensor<2xf32>
      return %0 : tensor<2xf32>
    }"""
    with ir.Context() as context:
        module = parse_stablehlo(text, context)
        with pytest.raises(NotEvaluated, match="custom_call"):
            Interpreter(module).call("main", [np.zeros(2, np.float32)])


def test_what_follows_from_fixed_arguments_is_worked_out_once_and_stays_f32():
    def function(x, codes, scale):
        return x @ (codes.astype(jnp.float32) * scale[:, None])

    codes, scale = np.arange(21, dtype=np.int8).reshape(7, 3), np.full(7, 0.3, np.float32)
    text = str(jax.jit(function).lower(X, codes, scale).compiler_ir("stablehlo"))
    with ir.Context() as context:
        interpreter = Interpreter(parse_stablehlo(text, context))
        found = [interpreter.call("main", [x, codes, scale], (1, 2))[0] for x in (X, 2 * X)]
        weights = codes.astype(np.float32) * scale[:, None]
        kept = [each for each in interpreter._fixed.values() if each.shape == (7, 3)]
    assert any(np.array_equal(each, weights) and each.dtype == np.float32 for each in kept)
    np.testing.assert_allclose(found[0], X.astype(float) @ weights, 1e-12)
    np.testing.assert_allclose(found[1], 2 * found[0], 1e-12)


def test_sizes_can_be_those_of_the_arguments():
    def rows(x):
        y = jnp.concatenate([x, jnp.ones((x.shape[0], 1))], 1) * jnp.arange(x.shape[0])[:, None]
        return y.reshape(-1), y @ y.T, jnp.broadcast_to(y.sum(1), (3, x.shape[0])), y[1:]

    program = exporters.export(rows, (X,), dynamic="n=2..9", chunk=0)
    with ir.Context() as context:
        found = Interpreter(parse_stablehlo(program.bytecode, context)).call("main", [X])
    for answer, wanted in zip(found, rows(jnp.asarray(X)), strict=True):
        np.testing.assert_allclose(answer, np.asarray(wanted), 2e-5, 2e-5)
