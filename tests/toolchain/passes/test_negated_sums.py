"""Sums of negated numbers, which iree-compile refuses where subgroups are counted on."""

from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edgec import runtime, toolchain
from edgec.exporters import export
from edgec.toolchain import CompileOptions
from edgec.toolchain.passes.legalise.negated_sums import NegatedSums
from tests.toolchain.passes.before_after import rewrite

X = np.random.default_rng(3).normal(size=(16, 640)).astype(np.float32)
SUMS = {
    "mean": lambda x: (-x).mean(1),
    "product": lambda x: (-(x * x)).sum(1),
    "slice": lambda x: (-x)[:, :512].sum(1),
    "moved": lambda x: jnp.transpose(jnp.reshape(-x, (640, 16))).sum(1),
    "begun": lambda x: jax.lax.reduce(-x, x[0, 0], jax.lax.add, (1,)),
    "gradient": lambda x: jax.grad(lambda w: jnp.sum((x - w[:, None]) ** 2))(x[:, 0]),
}


@pytest.mark.sweep(fast=3)
@pytest.mark.parametrize("function", SUMS.values(), ids=SUMS)
def test_a_sum_of_negated_numbers_is_taken_from_what_it_begins_with(
    function: Callable, tmp_path: Path
) -> None:
    program = export(jax.jit(function), (X,))
    count, after = rewrite(NegatedSums(), program.bytecode)
    assert count == 1
    (tmp_path / "case.mlir").write_text(after)
    options = CompileOptions(check=False, output=tmp_path / "case.vmfb")
    with runtime.load(toolchain.compile(tmp_path / "case.mlir", "cpu", options)) as loaded:
        np.testing.assert_allclose(loaded.main(X), function(X), rtol=1e-5, atol=1e-4)


def test_a_sum_of_zeros_keeps_its_sign(tmp_path: Path) -> None:
    zeros = np.zeros((4, 40), np.float32)
    zeros[1] = -0.0
    function = jax.jit(lambda x: (-x).sum(1))
    _, after = rewrite(NegatedSums(), export(function, (zeros,)).bytecode)
    (tmp_path / "case.mlir").write_text(after)
    options = CompileOptions(check=False, output=tmp_path / "case.vmfb")
    with runtime.load(toolchain.compile(tmp_path / "case.mlir", "cpu", options)) as loaded:
        found = np.asarray(loaded.main(zeros))
    # As StableHLO has it: from 0 on, one number after the other.
    wanted = np.zeros(4, np.float32)
    for column in zeros.T:
        wanted += -column
    np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


@pytest.mark.parametrize("function", [lambda x: (-x).max(1), lambda x: x.sum(1) - (-x)[:, 0]])
def test_others_stay(function: Callable) -> None:
    count, _ = rewrite(NegatedSums(), export(jax.jit(function), (X,)).bytecode)
    assert count == 0


@pytest.mark.parametrize("target", ["vulkan:nvidia-hopper", "vulkan:adreno", "vulkan:mali-g77"])
def test_phones_and_vendors_targets_take_them(target: str, tmp_path: Path) -> None:
    program = export(jax.jit(SUMS["mean"]), (X,))
    options = CompileOptions(check=False, output=tmp_path / "case.vmfb")
    assert toolchain.compile(program, target, options).path.exists()
