"""Attention through Vulkan: one kernel with its masks and biases, right on any device here."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edgec.targets import find
from edgec.toolchain.kernels.spec import Declined, Kernel
from edgec.toolchain.kernels.vulkan import library
from edgec.toolchain.kernels.vulkan.forms import ATTENTION_FORMS
from edgec.toolchain.kernels.vulkan.prebuilt import Prebuilt
from tests.toolchain.passes import on_vulkan
from tests.toolchain.passes.on_vulkan import answers, glslang, lower, place


def plain(q, k, v):
    return jax.nn.softmax(jnp.einsum("hqd,hkd->hqk", q, k) / 8) @ v


def masked(q, k, v):
    """The first block of keys is masked for one image, only one is left for the other."""
    kept = jnp.arange(70)[None] >= jnp.array([[40], [69]])
    scores = jnp.where(kept[:, None, None], jnp.einsum("bqhd,bkhd->bhqk", q, k), -jnp.inf)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)


def grouped(q, k, v, bias):
    scores = jnp.einsum("bqhgd,bkhd->bhgqk", q.reshape(2, 19, 2, 3, 100), k)
    scores = 5 * jnp.tanh(scores / 40) + 0.5 * bias
    scores = jnp.where(jnp.tril(jnp.ones((19, 19), bool)), scores, jnp.finfo(jnp.float32).min)
    return jnp.einsum("bhgqk,bkhd->bqhgd", jax.nn.softmax(scores), v)


def causal(q, k, v):
    return jax.nn.dot_product_attention(q, k, v, is_causal=True)


CASES = {
    "plain": (plain, [(3, 40, 64), (3, 77, 64), (3, 77, 64)]),
    "masked": (masked, [(2, 33, 2, 20), (2, 70, 2, 20), (2, 70, 2, 20)]),
    "grouped": (grouped, [(2, 19, 6, 100), (2, 19, 2, 100), (2, 19, 2, 100), (19, 19)]),
    "wide": (causal, [(1, 23, 4, 200), (1, 23, 2, 200), (1, 23, 2, 200)]),
}


@pytest.mark.vulkan
@pytest.mark.parametrize("binaries", [Prebuilt, pytest.param(glslang, marks=pytest.mark.slow)])
def test_the_kernels_are_right(tmp_path: Path, monkeypatch, binaries) -> None:
    monkeypatch.setattr(library, "_binaries", binaries)
    shapes = [shape for _, shapes in CASES.values() for shape in shapes]

    def every(*arguments):
        given = iter(arguments)
        return tuple(f(*(next(given) for _ in shapes)) for f, shapes in CASES.values())

    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    after, outcomes = place(lower(every, *shapes), "attention")
    *narrow, wide = outcomes
    assert narrow == [Kernel(name=f"attention_{width}_f32") for width in ("64", "32", "128")]
    # The archive has no room for what few models have.
    assert isinstance(wide, Declined if binaries is Prebuilt else Kernel)
    with jax.default_matmul_precision("highest"):
        expected = every(*arrays)
    for name, got, right in zip(CASES, answers(after, tmp_path, arrays), expected, strict=True):
        np.testing.assert_allclose(got, right, 1e-4, 1e-5, err_msg=name)


def test_halves_are_read_and_written_as_they_are() -> None:
    text = lower(plain, (3, 40, 64), (3, 77, 64), (3, 77, 64), dtype="float16")
    after, outcomes = place(text, "attention")
    assert outcomes == [Kernel(name="attention_64_f16")]
    assert "stablehlo.dot_general" not in after


@pytest.mark.sweep(fast=2)
@pytest.mark.parametrize(
    ("queries", "width", "tile"),
    [(40, 64, "64x16"), (1000, 48, "64x32"), (77, 32, "32x32"), (77, 100, "128x16")],
)
def test_matrix_units_have_tiles_by_width_and_queries(monkeypatch, queries, width, tile) -> None:
    glslang()
    monkeypatch.setattr(on_vulkan, "GPU", find("vulkan:nvidia-hopper").gpu)
    shapes = [(3, queries, width), (3, 77, width), (3, 77, width)]
    _, outcomes = place(lower(plain, *shapes, dtype="float16"), "attention")
    assert outcomes == [Kernel(name=f"attention_matrix_{tile}_f16")]
    _, outcomes = place(lower(plain, *shapes), "attention")  # They multiply no f32.
    (outcome,) = outcomes
    assert isinstance(outcome, Kernel)
    assert "matrix" not in outcome.name


def test_without_a_compiler_of_kernels_attention_shares_memory_and_says_so(monkeypatch) -> None:
    monkeypatch.setattr(library, "_binaries", Prebuilt)
    monkeypatch.setattr(on_vulkan, "GPU", find("vulkan:nvidia-hopper").gpu)
    remarks: list[str] = []
    monkeypatch.setattr(on_vulkan, "REMARKS", remarks)
    text = lower(plain, (3, 40, 64), (3, 77, 64), (3, 77, 64), dtype="float16")
    _, outcomes = place(text, "attention")
    assert outcomes == [Kernel(name="attention_64_f16")]
    (remark,) = remarks
    assert "edgec[vulkan]" in remark


def test_what_is_too_wide_is_declined_with_its_reason() -> None:
    _, outcomes = place(lower(plain, (3, 40, 260), (3, 77, 260), (3, 77, 260)), "attention")
    assert outcomes == [Declined(reason="a width of 260")]


def test_every_kernel_fits_what_gpus_share() -> None:
    assert max(form.shared for form in ATTENTION_FORMS) <= 32768
