"""Products of few rows by weights in blocks, beside the same function by JAX."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from edgec import runtime, toolchain
from edgec.exporters import export
from edgec.toolchain import CompileOptions
from edgec.toolchain.kernels.vulkan.glsl_compiler import tools
from tests.toolchain.kernels.cuda.block_cases import (
    BLOCK_CASES,
    BYTE,
    HALF,
    WHOLE,
    by_levels,
    eight,
    floats,
    four,
    norm,
)


def alone(x: Any, factors: Any, codes: Any, scale: Any) -> Any:
    """One product of a norm's rows, clipped."""
    return jax.numpy.clip(norm(x, factors) @ floats(codes, scale).T, -2, 2)


def levels_of_a_norm(x: Any, factors: Any, bias: Any, *parts: Any) -> Any:
    """More pieces of memory than a phone's kernel is given, with the norm."""
    return by_levels(norm(x, factors), *parts) + bias


SHARED = ("by pairs", "by 8 bits", "by two levels", "three of a norm", "a gate")
MANY = ("many rows by pairs", "many rows by 8 bits", "many rows by two levels")
CASES = {
    **{case: BLOCK_CASES[f"f32: {case}"] for case in (*SHARED, *MANY)},
    "many rows by 4 bits, a tail": (
        four,
        ((19, 96), (38, 3, 16), (38, 3), (38, 3), (38,), (19, 38)),
        (WHOLE, BYTE, HALF, HALF, WHOLE, WHOLE),
    ),
    "many rows in parts, a tail": (
        four,
        ((19, 1024), (40, 32, 16), (40, 32), (40, 32), (40,), (19, 40)),
        (WHOLE, BYTE, HALF, HALF, WHOLE, WHOLE),
    ),
    "many rows by 8 bits an output": (
        eight,
        ((65, 2048), (76, 2048), (76, 1)),
        (WHOLE, BYTE, HALF),
    ),
    "4 bits, a tail": (
        four,
        ((3, 96), (38, 3, 16), (38, 3), (38, 3), (38,), (3, 38)),
        (WHOLE, BYTE, HALF, HALF, WHOLE, WHOLE),
    ),
    "8 bits, an output": (eight, ((1, 640), (12, 640), (12, 1)), (WHOLE, BYTE, HALF)),
    "many outputs": (eight, ((1, 576), (49152, 576), (49152, 18)), (WHOLE, BYTE, HALF)),
    "two levels of a norm": (
        levels_of_a_norm,
        ((1, 512), (512,), (20,), (20, 256), (20, 16), (20, 2), (20, 16), (20, 2)),
        (WHOLE, WHOLE, WHOLE, BYTE, BYTE, WHOLE, BYTE, WHOLE),
    ),
    "a norm": (alone, ((2, 192), (192,), (70, 192), (70, 6)), (WHOLE, WHOLE, BYTE, HALF)),
}
TURING = ("three of a norm", "a gate", "many rows by pairs", "many rows in parts, a tail")


@pytest.mark.sweep(fast=5)
@pytest.mark.vulkan
@pytest.mark.skipif(tools() is None, reason="its kernel needs edgec[vulkan]")
@pytest.mark.parametrize(
    ("target", "case"),
    [
        *(("vulkan:android", case) for case in CASES),
        *(("vulkan:nvidia-turing", case) for case in TURING),
    ],
)
def test_weights_in_blocks_are_read_as_they_lie(target: str, case: str, tmp_path: Path) -> None:
    function, shapes, dtypes = CASES[case]
    rng = np.random.default_rng(len(case))
    given = [
        rng.integers(-128, 128, shape).astype(dtype)
        if dtype == BYTE
        else rng.standard_normal(shape).astype(dtype)
        for shape, dtype in zip(shapes, dtypes, strict=True)
    ]
    path = tmp_path / "blocks.vmfb"
    program = export(function, tuple(given))
    share = toolchain.compile(program, target, CompileOptions(output=path)).facts.kernels
    assert share is not None
    assert share.own_flops > 0.9 * share.flops
    with jax.default_matmul_precision("highest"):
        wanted = jax.tree.leaves(function(*given))
    with runtime.load(path, device="edgert://vulkan") as loaded:
        found = jax.tree.leaves(loaded.main(*given))
    for got, array in zip(found, wanted, strict=True):
        off = np.abs(np.asarray(got) - array).max() / np.abs(array).max()
        assert off < 2e-5
