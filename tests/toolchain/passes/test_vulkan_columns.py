"""Sums of columns, and products of single rows, become one dispatch each that computes them."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edgec.toolchain.kernels.spec import Declined, Kernel
from tests.toolchain.passes.on_vulkan import answers, lower, place


def numbers(*shape):
    values = np.random.default_rng(shape).standard_normal(shape)
    return (values / np.sqrt(shape[-1])).astype(np.float32)


def dispatches(text: str) -> list[str]:
    return re.findall(r"flow\.dispatch @edgec_(\w+?)_f\d\d_\w{8}::", text)


def test_the_mean_of_an_image_is_one_dispatch() -> None:
    after, (outcome,) = place(lower(lambda x: jnp.mean(x, (1, 2)), (2, 7, 9, 24)), "sum")
    assert isinstance(outcome, Kernel)
    assert dispatches(after) == ["columns"]
    assert "stablehlo.reduce" not in after
    assert "stablehlo.divide" not in after


def test_a_mean_of_halves_is_rounded_once() -> None:
    def function(x):
        total = jnp.sum(x, (1, 2), dtype=jnp.float32).astype(jnp.float16)
        return total.reshape(2, 1, 1, 24) / 63

    text = lower(function, (2, 7, 9, 24), dtype="float16")
    after, (outcome,) = place(text, "sum")
    assert isinstance(outcome, Kernel)
    assert "-> tensor<2x24xf16>" in after
    assert "stablehlo.convert" not in after
    assert "stablehlo.divide" not in after


@pytest.mark.parametrize(
    ("function", "shape", "reason"),
    [
        (lambda x: jnp.sum(x, 0), (8, 24), "8 rows to sum"),
        (lambda x: jnp.sum(x, 0), (64, 30), "30 columns, not fours"),
    ],
)
def test_what_no_kernel_takes_is_said(function, shape, reason) -> None:
    after, (outcome,) = place(lower(function, shape), "sum")
    assert isinstance(outcome, Declined)
    assert outcome.reason == reason
    assert "stablehlo.reduce" in after


@pytest.mark.parametrize(
    "function",
    [lambda x: jnp.sum(x, 1), lambda x: jnp.max(x, 0), lambda x: jnp.sum(x, (0, 2))],
    ids=["over the last axis", "no sum", "over axes apart"],
)
def test_other_reductions_are_no_such_sums(function) -> None:
    shape = (64, 24, 3) if function.__code__.co_consts[-1] == (0, 2) else (64, 24)
    _, outcomes = place(lower(function, shape), "sum")
    assert outcomes == []


def test_a_product_of_one_row_and_what_follows_is_one_dispatch() -> None:
    def function(x, w, b):
        return jax.nn.relu(x @ w + b)

    after, (outcome,) = place(lower(function, (1, 40), (40, 12), (12,)), "product")
    assert isinstance(outcome, Kernel)
    assert dispatches(after) == ["columns_by_vector"]
    assert "stablehlo.add" not in after


def convolve(x, w):
    return jax.lax.conv_general_dilated(
        x, w, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


@pytest.mark.parametrize("window", [1, 3])
def test_a_window_over_all_of_an_image_is_such_a_product(window: int) -> None:
    shapes = ((1, window, window, 40), (window, window, 40, 12))
    after, (outcome,) = place(lower(convolve, *shapes), "convolution")
    assert isinstance(outcome, Kernel)
    assert dispatches(after) == ["columns_by_vector"]


def test_columns_are_filled_up_to_a_piece_of_memory() -> None:
    after, (outcome,) = place(lower(lambda x, w: x @ w, (512, 128), (128, 21)), "product")
    assert isinstance(outcome, Kernel)
    assert "stablehlo.dot_general" not in after
    assert re.search(r"stablehlo\.slice .*tensor<1x512x24xf32>\) -> tensor<1x512x21xf32>", after)


def test_outputs_of_a_convolution_are_filled_up_as_well() -> None:
    shapes = ((1, 32, 32, 64), (3, 3, 64, 21))
    after, (outcome,) = place(lower(convolve, *shapes), "convolution")
    assert isinstance(outcome, Kernel)
    assert "stablehlo.convolution" not in after
    assert re.search(r"stablehlo\.slice .*tensor<1x900x24xf32>\) -> tensor<1x900x21xf32>", after)


CASES = {
    "mean of an image": (lambda x: jnp.mean(x, (1, 2)), ((2, 7, 9, 24),)),
    "sum of many columns": (lambda x: jnp.sum(x, 0), ((19, 9000),)),
    "one row": (lambda x, w, b: jax.nn.relu(x @ w + b), ((1, 70), (70, 12), (12,))),
    "rows by matrices": (lambda x, w: jax.nn.silu(x @ w), ((5, 1, 40), (5, 40, 8))),
    "one row by many columns": (lambda x, w: x @ w, ((1, 33), (33, 9000))),
    "a window over all of an image": (convolve, ((1, 3, 3, 40), (3, 3, 40, 12))),
    "21 outputs": (
        lambda x, w, b: jnp.moveaxis(convolve(x, w) + b, 3, 1),
        ((1, 32, 32, 64), (3, 3, 64, 21), (21,)),
    ),
    "21 columns": (lambda x, w, b: (x @ w + b).T, ((512, 128), (128, 21), (21,))),
}


@pytest.mark.vulkan
def test_answers_are_those_of_jax(tmp_path) -> None:
    shapes = [shape for _, shapes in CASES.values() for shape in shapes]

    def every(*arrays):
        given, found = list(arrays), []
        for function, shapes in CASES.values():
            found.append(function(*given[: len(shapes)]))
            given = given[len(shapes) :]
        return tuple(found)

    text, outcomes = place(lower(every, *shapes), "")
    kernels = [outcome.name for outcome in outcomes if isinstance(outcome, Kernel)]
    assert sum(not name.startswith("edge_") for name in kernels) == len(CASES)
    arrays = [numbers(*shape) for shape in shapes]
    for name, got, wanted in zip(
        CASES, answers(text, tmp_path, arrays), every(*arrays), strict=True
    ):
        np.testing.assert_allclose(got, wanted, 1e-4, 1e-4, err_msg=name)
