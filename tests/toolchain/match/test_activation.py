"""What an expression over one number is: proved where it has corners, else to 1e-6."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from iree.compiler import ir

from edgec.toolchain.match.activation import (
    Clip,
    Gate,
    activation,
    agrees,
    bounds,
    gelu,
    is_identity,
)
from edgec.toolchain.match.expression import Step, evaluate_steps
from edgec.toolchain.match.piecewise import piecewise
from edgec.toolchain.match.tail import find_tails
from edgec.toolchain.passes.simplify.inline_calls import InlineCalls


def steps_of(function, dtype="float32") -> tuple[Step, ...]:
    """The steps after a product that a function of its result becomes."""
    specs = [jax.ShapeDtypeStruct(shape, jnp.dtype(dtype)) for shape in ((4, 8), (8, 16))]
    text = str(jax.jit(lambda x, w: function(x @ w)).lower(*specs).compiler_ir("stablehlo"))
    with ir.Context():
        module = ir.Module.parse(text)
        InlineCalls().run(module)
        (main,) = module.body.operations
        block = main.regions[0].blocks[0]
        (dot,) = (op for op in block.operations if op.operation.name == "stablehlo.dot_general")
        tail = find_tails(dot.results[0], 16)[-1]
        assert tail.value == list(block.operations)[-1].operands[0]
        return tail.steps


CLIPS = {
    "relu": (jax.nn.relu, Clip(low=0.0)),
    "relu by a choice": (lambda y: jnp.where(y > 0, y, 0.0), Clip(low=0.0)),
    "relu6": (jax.nn.relu6, Clip(low=0.0, high=6.0)),
    "a bound above relu": (lambda y: jnp.minimum(jax.nn.relu(y), 20.0), Clip(low=0.0, high=20.0)),
    "a small slope": (lambda y: jnp.maximum(y, 0.001 * y), Clip(slope=0.001)),
    "leaky relu": (jax.nn.leaky_relu, Clip(slope=0.01)),
    "bounds": (lambda y: jnp.clip(y, -1.5, 2.5), Clip(low=-1.5, high=2.5)),
    "a size": (jnp.abs, Clip(slope=-1.0)),
    "twice": (lambda y: jax.nn.relu(jax.nn.relu(y)) + 0.0, Clip(low=0.0)),
    "bounds without end": (
        lambda y: jax.lax.clamp(-jnp.inf, jax.lax.clamp(0.0, y, jnp.inf), 6.0),
        Clip(low=0.0, high=6.0),
    ),
    "the least there is": (lambda y: jnp.maximum(jax.nn.relu(y), -jnp.inf), Clip(low=0.0)),
    "what cannot reach": (
        lambda y: jnp.maximum(jnp.clip(y, -1.0, 1.0), -2.0),
        Clip(low=-1, high=1),
    ),
}


@pytest.mark.parametrize("name", CLIPS)
def test_a_clip_is_proved_by_its_structure(name) -> None:
    function, wanted = CLIPS[name]
    found = bounds(steps_of(function))
    assert found is not None
    assert found.slope == pytest.approx(wanted.slope)
    assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high))
    x = np.linspace(-30, 30, 1001)
    np.testing.assert_allclose(found.value(x), np.asarray(function(x)), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "function",
    [
        lambda y: jnp.where(y > 0.5, y, 0.0),
        lambda y: jnp.maximum(y, 0.001 * y + 0.01),
        lambda y: jnp.where(jnp.abs(y) < 1e-4, 1.0, jax.nn.relu(y)),
        lambda y: jax.nn.relu(y) * 1.0001,
        lambda y: jax.nn.relu(y + 1e-4),
        lambda y: jnp.maximum(y, jnp.inf),
        jnp.tanh,
        lambda y: y * y,
    ],
)
def test_what_only_resembles_a_clip_is_none(function) -> None:
    assert bounds(steps_of(function)) is None


GATES = {
    "gelu by tanh": (jax.nn.gelu, Gate.GELU_TANH),
    "gelu by erf": (lambda y: 0.5 * y * (1 + jax.lax.erf(y / math.sqrt(2))), Gate.GELU),
    "silu": (jax.nn.silu, Gate.SILU),
    "silu written out": (lambda y: y / (1 + jnp.exp(-y)), Gate.SILU),
    "sigmoid": (jax.nn.sigmoid, Gate.SIGMOID),
    "tanh": (jnp.tanh, Gate.TANH),
    "hard swish": (lambda y: y * jax.nn.relu6(y + 3) / 6, Gate.HARD_SWISH),
    "hard swish without ends": (
        lambda y: y * jnp.minimum(jnp.maximum(y + 3, 0), jnp.inf).clip(-jnp.inf, 6) / 6,
        Gate.HARD_SWISH,
    ),
    "hard swish by bounds": (lambda y: y * jnp.clip(y / 6 + 0.5, 0, 1), Gate.HARD_SWISH),
    "hard sigmoid": (jax.nn.hard_sigmoid, Gate.HARD_SIGMOID),
}


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        (name, dtype)
        for name in GATES
        for dtype in ("float32", "float16", "bfloat16")
        # 1 / 6 rounded to a half is another slope.
        if dtype == "float32" or name != "hard swish by bounds"
    ],
)
def test_an_activation_is_known_however_it_is_written(name, dtype) -> None:
    function, wanted = GATES[name]
    assert activation(steps_of(function, dtype)) is wanted


@pytest.mark.parametrize(
    "function",
    [
        lambda y: y / (1 + jnp.exp(-1.00001 * y)),
        lambda y: jnp.minimum(jax.nn.silu(y), 1e6),
        lambda y: jnp.where(jnp.abs(y - 0.31234) < 1e-5, 0.0, jax.nn.gelu(y)),
        lambda y: y * jax.nn.relu6(y + 3.0001) / 6,
        lambda y: jax.nn.gelu(y) + 1e-5,
    ],
)
def test_what_only_resembles_an_activation_is_none(function) -> None:
    assert activation(steps_of(function)) is None


def test_conversions_alone_change_nothing() -> None:
    assert is_identity(steps_of(lambda y: y.astype(jnp.float32) * 1.0 + 0.0, "float16"))
    assert not is_identity(steps_of(lambda y: y * 1.001))


@pytest.mark.parametrize(
    "function",
    [
        lambda y: jnp.maximum(y * y, 3 - y),
        lambda y: jnp.where((y > -1) & (y <= 2), y * y, jnp.abs(y) - 1),
        lambda y: jnp.clip(y * y - 2, -1, 5) / 3,
        lambda y: -jnp.minimum(jnp.maximum(2 * y, y - 1), 0.25 * y * y),
    ],
)
def test_pieces_compute_what_the_steps_do(function) -> None:
    steps = steps_of(function)
    found = piecewise(steps)
    assert found is not None
    x = np.linspace(-7.0003, 7.0001, 997)
    wanted = evaluate_steps(steps, x)
    got = [sum(c * place**power for power, c in enumerate(found.at(place))) for place in x]
    np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-12)


def _forms(y):
    """GELU in one form below 1.5 and in another above."""
    below = 0.5 * y * jax.scipy.special.erfc(-y * math.sqrt(0.5))
    return jnp.where(y < 1.5, below, 0.5 * y * (1 + jax.lax.erf(y * math.sqrt(0.5))))


@pytest.mark.parametrize(
    ("function", "same"),
    [
        (_forms, True),
        (lambda y: jnp.where(y != y, jnp.nan, _forms(y)), True),
        (lambda y: jnp.where(y == 1.2345, 7.0, _forms(y)), False),
        (lambda y: jnp.where((y > 0.50001) & (y < 0.50002), 7.0, _forms(y)), False),
        (lambda y: jnp.minimum(_forms(y), 1e30), False),
        (lambda y: jnp.where(jnp.sin(1e9 * y) < 1.5, _forms(y), 7.0), False),
        (lambda y: 1.00001 * _forms(y), False),
    ],
    ids=["two forms", "no number", "one number", "a bump", "a bound", "unknown corners", "off"],
)
def test_forms_of_a_smooth_function_are_it_where_their_corners_are_known(function, same) -> None:
    assert agrees(steps_of(function), gelu) is same
