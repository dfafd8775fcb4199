"""Sums of many numbers on the CPU are as right as those of 64 bits, but for a few last places."""

from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from iree.compiler import ir

from edgec.exporters import export
from edgec.runtime import load
from edgec.toolchain import CompileOptions, compile
from edgec.toolchain.kernels.cpu.source import VectorUnit
from edgec.toolchain.passes.legalise.split_reductions import ON_CPU, SplitReductions
from edgec.toolchain.passes.place.norm_kernels import NormKernels
from edgec.toolchain.stablehlo import parse_stablehlo
from tests.toolchain.passes.before_after import rewrite
from tests.toolchain.passes.on_vulkan import lower

AVX512 = VectorUnit(lanes=16, registers=32, broadcasts=True)
UNIT = float(np.finfo(np.float32).eps) / 2
MOST = 16
"""Units of the last place of what the terms' sizes sum to. One number added after the other is off
by 40 to 3000 of them here."""

SUMS: dict[str, Callable] = {
    "columns": lambda x, w, m: x.sum((0, 1, 2)),
    "rows": lambda x, w, m: x.reshape(48, -1).sum(1),
    "all": lambda x, w, m: x.sum(),
    "a prime number": lambda x, w, m: x.reshape(-1, 48)[:12_041].sum(0),
    "axes apart": lambda x, w, m: x.sum((0, 2)),
    "squares": lambda x, w, m: (x * x).sum((0, 1, 2)),
    "product": lambda x, w, m: m.at[0].mul(2).T @ x.reshape(-1, 48),
    "weights": lambda x, w, m: jax.vjp(lambda w: _convolution(x, w), w)[1](x)[0],
}


def _convolution(x, w):
    return jax.lax.conv_general_dilated(
        x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def test_sums_of_many_numbers_lose_a_few_last_places(tmp_path: Path) -> None:
    """All terms are positive, so that their sum is that of their sizes."""
    rng = np.random.default_rng(1)
    sizes = ((4, 56, 56, 48), (3, 3, 48, 48), (12_544, 24))
    given = [rng.uniform(0.5, 1, each).astype(np.float32) for each in sizes]
    program = export(lambda *given: [each(*given) for each in SUMS.values()], tuple(given))
    compile(program, "cpu", CompileOptions(output=tmp_path / "sums.vmfb"))
    with jax.enable_x64(True):
        exact = [np.asarray(each(*map(jnp.float64, given))) for each in SUMS.values()]
    with load(tmp_path / "sums.vmfb") as loaded:
        found = loaded.main(*given)
    off = {
        name: float(np.max(np.abs(np.asarray(sums, np.float64) - right) / right)) / UNIT
        for name, sums, right in zip(SUMS, found, exact, strict=True)
    }
    assert max(off.values()) <= MOST, off


def test_a_norm_s_mean_and_deviation_of_many_numbers_are_right(tmp_path: Path) -> None:
    """Over a batch of images, as in training; a row and a column of memory are walked apart."""

    def norm(x, axes):
        centred = x - x.mean(axes, keepdims=True)
        return centred * jax.lax.rsqrt((centred * centred).mean(axes, keepdims=True) + 1e-5)

    x = np.random.default_rng(1).uniform(0, 1, (4, 56, 56, 32)).astype(np.float32)
    program = export(lambda x: (norm(x, (0, 1, 2)), norm(x, (1, 2, 3))), (x,))
    compile(program, "cpu", CompileOptions(output=tmp_path / "norms.vmfb"))
    with load(tmp_path / "norms.vmfb") as loaded:
        found = loaded.main(x)
    for values, axes in zip(found, [(0, 1, 2), (1, 2, 3)], strict=True):
        wide = x.astype(np.float64)
        right = (wide - wide.mean(axes, keepdims=True)) / np.sqrt(
            wide.var(axes, keepdims=True) + 1e-5
        )
        off = np.abs(np.asarray(values) - right).max() / np.abs(right).max()
        assert off / UNIT <= MOST


def test_the_mean_and_deviation_that_a_step_keeps_come_from_the_norm_s_kernel(
    tmp_path: Path,
) -> None:
    def norms(x, axes):
        mean = x.mean(axes, keepdims=True)
        factor = jax.lax.rsqrt(((x - mean) ** 2).mean(axes, keepdims=True) + 1e-5)
        return jnp.exp(mean), (x - mean) * factor, factor

    x = np.random.default_rng(1).uniform(0, 1, (4, 7, 7, 40)).astype(np.float32)
    program = export(lambda x: (norms(x, (0, 1, 2)), norms(x, 3)), (x,))
    with ir.Context() as context:
        module = parse_stablehlo(program.bytecode, context)
        assert NormKernels(unit=AVX512).run(module) == 2
        assert module.operation.verify()
        assert "stablehlo.reduce" not in str(module)
    compile(program, "cpu", CompileOptions(output=tmp_path / "kept.vmfb"))
    with load(tmp_path / "kept.vmfb") as loaded:
        found = loaded.main(x)
    for values, axes in zip(found, [(0, 1, 2), 3], strict=True):
        wide = x.astype(np.float64)
        mean, deviation = wide.mean(axes, keepdims=True), np.sqrt(wide.var(axes, keepdims=True))
        right = (np.exp(mean), (wide - mean) / deviation, 1 / deviation)
        for one, other in zip(values, right, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_only_what_is_rounded_is_split_on_a_cpu() -> None:
    text = lower(lambda x: (x.max(0), x.astype(jnp.int32).sum(0), x.sum(0)), (1024, 3))
    count, after = rewrite(SplitReductions(step=ON_CPU), text)
    assert count == 1
    assert "tensor<4x256x3xf32>" in after
    assert "compute_barrier" not in after


def test_what_is_left_of_chunks_on_a_cpu_is_summed_by_itself() -> None:
    """Filling up would copy all."""
    _, after = rewrite(SplitReductions(step=ON_CPU), lower(lambda x: x.sum(0), (1031, 3)))
    assert "stablehlo.pad" not in after
    assert "tensor<4x256x3xf32>" in after
    assert "tensor<7x3xf32>" in after
