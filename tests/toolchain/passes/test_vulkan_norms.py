"""Norms through Vulkan: one kernel over any axes, right on any device here."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edgec.toolchain.kernels.spec import Declined, Kernel
from edgec.toolchain.kernels.vulkan import library
from edgec.toolchain.kernels.vulkan.forms import NORM_FORMS
from edgec.toolchain.kernels.vulkan.prebuilt import Prebuilt
from tests.toolchain.passes.on_vulkan import answers, glslang, lower, place


def over(axes, x):
    y = x - x.mean(axes, keepdims=True)
    return y * jax.lax.rsqrt((y * y).mean(axes, keepdims=True) + 1e-5)


def root_mean_square(x, scale):
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * scale


def by_group(image, scale, shift):
    grouped = over((2, 3, 4), image.reshape(2, 4, 9, 7, 8)).reshape(image.shape)
    return grouped * scale[:, None, None] + shift[:, None, None]


def by_group_last(image, scale):
    return over((1, 3), image.reshape(2, 21, 4, 12)).reshape(image.shape) * scale


CASES = {
    "layer": (lambda x, a, b: over(-1, x) * a + b, [(19, 96), (96,), (96,)], "narrow"),
    "layer, wide": (lambda x, a, b: over(-1, x) * a + b, [(5, 768), (768,), (768,)], "row"),
    "layer, odd": (lambda x, b: over(-1, x) + b, [(3, 7, 51), (51,)], "row_single"),
    "root mean square": (root_mean_square, [(9, 2048), (2048,)], "wide"),
    "long": (lambda x: over(-1, x), [(3, 9000)], "long"),
    "channels first": (
        lambda x, a, b: over(1, x) * a[:, None, None] + b[:, None, None],
        [(2, 48, 6, 10), (48,), (48,)],
        "columns",
    ),
    "many channels first, odd": (
        lambda x, a: over(1, x) * a[:, None, None],
        [(2, 300, 7, 7), (300,)],
        "deep_single",
    ),
    "groups": (by_group, [(2, 36, 7, 8), (36,), (36,)], "row"),
    "groups, channels last": (by_group_last, [(2, 3, 7, 48), (48,)], "row"),
    "instance": (lambda x: over((2, 3), x), [(2, 5, 6, 6)], "narrow"),
    "a scale a row": (lambda x, a: over(-1, x) * a, [(3, 4, 64), (3, 1, 64)], "narrow"),
}


@pytest.mark.vulkan
@pytest.mark.parametrize("binaries", [Prebuilt, pytest.param(glslang, marks=pytest.mark.slow)])
def test_the_kernels_are_right(tmp_path: Path, monkeypatch, binaries) -> None:
    monkeypatch.setattr(library, "_binaries", binaries)
    # Elements that lie one by one are left to the compiler where nothing can be compiled for them.
    left = "_single" if binaries is Prebuilt else "nothing"
    cases = {name: case for name, case in CASES.items() if not case[2].endswith(left)}
    shapes = [shape for _, shapes, _ in cases.values() for shape in shapes]

    def every(*arguments):
        given = iter(arguments)
        return tuple(f(*(next(given) for _ in shapes)) for f, shapes, _ in cases.values())

    rng = np.random.default_rng(0)
    arrays = [(3 + rng.standard_normal(shape)).astype(np.float32) for shape in shapes]
    after, outcomes = place(lower(every, *shapes), "norm")
    assert outcomes == [Kernel(name=f"norm_{word}_f32") for *_, word in cases.values()]
    assert "stablehlo.reduce" not in after
    found = answers(after, tmp_path, arrays)
    given = iter(arrays)
    for (name, (function, shapes, _)), got in zip(cases.items(), found, strict=True):
        right = function(*(jnp.asarray(next(given)) for _ in shapes))
        np.testing.assert_allclose(got, right, 2e-4, 2e-5, err_msg=name)


def test_halves_that_were_widened_are_read_and_written_as_halves() -> None:
    def function(x, a):
        return (over(-1, x.astype(jnp.float32)) * a).astype(jnp.float16)

    specs = [jax.ShapeDtypeStruct((4, 96), jnp.float16), jax.ShapeDtypeStruct((96,), jnp.float32)]
    after, outcomes = place(str(jax.jit(function).lower(*specs).compiler_ir("stablehlo")), "norm")
    assert [each.name.rpartition("_")[2] for each in outcomes] == ["f16"]
    assert "stablehlo.convert" not in after


@pytest.mark.parametrize(
    ("function", "shape", "reason"),
    [
        (lambda x: over((1, 3, 5), x), (2, 8, 3, 8, 3, 8), "rows by 3 indices"),
        (lambda x: over(-1, x), (50, 4), "rows of 4 elements"),
    ],
)
def test_other_norms_are_declined_with_a_reason(function, shape, reason) -> None:
    assert place(lower(function, shape), "norm")[1] == [Declined(reason=reason)]


def test_every_kernel_fits_what_gpus_share() -> None:
    assert max(form.shared for form in NORM_FORMS.values()) <= 16384
