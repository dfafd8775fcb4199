"""What is reduced from many elements is reduced in chunks, and is right on Vulkan."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edgec import runtime, toolchain
from edgec.toolchain.passes.legalise.split_reductions import ON_CUDA, ON_SUBGROUPS, SplitReductions
from tests.toolchain.passes.before_after import rewrite
from tests.toolchain.passes.on_vulkan import lower


def reductions(module: str) -> list[str]:
    """The types of what is reduced, in order."""
    lines = [line for line in module.splitlines() if " = stablehlo.reduce(" in line]
    return [line.split(": (")[1].split(",")[0] for line in lines]


@pytest.mark.parametrize(
    ("shape", "axes", "expected"),
    [
        ((2, 8192), 1, ["tensor<2x8192xf32>"]),
        ((2, 8194), 1, ["tensor<2x17x482xf32>", "tensor<2x17xf32>"]),
        ((8209,), 0, ["tensor<33x256xf32>", "tensor<33xf32>"]),  # a prime: filled up
        ((3, 100, 5, 100), (1, 3), ["tensor<3x100x5x100xf32>", "tensor<3x100x5xf32>"]),
    ],
    ids=["few", "divided", "filled up", "axes apart"],
)
def test_many_elements_are_reduced_in_steps(
    shape: tuple[int, ...], axes: int | tuple[int, ...], expected: list[str]
) -> None:
    _, after = rewrite(SplitReductions(), lower(lambda x: x.sum(axes), shape))
    assert reductions(after) == expected
    assert after.count("compute_barrier.start") == (len(expected) > 1)


@pytest.mark.parametrize(
    ("axes", "channels", "split"),
    [((1, 2), 64, True), ((1, 2, 3), 64, True), ((1, 2, 3), 10, False), ((3,), 64, False)],
    ids=["columns", "all", "fewer", "rows"],
)
def test_columns_of_many_elements_are_reduced_in_steps_on_cuda(
    axes: tuple[int, ...], channels: int, split: bool
) -> None:
    text = lower(lambda x: x.sum(axes), (1, 112, 112, channels))
    _, after = rewrite(SplitReductions(step=ON_CUDA), text)
    assert len(reductions(after)) == (2 if split else 1)


@pytest.mark.parametrize(("size", "filled"), [(1002, 1024), (197, 256), (96, 0), (160, 0), (77, 0)])
def test_rows_that_subgroups_do_not_share_are_filled_up(size: int, filled: int) -> None:
    text = lower(lambda x: x.max(1), (12, size))
    count, after = rewrite(SplitReductions(step=ON_SUBGROUPS), text)
    assert count == bool(filled)
    assert reductions(after)[-1] == f"tensor<12x{filled or size}xf32>"
    assert rewrite(SplitReductions(), text)[0] == 0
    assert rewrite(SplitReductions(step=ON_SUBGROUPS), text.replace("<12x", "<2048x"))[0] == 0


@pytest.mark.vulkan
def test_rows_that_are_filled_up_give_what_numpy_gives(tmp_path: Path) -> None:
    x = -np.abs(np.random.default_rng(4).standard_normal((5, 333))).astype(np.float32)
    text = lower(lambda x: (x.max(1), x.sum(1), (x * x).min(1)), x.shape)
    count, after = rewrite(SplitReductions(step=ON_SUBGROUPS), text)
    assert count == 3
    (tmp_path / "case.mlir").write_text(after)
    with runtime.load(toolchain.compile(tmp_path / "case.mlir", "vulkan")) as loaded:
        found = loaded.main(x)
    for ours, theirs in zip(found, (x.max(1), x.sum(1), (x * x).min(1)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_the_largest_element_s_place_is_looked_for_in_steps_on_cuda() -> None:
    _, after = rewrite(SplitReductions(step=ON_CUDA), lower(lambda x: x.argmax(0), (49_152,)))
    assert reductions(after) == ["tensor<384x128xf32>", "tensor<384xf32>"]


def test_the_likeliest_of_many_tokens_is_looked_for_in_steps_by_any_gpu() -> None:
    _, after = rewrite(SplitReductions(), lower(lambda x: x.argmax(1), (1, 49_152)))
    sizes = ["1x384x128", "1x3x128", "1x3"]
    assert reductions(after) == [f"tensor<{each}xf32>" for each in sizes]


def test_elements_without_end_are_reduced_in_as_many_steps_as_it_takes() -> None:
    _, after = rewrite(SplitReductions(), lower(jnp.sum, (16 * 1024 * 1024,)))
    assert reductions(after) == [
        "tensor<16384x1024xf32>",
        "tensor<16x1024xf32>",
        "tensor<16xf32>",
    ]


@pytest.mark.vulkan
def test_sums_maxima_and_their_places_are_right_on_vulkan(tmp_path: Path) -> None:
    """More elements than llvmpipe's loops have rounds (65,535)."""

    def program(x, n):
        return x.sum(1), x.argmax(1), jax.nn.softmax(x, 1).max(1), (n * n).sum((0, 2)), n.max()

    rng = np.random.default_rng(1)
    x = rng.uniform(0, 1, (2, 140_009)).astype(np.float32)
    n = rng.integers(-9, 9, (300, 2, 301)).astype(np.int32)
    text = str(jax.jit(program).lower(x, n).compiler_ir("stablehlo"))
    (tmp_path / "many.mlir").write_text(text)
    with runtime.load(toolchain.compile(tmp_path / "many.mlir", "vulkan")) as loaded:
        total, place, most, squares, largest = loaded.main(x, n)
    np.testing.assert_allclose(total, x.sum(1, dtype=np.float64), rtol=1e-5)
    np.testing.assert_array_equal(place, x.argmax(1))
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(most, (e / e.sum(1, keepdims=True)).max(1), rtol=1e-4)
    np.testing.assert_array_equal(squares, (n * n).sum((0, 2)))
    assert largest == n.max()
