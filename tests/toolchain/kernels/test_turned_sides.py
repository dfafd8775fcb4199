"""Products whose rows lie scattered: laid together they mean the same to XLA; kernels take them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from iree.compiler import ir
from jax._src import compiler
from jaxlib import xla_client

from edgec.toolchain.kernels.gpu.turned_sides import turn_sides
from edgec.toolchain.match.matrix_product import read_product
from edgec.toolchain.match.product import operations_named

RANDOM = np.random.default_rng(0)


def turned(function, *arrays):
    """The program after turning, how many products were turned, and what each product is."""
    text = str(jax.jit(function).lower(*arrays).compiler_ir("stablehlo"))
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        count = turn_sides(module)
        assert module.operation.verify()
        products = [read_product(op) for op in operations_named(module, "stablehlo.dot_general")]
        return str(module), count, products


def answered(text, *arrays):
    """What XLA makes of a program of one result."""
    device = jax.devices()[0]
    options = compiler.get_compile_options(num_replicas=1, num_partitions=1)
    run = device.client.compile_and_load(text, xla_client.DeviceList((device,)), options)
    (made,) = run.execute_sharded(
        [jnp.asarray(a) for a in arrays]
    ).disassemble_into_single_device_arrays()
    return np.asarray(made[0])


@pytest.mark.parametrize(
    ("equation", "left", "right"),
    [
        ("bhte,hed->btd", (2, 3, 40, 16), (3, 16, 96)),
        ("bhte,ehd->btd", (2, 3, 40, 16), (16, 3, 96)),
        ("hed,bhte->dbt", (3, 16, 96), (2, 3, 40, 16)),
        ("bhte,hdek->btdk", (2, 3, 80, 16), (3, 2, 16, 64)),
    ],
)
def test_what_is_summed_along_several_axes_is_laid_together(equation, left, right):
    arrays = [RANDOM.standard_normal(shape).astype(np.float32) for shape in (left, right)]
    text, count, products = turned(lambda x, w: jnp.einsum(equation, x, w), *arrays)
    assert count == 1
    assert not [each for each in products if isinstance(each, str)]
    np.testing.assert_allclose(
        answered(text, *arrays), np.einsum(equation, *arrays), rtol=1e-4, atol=1e-4
    )


def test_what_is_read_seldom_is_left_as_it_lies():
    arrays = [RANDOM.standard_normal(s).astype(np.float32) for s in ((2, 3, 40, 16), (3, 16, 8))]
    _, count, _ = turned(lambda x, w: jnp.einsum("bhte,hed->btd", x, w), *arrays)
    assert count == 0


def test_a_product_that_has_single_steps_is_left():
    arrays = [RANDOM.standard_normal(s).astype(np.float32) for s in ((2, 40, 48), (48, 96))]
    _, count, _ = turned(lambda x, w: x @ w, *arrays)
    assert count == 0
