"""Edges around what lies in memory, turned on the way, beside NumPy."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edgec import runtime, toolchain
from edgec.exporters import export
from edgec.toolchain import CompileOptions
from edgec.toolchain.kernels.vulkan.glsl_compiler import tools

F32, F16, I32 = np.float32, np.float16, np.int32

CASES: dict[str, tuple[Callable[[Any], Any], tuple[int, ...], type, int]] = {
    # what is padded, of which sizes and type, and how many kernels do it
    "an image's pixels, turned, with more channels": (
        lambda x: jnp.pad(x.transpose(0, 2, 3, 1), ((0, 0), (3, 3), (2, 1), (0, 5))),
        *((1, 3, 60, 17), F16, 1),
    ),
    "one number": (
        lambda x: jnp.pad(x, ((1, 2), (0, 7)), constant_values=-1.5),
        *((90, 81), F32, 1),
    ),
    "integers": (lambda x: jnp.pad(x, ((0, 0), (2, 3)), constant_values=7), (90, 81), I32, 1),
    "edge around edge": (
        lambda x: jnp.pad(jnp.pad(x, ((1, 0), (0, 0))), ((0, 0), (4, 4))),
        *((70, 71), F32, 1),
    ),
    "another number around an edge": (
        lambda x: jnp.pad(jnp.pad(x, 1), 2, constant_values=3.0),
        *((70, 71), F32, 2),
    ),
    "axes that are one run": (
        lambda x: jnp.pad(x, ((0, 0), (0, 0), (1, 1), (0, 0), (0, 0))),
        *((2, 3, 40, 5, 6), F32, 1),
    ),
    "an axis of one": (lambda x: jnp.pad(x[:, None], ((0, 0), (2, 1), (0, 1))), (60, 50), F32, 1),
    "rows repeated": (
        lambda x: jnp.pad(jnp.broadcast_to(x[:, None], (60, 4, 50)), ((1, 1), (0, 0), (0, 1))),
        *((60, 50), F32, 1),
    ),
    "a window's": (
        lambda x: jax.lax.reduce_window(
            x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"
        ),
        *((1, 30, 33, 8), F32, 1),
    ),
    "sums of windows": (
        lambda x: jax.lax.reduce_window(x, 0.0, jax.lax.add, (3, 5), (1, 1), ((1, 1), (2, 0))),
        *((70, 71), F32, 1),
    ),
    "too many axes": (lambda x: jnp.pad(x, 1), (3, 3, 4, 5, 6), F32, 0),
    "what the compiler computes": (lambda x: jnp.pad(x * x, 1), (70, 71), F32, 0),
    "between the elements, too": (
        lambda x: jnp.pad(jnp.stack([x, 0 * x], 2).reshape(70, -1), 1),
        *((70, 71), F32, 0),
    ),
}


@pytest.mark.sweep(fast=5)
@pytest.mark.vulkan
@pytest.mark.skipif(tools() is None, reason="its kernel needs edgec[vulkan]")
@pytest.mark.parametrize("case", CASES)
def test_an_edge_is_numpys(case: str, tmp_path: Path) -> None:
    function, sizes, dtype, kernels = CASES[case]

    def main(x: Any) -> Any:
        """With a product, so that there are kernels at all."""
        flat = x.reshape(1, -1)[:, :4].astype(jnp.float32)
        return function(x), flat @ jnp.ones((4, 4))

    x = (np.random.default_rng(1).standard_normal(sizes) * 9).astype(dtype)
    path = tmp_path / "edges.vmfb"
    toolchain.compile(export(main, (x,)), "vulkan:android", CompileOptions(output=path))
    names = set(re.findall(rb"edgec_edge_[a-z0-9]*?_[0-9a-f]{8}", path.read_bytes()))
    assert len(names) == kernels
    with runtime.load(path, device="edgert://vulkan") as loaded:
        found, _ = loaded.main(x)
    wanted = np.asarray(function(x))
    np.testing.assert_allclose(np.asarray(found), wanted, 1e-5, 1e-5)
