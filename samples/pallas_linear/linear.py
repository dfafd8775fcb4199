"""A linear layer as a Pallas kernel: blocks of a product, and a bias; and digits read by it.

edgec compile samples/pallas_linear/linear.py:reader -o reader.vmfb
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl

ROWS, COLUMNS = 32, 16
"""A block of the result."""


def _block(x, weights, bias, y):
    """One block of the result: the whole inside, so that nothing is summed twice."""
    y[...] = jnp.dot(x[...], weights[...]) + bias[...][None, :]


def pallas_linear(x: jax.Array, weights: jax.Array, bias: jax.Array) -> jax.Array:
    """`x @ weights + bias`, of f32[rows, inside], f32[inside, columns] and f32[columns]."""
    rows, inside = x.shape
    columns = weights.shape[1]
    return pl.pallas_call(
        _block,
        out_shape=jax.ShapeDtypeStruct((rows, columns), x.dtype),
        grid=(rows // ROWS, columns // COLUMNS),
        in_specs=[
            pl.BlockSpec((ROWS, inside), lambda i, j: (i, 0)),
            pl.BlockSpec((inside, COLUMNS), lambda i, j: (0, j)),
            pl.BlockSpec((COLUMNS,), lambda i, j: (j,)),
        ],
        out_specs=pl.BlockSpec((ROWS, COLUMNS), lambda i, j: (i, j)),
        name="pallas_linear",
    )(x, weights, bias)


def digits() -> tuple[np.ndarray, np.ndarray]:
    """1,797 digits of scikit-learn, f32[1797, 64], and what they are."""
    from sklearn.datasets import load_digits

    found = load_digits()
    return (found.data / 16).astype(np.float32), found.target


def learnt() -> tuple[np.ndarray, np.ndarray]:
    """Weights f32[64, 16] and a bias f32[16] by least squares on the first 1,500 digits.

    Columns behind the tenth stand for no digit.
    """
    images, labels = digits()
    seen = np.concatenate([images[:1500], np.ones((1500, 1), np.float32)], axis=1)
    wanted = np.eye(16, dtype=np.float32)[labels[:1500]]
    found = np.linalg.lstsq(seen, wanted, rcond=None)[0].astype(np.float32)
    return found[:-1], found[-1]


def held_out() -> tuple[np.ndarray, np.ndarray]:
    """256 digits that nothing was learnt from, and what they are."""
    images, labels = digits()
    return images[1500:1756], labels[1500:1756]


def reader():
    """The model: how much each image looks like each digit."""
    weights, bias = learnt()
    return lambda images: pallas_linear(images, jnp.asarray(weights), jnp.asarray(bias)), (
        held_out()[0],
    )
