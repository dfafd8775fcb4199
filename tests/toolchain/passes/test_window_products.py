"""Gradients of convolutions on the CPU, in all layouts, against JAX; no size is round."""

from pathlib import Path

import jax
import numpy as np
import pytest

from edgec import exporters, runtime, toolchain
from edgec.toolchain import run_passes

LAST, FIRST = ("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW")
DEEP = ("NDHWC", "DHWIO", "NDHWC")
CASES = {
    "channels last": ((2, 9, 11, 17), (3, 3, 17, 21), {"dimension_numbers": LAST}),
    "channels first": ((2, 17, 9, 11), (21, 17, 3, 3), {"dimension_numbers": FIRST}),
    "a stem": (
        (2, 3, 19, 17),
        (32, 3, 7, 7),
        {"dimension_numbers": FIRST, "window_strides": (2, 2)},
    ),
    "pixels that no window meets": (
        (2, 12, 15, 3),
        (2, 2, 3, 16),
        {"dimension_numbers": LAST, "window_strides": (3, 2), "padding": "VALID"},
    ),
    "dilated, more zeros on one side": (
        (2, 5, 14, 13),
        (19, 5, 3, 2),
        {"dimension_numbers": FIRST, "rhs_dilation": (2, 3), "padding": ((0, 2), (3, 1))},
    ),
    "groups": (
        (3, 9, 9, 12),
        (3, 3, 4, 48),
        {"dimension_numbers": LAST, "feature_group_count": 3, "window_strides": (2, 1)},
    ),
    "a window a channel": (
        (2, 13, 10, 37),
        (3, 3, 1, 37),
        {"dimension_numbers": LAST, "feature_group_count": 37, "window_strides": (2, 1)},
    ),
    "a window a channel, channels first": (
        (3, 21, 9, 8),
        (21, 1, 5, 2),
        {"dimension_numbers": FIRST, "feature_group_count": 21, "rhs_dilation": (1, 2)},
    ),
    "narrow groups": (
        (2, 8, 7, 36),
        (3, 2, 3, 24),
        {"dimension_numbers": LAST, "feature_group_count": 12},
    ),
    "a number a channel": (
        (2, 8, 7, 5),
        (1, 1, 1, 40),
        {"dimension_numbers": LAST, "feature_group_count": 5},
    ),
    "one pixel": (
        (4, 40, 7, 7),
        (24, 40, 1, 1),
        {"dimension_numbers": FIRST, "window_strides": (2, 2), "padding": "VALID"},
    ),
    "one axis": ((3, 29, 6), (5, 6, 33), {"dimension_numbers": ("NWC", "WIO", "NWC")}),
    "three axes": ((2, 5, 6, 7, 4), (2, 3, 2, 4, 20), {"dimension_numbers": DEEP}),
}


def gradient(case):
    """The gradients of image and weights as a function of what came back, and its inputs."""
    image, window, how = CASES[case]
    how = {"padding": "SAME", **how}
    rank = len(image) - 2
    strides = how.pop("window_strides", (1,) * rank)

    def forward(x, w):
        return jax.lax.conv_general_dilated(x, w, strides, **how)

    random = np.random.default_rng(5)
    x, w = (random.standard_normal(size).astype(np.float32) for size in (image, window))
    given = random.standard_normal(jax.eval_shape(forward, x, w).shape).astype(np.float32)

    def backward(x, w, given):
        return jax.vjp(forward, x, w)[1](given)

    return backward, (x, w, given)


def all_of_them(*inputs):
    pairs = zip(CASES, inputs, strict=True)
    return tuple(each for case, some in pairs for each in gradient(case)[0](*some))


@pytest.mark.parametrize("target", ["cpu", pytest.param("cpu:x86-64-v2", marks=pytest.mark.slow)])
def test_gradients_are_right_in_every_layout(target: str, tmp_path: Path) -> None:
    inputs = [gradient(case)[1] for case in CASES]
    program = exporters.export(all_of_them, inputs)
    options = toolchain.CompileOptions(output=tmp_path / "all.vmfb", check=False)
    toolchain.compile(program, target, options)
    with runtime.load(options.output) as module:
        found = module["main"].call_flat([each for some in inputs for each in some])
    results = iter(found)
    for case, some in zip(CASES, inputs, strict=True):
        with jax.enable_x64(True):
            expected = gradient(case)[0](*(each.astype(np.float64) for each in some))
        for wanted in map(np.asarray, expected):
            worst = np.abs(next(results).numpy() - wanted).max() / np.abs(wanted).max()
            assert worst < 2e-6, case


def test_an_image_of_one_row_or_column_meets_the_zeros_around_it(tmp_path: Path) -> None:
    random = np.random.default_rng(6)
    sizes = [(1, 1, 3), (2, 1, 2), (1, 3, 1), (1, 1, 1), (1, 2, 3)]
    images = [random.standard_normal((*size, 4)).astype(np.float32) for size in sizes]
    window = random.standard_normal((3, 3, 4, 8)).astype(np.float32)

    def forward(window, *images):
        return [
            jax.lax.conv_general_dilated(x, window, (1, 1), "SAME", dimension_numbers=LAST)
            for x in images
        ]

    program = exporters.export(forward, (window, *images))
    options = toolchain.CompileOptions(output=tmp_path / "all.vmfb", check=False)
    toolchain.compile(program, "cpu", options)
    with runtime.load(options.output) as module:
        found = [each.numpy() for each in module["main"].call_flat([window, *images])]
    for answer, image in zip(found, images, strict=True):
        wide = np.pad(image, ((0, 0), (1, 1), (1, 1), (0, 0)))
        high, across = image.shape[1:3]
        expected = sum(
            wide[:, y : y + high, x : x + across] @ window[y, x] for y in range(3) for x in range(3)
        )
        np.testing.assert_allclose(answer, expected, atol=1e-5)


@pytest.mark.sweep(fast=5)
@pytest.mark.parametrize("case", CASES)
def test_that_of_weights_is_one_kernel(case: str) -> None:
    backward, inputs = gradient(case)
    program = exporters.export(lambda *given: backward(*given)[1], inputs)
    report = run_passes(program, "cpu:x86-64-v4")
    assert report.kernels is not None
    assert not [left for left in report.kernels.left if "convolution" in left.what]


@pytest.mark.parametrize("case", ["channels last", "channels first"])
def test_weights_of_the_gradient_of_an_image_are_turned_by_one_kernel(case, tmp_path) -> None:
    backward, inputs = gradient(case)
    program = exporters.export(lambda *given: backward(*given)[0], inputs)
    options = toolchain.CompileOptions(keep_temps=tmp_path, cache=False)
    report = run_passes(program, "cpu:x86-64-v4", options)
    assert report.kernels is not None
    assert not [left for left in report.kernels.left if "convolution" in left.what]
    names = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"edgec_pack_189x17" in names
    assert b"reverse" not in names


def test_few_channels_are_declined_with_a_reason() -> None:
    def backward(x, w, given):
        def forward(w):
            return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=LAST)

        return jax.vjp(forward, w)[1](given)[0]

    inputs = [np.zeros(s, np.float32) for s in ((2, 9, 9, 20), (3, 3, 20, 3), (2, 9, 9, 3))]
    report = run_passes(exporters.export(backward, inputs), "cpu:x86-64-v4")
    assert report.kernels is not None
    assert "3 results of a place" in {left.reason for left in report.kernels.left}
