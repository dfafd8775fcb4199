"""Products with a factor larger than a kernel may reach into are made of parts, and right."""

import re
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from edgec import runtime
from edgec.exporters import export
from edgec.targets import find
from edgec.toolchain import CompileOptions, compile
from edgec.toolchain.passes.legalise.part_factors import PartFactors
from tests.toolchain.passes.before_after import rewrite
from tests.toolchain.passes.on_vulkan import lower

DRAW = np.random.default_rng(3)
WEIGHTS = DRAW.uniform(-1, 1, (384, 256)).astype(np.float32)
FEW = 100 * 256 * 4
"""Bytes of a hundred lines of it."""


def largest_factor(text: str) -> int:
    """Elements of the largest factor of a product."""
    factors = re.findall(r"dot_general .*: \((.*)\) ->", text)
    sizes = [re.findall(r"tensor<([\dx]+)xf32>", pair) for pair in factors]
    return max(int(np.prod(list(map(int, n.split("x"))))) for pair in sizes for n in pair)


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda x: x @ WEIGHTS.T, [(3, 256)]),
        (lambda x: WEIGHTS @ x, [(256, 3)]),
        (lambda x: x @ WEIGHTS, [(3, 384)]),
        (lambda x: x @ jnp.full((384, 256), 0.5, jnp.float32), [(3, 384)]),
        (lambda x, w: x @ w.T, [(3, 256), (384, 256)]),
        (lambda x, w: x @ w, [(3, 384), (384, 256)]),
        (lambda x, w: jnp.einsum("bmk,bkn->bmn", x, w), [(6, 3, 128), (6, 128, 128)]),
        (lambda x, w: jnp.einsum("bmk,nbk->bmn", x, w), [(6, 3, 128), (128, 6, 128)]),
    ],
    ids=[
        *("constant", "constant at the left", "constant, other way", "one number"),
        *("argument", "argument that is summed", "batch", "turned batch"),
    ],
)
def test_parts_of_a_product_are_small_and_make_the_same(function, shapes) -> None:
    text = lower(function, *shapes)
    count, after = rewrite(PartFactors(most=FEW), text)
    assert count == 1
    assert largest_factor(after) * 4 <= FEW
    arrays = [DRAW.uniform(-1, 1, shape).astype(np.float32) for shape in shapes]
    backend = jax.devices("cpu")[0].client
    made = backend.compile_and_load(after, backend.devices()).execute(
        [jax.device_put(array) for array in arrays]
    )
    np.testing.assert_allclose(made[0], function(*arrays), atol=1e-4)


def test_a_product_that_fits_stays() -> None:
    count, _ = rewrite(PartFactors(most=WEIGHTS.nbytes), lower(lambda x: x @ WEIGHTS, (3, 384)))
    assert count == 0


@pytest.mark.vulkan
@pytest.mark.parametrize("outside", [False, True], ids=["in the module", "in a file"])
def test_a_large_layer_is_right_on_vulkan(tmp_path: Path, outside: bool) -> None:
    target = find("vulkan:android")
    few = replace(target, limits=replace(target.limits, binding=FEW))
    torch.manual_seed(0)
    layer, x = torch.nn.Linear(256, 384), torch.randn(3, 256)
    weights = tmp_path / "layer.safetensors" if outside else None
    program = export(layer, (x,), external_weights=weights)
    options = CompileOptions(output=tmp_path / "layer.vmfb", check=False)
    with runtime.load(
        compile(program, few, options), device="edgert://vulkan", weights=weights
    ) as loaded:
        found = loaded.main(x.numpy())
    np.testing.assert_allclose(found, layer(x).detach().numpy(), atol=1e-5)
