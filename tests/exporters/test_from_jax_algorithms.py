"""Products whose algorithm a program names, which JAX's own CPU refuses."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edgec.exporters import export

RANDOM = np.random.default_rng(5)


def attention(query: jax.Array, key: jax.Array, value: jax.Array) -> jax.Array:
    return jax.nn.dot_product_attention(query, key, value, is_causal=True)


def product(x: jax.Array, y: jax.Array) -> jax.Array:
    algorithm = jax.lax.DotAlgorithmPreset.TF32_TF32_F32
    return jax.lax.dot(x, y, precision=algorithm, preferred_element_type=jnp.float32)


def drawn(*shape: int, dtype: type = np.float16) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (attention, [drawn(1, 9, 4, 16), drawn(1, 9, 2, 16), drawn(1, 9, 2, 16)]),
        (product, [drawn(5, 7, dtype=np.float32), drawn(7, 3, dtype=np.float32)]),
    ],
    ids=["attention", "product"],
)
def test_they_are_exported_and_right(
    function: Callable[..., jax.Array], inputs: list[np.ndarray], replay: Callable[..., float]
) -> None:
    program = export(jax.jit(function), tuple(inputs))
    call = program.golden.calls[0]
    exact = (jnp.asarray(x, jnp.float32) for x in inputs)
    expected = attention(*exact) if function is attention else jnp.dot(*exact)
    np.testing.assert_allclose(
        np.asarray(call.outputs[0], np.float32), expected, rtol=2e-3, atol=2e-3
    )
    assert replay(program) <= 2e-3
    # JAX is as it was.
    with pytest.raises(ValueError, match="not supported by dot_general on CPU"):
        jax.jit(lambda *given: function(*given) * 1)(*inputs)
