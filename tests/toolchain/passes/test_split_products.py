"""What sums very many products sums them in chunks, and is right on Vulkan."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.lax import conv_general_dilated

from edgec import runtime, toolchain
from edgec.toolchain.passes.legalise.split_products import SplitProducts
from tests.toolchain.passes.before_after import rewrite
from tests.toolchain.passes.on_vulkan import lower

DRAW = np.random.default_rng(2)


def numbers(*shape: int) -> np.ndarray:
    return DRAW.uniform(-1, 1, shape).astype(np.float32)


@pytest.mark.parametrize(
    ("equation", "left", "right", "expected"),
    [
        ("k,k->", (32768,), (32768,), None),
        ("k,k->", (200_000,), (200_000,), ["tensor<800x250xf32>"]),
        ("mk,kn->mn", (64, 131_072), (131_072, 64), ["tensor<16x64x64xf32>"]),
        # No divisor is near: the rest is filled up.
        ("bk,bk->b", (2, 65_537), (2, 65_537), ["tensor<2x257x256xf32>", "tensor<2x257xf32>"]),
    ],
    ids=["few", "vectors", "matrices", "filled up"],
)
def test_chunks_become_an_axis_of_the_batch(
    equation: str, left: tuple[int, ...], right: tuple[int, ...], expected: list[str] | None
) -> None:
    text = lower(lambda x, y: jnp.einsum(equation, x, y), left, right)
    count, after = rewrite(SplitProducts(), text)
    assert count == (expected is not None)
    assert all(each in after for each in expected or ())
    assert ("stablehlo.reduce" in after) == (expected is not None)


CONVOLUTIONS = {
    "strides, padding, both dilations": (
        *((2, 9, 8, 3), (5, 3, 3, 4), ("NHWC", "HWIO", "NHWC")),
        *({"window_strides": (2, 1), "padding": ((2, 1), (1, 0))},),
        {"lhs_dilation": (2, 1), "rhs_dilation": (2, 1)},
    ),
    "inputs, channels first": (
        *((1, 40, 5, 5), (6, 40, 2, 2), ("NCHW", "OIHW", "NCHW")),
        *({"window_strides": (1, 1), "padding": "SAME"}, {}),
    ),
    "groups": (
        *((1, 30, 4), (13, 2, 6), ("NWC", "WIO", "NWC")),
        *({"window_strides": (1,), "padding": ((3, 4),)}, {"feature_group_count": 2}),
    ),
}


def test_convolutions_are_right_in_parts_of_windows_and_inputs(tmp_path: Path) -> None:
    arrays = [numbers(*shape) for each in CONVOLUTIONS.values() for shape in each[:2]]

    def program(*operands: jax.Array) -> list[jax.Array]:
        return [
            conv_general_dilated(
                *operands[2 * n : 2 * n + 2], dimension_numbers=names, **some, **more
            )
            for n, (_, _, names, some, more) in enumerate(CONVOLUTIONS.values())
        ]

    text = lower(program, *(array.shape for array in arrays))
    count, after = rewrite(SplitProducts(most=16), text)
    assert count == len(CONVOLUTIONS)
    assert after.count("stablehlo.convolution(") > 2 * count
    (tmp_path / "parts.mlir").write_text(after)
    with runtime.load(toolchain.compile(tmp_path / "parts.mlir", "cpu")) as loaded:
        found = loaded.main(*arrays)
    for ours, theirs in zip(found, program(*arrays), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


@pytest.mark.vulkan
def test_more_products_than_a_loop_has_rounds_are_right_on_vulkan(tmp_path: Path) -> None:
    """llvmpipe's loops have 65,535."""
    x, y = numbers(140_009), numbers(3, 140_009)
    w, z = numbers(66_000, 1, 2), numbers(1, 66_003, 1)

    def program(x, y, w, z):
        numbers_ = ("NWC", "WIO", "NWC")
        ones = (1 + 0 * x).astype(jnp.int32)
        convolved = conv_general_dilated(z, w, (1,), "VALID", dimension_numbers=numbers_)
        return x @ x, y @ x, jnp.dot(ones, ones), convolved

    text = str(jax.jit(program).lower(x, y, w, z).compiler_ir("stablehlo"))
    (tmp_path / "many.mlir").write_text(text)
    with runtime.load(toolchain.compile(tmp_path / "many.mlir", "vulkan")) as loaded:
        square, rows, count, convolved = loaded.main(x, y, w, z)
    x, y, w, z = (each.astype(np.float64) for each in (x, y, w, z))
    np.testing.assert_allclose(square, x @ x, rtol=1e-5)
    np.testing.assert_allclose(rows, y @ x, atol=1e-2)
    assert count == 140_009
    exact = np.stack([z[0, n : n + 66_000, 0] @ w[:, 0] for n in range(4)])[None]
    np.testing.assert_allclose(convolved, exact, atol=1e-2)
