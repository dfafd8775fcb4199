"""A value turned along an axis is known by the two parts that it is joined of, and no other is."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from iree.compiler import ir

from edgec.toolchain.ir.functions import inside
from edgec.toolchain.ir.rotations import rotation
from edgec.toolchain.ir.views import before, identity
from edgec.toolchain.passes.simplify.inline_calls import InlineCalls

SHAPE = (3, 5, 7)


def joins(module) -> list:
    return [op for op in inside(module.operation) if op.name == "stablehlo.concatenate"]


def parsed(function) -> ir.Module:
    spec = jax.ShapeDtypeStruct(SHAPE, jnp.float32)
    module = ir.Module.parse(str(jax.jit(function).lower(spec).compiler_ir("stablehlo")))
    InlineCalls().run(module)
    return module


def seen(module) -> np.ndarray:
    """The numbers of the result, read out of the argument's memory through a view."""
    view = identity(list(module.body.operations[0].regions[0].blocks[0].operations)[-1].operands[0])
    while (further := before(view, rolls=True)) is not None:
        view = further
    assert isinstance(view.value.owner, ir.Block)
    places = np.zeros([1] * len(view.axes), int)
    for axis, digits in enumerate(view.axes):
        along = np.zeros(1, int)
        for digit in digits:
            along = (along[:, None] + digit.step * np.arange(digit.size)).reshape(-1)
        places = places + along.reshape([-1 if i == axis else 1 for i in range(len(view.axes))])
    places += view.start
    for roll in view.rolls:
        index = places // roll.step % roll.size
        places += ((index + roll.shift) % roll.size - index) * roll.step
    return np.arange(np.prod(SHAPE)).reshape(-1)[places]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: jnp.roll(x, 2, 1),
        lambda x: jnp.roll(x, (-1, 4), (0, 2)),
        lambda x: jnp.roll(jnp.roll(x, 3, 2), -1, 2),
        lambda x: jnp.roll(x, (1, 2), (1, 2)).transpose(2, 0, 1)[2:5],
        lambda x: jnp.roll(x.transpose(1, 2, 0), (1, 2), (0, 1)).reshape(35, 3),
    ],
)
def test_what_is_turned_is_seen_where_it_lies(function) -> None:
    numbers = jnp.arange(float(np.prod(SHAPE))).reshape(SHAPE)
    with ir.Context(), ir.Location.unknown():
        np.testing.assert_array_equal(seen(parsed(function)), np.asarray(function(numbers)))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: jnp.concatenate([x[:, 2:], x[:, :3]], 1),
        lambda x: jnp.concatenate([x[:, :2], x[:, 2:]], 1),
        lambda x: jnp.concatenate([x[:2, 2:], x[:2, :2]], 1),
        lambda x: jnp.concatenate([x[:, 2:], (x + 1)[:, :2]], 1),
        lambda x: jnp.concatenate([x[:, 2:], x[:, :1], x[:, 1:2]], 1),
    ],
)
def test_other_joins_turn_nothing(function) -> None:
    with ir.Context(), ir.Location.unknown():
        module = parsed(function)
        (join,) = joins(module)
        assert rotation(join) is None
