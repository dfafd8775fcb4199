"""Wide windows are windows of windows, running sums go by rows, and both are right on Vulkan."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.lax import add, cummax, cumsum, reduce_window
from jax.lax import max as most_of

from edgec import runtime, toolchain
from edgec.toolchain.passes.legalise.split_windows import SplitWindows
from tests.toolchain.passes.before_after import rewrite
from tests.toolchain.passes.on_vulkan import lower

DRAW = np.random.default_rng(3)


def numbers(*shape: int) -> np.ndarray:
    return DRAW.uniform(0, 1, shape).astype(np.float32)


def windows(module: str) -> int:
    return module.count('"stablehlo.reduce_window"(')


def several(x, n):
    """Windows of all kinds, and running sums."""
    return (
        reduce_window(x, 0.0, add, (1, 1, 23), (1, 1, 1), "SAME"),
        reduce_window(x, 0.0, add, (1, 1, 12), (1, 1, 2), "VALID", None, (1, 1, 2)),
        reduce_window(x, -jnp.inf, most_of, (1, 3, 17), (1, 2, 1), "SAME"),
        reduce_window(n, 0, add, (1, 20), (1, 1), ((0, 0), (4, 7)), (1, 2)),
        *(cumsum(x, axis) for axis in range(2)),
        cumsum(x, 2, reverse=True),
        cummax(x, 2),
    )


def test_windows_and_running_sums_are_right_in_pieces(tmp_path: Path) -> None:
    x, n = numbers(3, 5, 41), DRAW.integers(-9, 9, (2, 19)).astype(np.int32)
    text = str(jax.jit(several).lower(x, n).compiler_ir("stablehlo"))
    count, after = rewrite(SplitWindows(most=4, rounds=4), text)
    assert count == 7  # the sum over the axis of 3 stays
    (tmp_path / "pieces.mlir").write_text(after)
    with runtime.load(toolchain.compile(tmp_path / "pieces.mlir", "cpu")) as loaded:
        found = loaded.main(x, n)
    for ours, theirs in zip(found, several(x, n), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


@pytest.mark.parametrize(
    ("function", "size", "expected"),
    [
        (lambda x: reduce_window(x, 0.0, add, (1024,), (1,), "SAME"), 4000, 0),
        (lambda x: reduce_window(x, 0.0, add, (1600,), (1,), "SAME"), 4000, 1),
        (lambda x: reduce_window(x, 0.0, add, (2000,), (2000,), "VALID"), 4000, 0),
        (jnp.cumsum, 32768, 0),
        (jnp.cumsum, 32769, 1),
    ],
    ids=["narrow", "wide", "apart", "a short sum", "a long sum"],
)
def test_what_the_compiler_does_well_is_left_to_it(function, size: int, expected: int) -> None:
    count, after = rewrite(SplitWindows(), lower(function, (size,)))
    assert count == expected
    assert windows(after) == (2 if expected else 1)


@pytest.mark.vulkan
def test_more_elements_than_a_loop_has_rounds_are_right_on_vulkan(tmp_path: Path) -> None:
    """llvmpipe's loops have 65,535."""
    x = numbers(2, 70_001)

    def program(x):
        far = reduce_window(x, 0.0, add, (1, 66_000), (1, 2), "VALID")
        return cumsum(x, 1), cumsum(x, 1, reverse=True), cummax(x, 1), far

    text = str(jax.jit(program).lower(x).compiler_ir("stablehlo"))
    (tmp_path / "long.mlir").write_text(text)
    with runtime.load(toolchain.compile(tmp_path / "long.mlir", "vulkan")) as loaded:
        sums, back, most, far = loaded.main(x)
    exact = np.cumsum(x, 1, dtype=np.float64)
    np.testing.assert_allclose(sums, exact, rtol=1e-5)
    backwards = np.cumsum(x[:, ::-1], 1, dtype=np.float64)[:, ::-1]
    np.testing.assert_allclose(back, backwards, rtol=1e-5)
    np.testing.assert_array_equal(most, np.maximum.accumulate(x, 1))
    before = np.pad(exact, ((0, 0), (1, 0)))
    np.testing.assert_allclose(far, (before[:, 66_000:] - before[:, :-66_000])[:, ::2], rtol=1e-5)
