"""Attention under masks that hide most keys, which Vulkan's kernel does not read, beside JAX."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from edgec import runtime, toolchain
from edgec.exporters import export
from edgec.toolchain import CompileOptions
from edgec.toolchain.kernels.vulkan.glsl_compiler import tools
from tests.toolchain.kernels.cuda.chunk_cases import CHUNKS


def every_chunk(q: Any, k: Any, v: Any) -> Any:
    return {name: function(q, k, v) for name, function in CHUNKS.items()}


@pytest.mark.vulkan
@pytest.mark.skipif(tools() is None, reason="its kernel needs edgec[vulkan]")
@pytest.mark.parametrize(
    "target",
    ["vulkan:android", pytest.param("vulkan:nvidia-turing", marks=pytest.mark.slow)],
)
def test_what_no_query_sees_makes_no_difference(target: str, tmp_path: Path) -> None:
    draw = np.random.default_rng(3)
    given = [
        draw.standard_normal(shape).astype(np.float32)
        for shape in ((2, 40, 16), *[(2, 300, 16)] * 2)
    ]
    path = tmp_path / "chunks.vmfb"
    made = toolchain.compile(export(every_chunk, tuple(given)), target, CompileOptions(output=path))
    assert made.facts.kernels is not None
    assert made.facts.kernels.own_flops > 0.9 * made.facts.kernels.flops
    with jax.default_matmul_precision("highest"):
        expected = jax.jit(every_chunk)(*given)
    with runtime.load(path, device="edgert://vulkan") as module:
        found = module.main(*given)
    for name, right in expected.items():
        np.testing.assert_allclose(found[name], right, rtol=2e-5, atol=2e-5, err_msg=name)
