"""No GPU's kernel is called on constants alone: the compiler works these out without kernels."""

import jax.numpy as jnp
import numpy as np
import pytest

from edgec import runtime, toolchain
from edgec.exporters import export
from edgec.toolchain.kernels.cuda.triton_compiler import has_triton

RNG = np.random.default_rng(0)
ROWS, MIDDLE, WEIGHT = (
    RNG.standard_normal(shape).astype(np.float32) / 12
    for shape in ((130, 132), (132, 196), (196, 68))
)
CUDA = pytest.param("cuda:sm_90", marks=pytest.mark.skipif(not has_triton(), reason="no Triton"))


def projected(x):
    """As a network that projects positions which it does not learn: twice, one on the other."""
    return x @ WEIGHT + jnp.tanh(jnp.asarray(ROWS) @ MIDDLE) @ WEIGHT


@pytest.mark.sweep(fast=2)
@pytest.mark.parametrize("target", [CUDA, "vulkan:android", "vulkan:nvidia-ada", "webgpu"])
def test_a_product_of_constants_is_worked_out_when_compiling(target: str, tmp_path) -> None:
    x = RNG.standard_normal((130, 196)).astype(np.float32)
    options = toolchain.CompileOptions(check=False, cache=False, output=tmp_path / "m.vmfb")

    def kernels(function) -> int:
        changes = toolchain.run_passes(export(function, x), target, options).changes
        return sum(count for name, count in changes.items() if name.endswith("-kernels"))

    assert kernels(projected) == kernels(lambda x: x @ WEIGHT) > 0
    toolchain.compile(export(projected, x), target, options)


@pytest.mark.vulkan
def test_it_is_the_same_number(tmp_path) -> None:
    x = RNG.standard_normal((130, 196)).astype(np.float32)
    options = toolchain.CompileOptions(check=False, output=tmp_path / "m.vmfb")
    module = toolchain.compile(export(projected, x), "vulkan:android", options)
    with runtime.load(module, device="vulkan") as loaded:
        answer = np.asarray(loaded.main(x))
    np.testing.assert_allclose(answer, projected(x), 1e-4, 1e-4)
