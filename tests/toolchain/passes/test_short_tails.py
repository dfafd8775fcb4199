"""Much that is computed of a reduction, at which iree-compile never ends for some GPUs."""

from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edgec import runtime, toolchain
from edgec.exporters import export
from edgec.targets import find
from edgec.toolchain import CompileOptions
from edgec.toolchain.passes.legalise.short_tails import ShortTails
from tests.toolchain.passes.before_after import rewrite

X = np.random.default_rng(4).normal(size=(24, 64, 3)).astype(np.float32)


def turned(times: int, function: Callable = jnp.sin) -> Callable:
    """What reads a sum anew each time."""

    def tail(x: jax.Array) -> jax.Array:
        v = c = x.sum(1)
        for _ in range(times):
            c = function(c) * 0.5 + v
        return c

    return tail


def test_a_long_tail_compiles_for_subgroups(tmp_path: Path) -> None:
    def twice(x: jax.Array, y: jax.Array) -> jax.Array:
        v = turned(3)(x)[3:20, 1:]
        c = v
        for _ in range(3):
            c = jnp.sin(c) * y + v
        return c

    options = CompileOptions(check=False, output=tmp_path / "case.vmfb", timeout=120)
    program = export(jax.jit(twice), (X, X[3:20, 0, 1:]))
    assert toolchain.compile(program, "vulkan:amd-rdna3", options).path.exists()


@pytest.mark.parametrize(("times", "count"), [(80, 1), (20, 0)])
def test_a_reduction_with_much_behind_it_ends_its_kernel(
    times: int, count: int, tmp_path: Path
) -> None:
    function = turned(times, jnp.tanh)
    found, after = rewrite(ShortTails(), export(jax.jit(function), (X,)).bytecode)
    assert found == count
    if count:
        (tmp_path / "case.mlir").write_text(after)
        options = CompileOptions(check=False, output=tmp_path / "case.vmfb")
        module = toolchain.compile(tmp_path / "case.mlir", "cpu", options)
        with runtime.load(module) as loaded:
            np.testing.assert_allclose(loaded.main(X), function(X), rtol=1e-4, atol=1e-4)


def test_targets_name_their_devices_subgroups() -> None:
    """By which the pass knows where it is needed."""
    for name in ("vulkan:amd-rdna3", "vulkan:adreno", "vulkan:mali-g710", "vulkan:nvidia-ada"):
        gpu = find(name).gpu
        assert gpu is not None
        assert gpu.subgroup in (16, 32, 64)
    for name in ("vulkan", "vulkan:android", "webgpu"):
        gpu = find(name).gpu
        assert gpu is None or gpu.subgroup == 0
