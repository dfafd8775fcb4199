"""A small Flax network that reads handwritten digits, ready to export:

edgec export samples/digits/model.py:classifier -o digits.mlirbc
"""

from collections.abc import Callable, Mapping
from typing import Any

import data
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np


class DigitReader(nn.Module):
    """Two convolutions and two dense layers: f32[n, 8, 8] to a score for each digit, f32[n, 10]."""

    @nn.compact
    def __call__(self, images: jax.Array) -> jax.Array:
        features = Features(name="features")(images)
        return nn.Dense(10, name="readout")(features)


class Features(nn.Module):
    """Everything below the last layer: f32[n, 8, 8] to f32[n, 64]."""

    @nn.compact
    def __call__(self, images: jax.Array) -> jax.Array:
        x = images[..., None] / 16
        x = nn.relu(nn.Conv(16, (3, 3))(x))
        x = nn.relu(nn.Conv(32, (3, 3), strides=(2, 2))(x))
        x = x.reshape(x.shape[0], -1)
        return nn.relu(nn.Dense(64)(x))


def classifier() -> tuple[Callable[[jax.Array], Mapping[str, Any]], tuple[np.ndarray]]:
    """The trained model, and the held-out images to prove it on."""
    import train

    variables = train.variables()

    def read(images: jax.Array) -> dict[str, jax.Array]:
        scores = DigitReader().apply(variables, images)
        return {"label": jnp.argmax(scores, axis=-1).astype(jnp.int32), "scores": scores}

    _, held_out = data.load()
    return read, (held_out.images,)
