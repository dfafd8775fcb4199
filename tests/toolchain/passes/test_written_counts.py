"""First and last places by the least and the largest of counted numbers, for GPUs by name."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edgec import runtime, toolchain
from edgec.exporters import export
from edgec.runtime.errors import CompileError
from edgec.toolchain import CompileOptions
from edgec.toolchain.passes.legalise.written_counts import WrittenCounts
from tests.toolchain.passes.before_after import rewrite

END = 2**31 - 1


def first(x):
    counted = jax.lax.broadcasted_iota(np.int32, x.shape, x.ndim - 1)
    return jnp.min(jax.lax.select(x > 0, counted, jnp.full_like(counted, END)), -1)


def first_and_last(x):
    counted = jax.lax.broadcasted_iota(np.int32, x.shape, x.ndim - 1)
    return first(x), jnp.max(jax.lax.select(x > 0, counted, jnp.full_like(counted, -1)), -1)


def test_counts_of_reductions_are_written() -> None:
    program = export(first_and_last, (np.zeros((4, 2048), np.float32),))
    count, after = rewrite(WrittenCounts(), program.bytecode)
    assert count >= 1
    assert after.count("compute_barrier.start") == count
    assert "stablehlo.iota dim = 0 : tensor<2048xi32>" in after


def test_other_counts_stay() -> None:
    program = export(lambda x: x * jnp.arange(2048, dtype=np.int32), (np.zeros(2048, np.int32),))
    assert rewrite(WrittenCounts(), program.bytecode)[0] == 0


@pytest.mark.parametrize("target", ["vulkan:nvidia-hopper", "vulkan:amd-rdna3", "vulkan:mali-g715"])
def test_gpus_by_name_take_them(target: str, tmp_path: Path) -> None:
    program = export(first, (np.zeros(1024, np.float32),))
    options = CompileOptions(output=tmp_path / "case.vmfb", cache=False, check=False)
    assert toolchain.compile(program, target, options).path.exists()
    without = CompileOptions(
        output=tmp_path / "not.vmfb", cache=False, check=False, disabled=("written-counts",)
    )
    with pytest.raises(CompileError, match=r"memref\.alloc"):
        toolchain.compile(program, target, without)


@pytest.mark.vulkan
def test_places_are_right(tmp_path: Path) -> None:
    x = np.random.default_rng(8).standard_normal((4, 2048)).astype(np.float32)
    x[0, :7], x[1, -5:], x[2] = -1, -1, -1
    program = export(first_and_last, (x,))
    options = CompileOptions(output=tmp_path / "case.vmfb")
    with runtime.load(toolchain.compile(program, "vulkan", options)) as loaded:
        firsts, lasts = loaded.main(x)
    places = [np.flatnonzero(row > 0) for row in x]
    np.testing.assert_array_equal(firsts, [p[0] if p.size else END for p in places])
    np.testing.assert_array_equal(lasts, [p[-1] if p.size else -1 for p in places])
