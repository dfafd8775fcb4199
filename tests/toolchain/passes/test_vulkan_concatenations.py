"""What kernels have computed is laid side by side by a kernel, and by the compiler otherwise."""

import jax.numpy as jnp
import numpy as np
import pytest

from edgec.toolchain.kernels.spec import Declined, Kernel
from tests.toolchain.passes.on_vulkan import answers, lower, place

SHAPES = ((512, 128), (128, 64), (512, 72))


def beside(x, w, other):
    return jnp.tanh(jnp.concatenate([x @ w, other], 1))


def above(x, w, other):
    return jnp.tanh(jnp.concatenate([other[:, :64], x @ w], 0))


@pytest.mark.parametrize("function", [beside, above])
def test_two_tensors_of_which_a_kernel_has_made_one_are_one_dispatch(function) -> None:
    after, outcomes = place(lower(function, *SHAPES), "concatenation")
    assert outcomes == [Kernel(name="concatenate_bytes")]
    assert "stablehlo.concatenate" not in after


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x, w, o: jnp.concatenate([x @ w, o[:, :71]], 1), "rows of 256 and 284 bytes"),
        (lambda x, w, o: jnp.concatenate([x @ w, o, o], 1), "3 tensors"),
    ],
)
def test_what_no_kernel_takes_is_said(function, reason) -> None:
    after, outcomes = place(lower(function, *SHAPES), "concatenation")
    assert outcomes == [Declined(reason=reason)]
    assert "stablehlo.concatenate" in after


def test_what_the_compiler_computes_it_writes_where_it_belongs() -> None:
    text = lower(lambda x, w, o: jnp.concatenate([jnp.tanh(x), o], 1), *SHAPES)
    assert place(text, "concatenation")[1] == []


@pytest.mark.vulkan
def test_answers_are_those_of_jax(tmp_path) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(np.float32) / 8 for shape in SHAPES]
    text, outcomes = place(lower(lambda *a: (beside(*a), above(*a)), *SHAPES), "concatenation")
    assert len(outcomes) == 2
    for got, wanted in zip(
        answers(text, tmp_path, arrays), (beside(*arrays), above(*arrays)), strict=True
    ):
        np.testing.assert_allclose(got, wanted, 1e-5, 1e-5)
