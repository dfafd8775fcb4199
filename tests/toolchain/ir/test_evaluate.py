"""Pieces of programs computed in NumPy give what JAX gives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from iree.compiler import ir

from edgec.toolchain.ir.evaluate import NotEvaluated, evaluate
from edgec.toolchain.passes.simplify.inline_calls import InlineCalls


def computed(function, *arrays):
    """The results of a function's StableHLO on arrays."""
    text = str(jax.jit(function).lower(*arrays).compiler_ir("stablehlo"))
    with ir.Context():
        module = ir.Module.parse(text)
        InlineCalls().run(module)
        (main,) = (op for op in module.body.operations if op.operation.name == "func.func")
        block = main.regions[0].blocks[0]
        numbers = [a.astype(np.float64) if a.dtype.kind == "f" else a for a in arrays]
        known = dict(zip(block.arguments, numbers, strict=True))
        return evaluate(list(list(block.operations)[-1].operands), known)


def convolution(x, w, *, stride=(1, 1), pad=((0, 0), (0, 0)), far=(1, 1), spread=(1, 1), groups=1):
    return jax.lax.conv_general_dilated(
        *(x, w, stride, pad),
        lhs_dilation=spread,
        rhs_dilation=far,
        feature_group_count=groups,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )


CASES = {
    "element-wise": (
        lambda x, y: jnp.where(x > y, jnp.tanh(x) * jax.nn.sigmoid(y), jnp.clip(x, -1, 1) - y**2),
        [(3, 4), (3, 4)],
    ),
    "functions": (
        lambda x: jax.scipy.special.erf(x) + jnp.exp(x) + jnp.floor(x) + jnp.abs(x) ** 0.5,
        [(7,)],
    ),
    "halves": (lambda x: (x.astype(jnp.float16) * 2).astype(jnp.float32) + 1, [(5,)]),
    "softmax": (lambda x: jax.nn.softmax(x, axis=-1), [(2, 3, 5)]),
    "moves": (
        lambda x: jnp.concatenate([x[:, ::2].T, jnp.flip(jnp.pad(x, ((1, 0), (2, 1))), 0)[:4, :3]]),
        [(3, 5)],
    ),
    "products": (lambda x, y: jnp.einsum("bhqd,bkhd->bqhk", x, y), [(2, 3, 4, 5), (2, 6, 3, 5)]),
    "a window": (
        lambda x, w: convolution(x, w, stride=(2, 1), pad=((1, 2), (0, 1)), far=(1, 2)),
        [(2, 9, 8, 6), (3, 2, 6, 4)],
    ),
    "groups": (
        lambda x, w: convolution(x, w, groups=3, pad=((1, 1), (1, 1))),
        [(2, 5, 6, 6), (3, 3, 2, 12)],
    ),
    "a transposed window, cut": (
        lambda x, w: convolution(x, w, spread=(2, 2), pad=((-1, 2), (1, -1))),
        [(1, 5, 6, 2), (3, 3, 2, 4)],
    ),
    "pools": (
        lambda x: jax.lax.reduce_window(
            x, -jnp.inf, jax.lax.max, (1, 3, 2), (1, 2, 1), ((0, 0), (1, 1), (0, 1))
        ),
        [(2, 7, 5)],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_piece_computes_what_jax_does(name) -> None:
    function, shapes = CASES[name]
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    (got,) = computed(function, *arrays)
    with jax.default_matmul_precision("highest"):
        wanted = np.asarray(function(*arrays))
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=1e-3 if name == "halves" else 2e-5, atol=2e-5)


def test_what_is_not_known_is_said() -> None:
    with pytest.raises(NotEvaluated, match=r"stablehlo\.sort"):
        computed(jnp.sort, np.zeros(4, np.float32))
