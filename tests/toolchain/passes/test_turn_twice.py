"""Transposes of an odd innermost axis are turned twice, and give what they should on Vulkan."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from edgec import runtime, toolchain
from edgec.toolchain.passes.simplify.turn_twice import TurnTwice
from tests.toolchain.passes.before_after import rewrite
from tests.toolchain.passes.on_vulkan import lower


@pytest.mark.parametrize(
    ("shape", "order", "count"),
    [
        ((32, 16, 3, 3), (2, 3, 1, 0), 1),
        ((32, 1, 16, 9), (3, 2, 1, 0), 1),
        ((2, 64, 32, 21), (0, 3, 1, 2), 1),
        ((32, 16, 2, 2), (2, 3, 1, 0), 0),  # fours are quick
        ((256, 21), (1, 0), 0),  # nothing lies between two
        ((32, 16, 9), (1, 0, 2), 0),  # the innermost one stays
        ((31, 15, 9), (2, 1, 0), 0),  # all are odd
        ((4, 4, 9), (2, 1, 0), 0),  # few
    ],
)
def test_what_moves_an_odd_innermost_axis_is_turned_twice(shape, order, count: int) -> None:
    text = lower(lambda x: jnp.transpose(x, order), shape)
    done, after = rewrite(TurnTwice(), text)
    assert done == count
    assert after.count("stablehlo.transpose") == 1 + count


@pytest.mark.vulkan
def test_both_ways_round_are_right(tmp_path: Path) -> None:
    def turned(x, y, z):
        return jnp.transpose(x * 2, (2, 3, 1, 0)), jnp.transpose(y, (0, 2, 1)), z.transpose(2, 1, 0)

    random = np.random.default_rng(0)
    shapes = [(24, 32, 3, 3), (2, 1024, 21), (96, 30, 7)]
    given = [random.standard_normal(shape).astype(np.float32) for shape in shapes]
    (tmp_path / "turned.mlir").write_text(lower(turned, *shapes))
    with runtime.load(toolchain.compile(tmp_path / "turned.mlir", "vulkan:android")) as loaded:
        found = loaded.main(*given)
    for ours, theirs in zip(found, turned(*given), strict=True):
        np.testing.assert_array_equal(ours, theirs)
