"""A photograph freed of dust: a median filter, in JAX and by kernels in C, GLSL and CUDA C++.

edgec compile samples/own_kernels/filters.py:clean -o clean.vmfb
edgec compile samples/own_kernels/filters.py:plainly -o plainly.vmfb
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from edgec import kernels

HERE = Path(__file__).resolve().parent
GROUPS = 16
DUST = 0.05
"""The part of the pixels that are black or white."""


def medians(picture: jax.Array) -> jax.Array:
    """The median of each pixel and its eight neighbours, of f32[height, width]."""
    height, width = picture.shape
    padded = jnp.pad(picture, 1, mode="edge")
    shifted = [padded[y : y + height, x : x + width] for y in range(3) for x in range(3)]
    return jnp.sort(jnp.stack(shifted, -1), axis=-1)[..., 4]


def blocks(threads: int):
    """As many workgroups as it takes to have a thread a pixel."""
    return lambda picture: -(-picture.size // threads)


median = (
    kernels.c(HERE / "median.c", reference=medians, groups=GROUPS, defines={"GROUPS": GROUPS})
    | kernels.glsl(HERE / "median.comp", grid=blocks(64))
    | kernels.cuda(HERE / "median.cu", grid=blocks(256), block=256)
)


def _cleaned(filtered, picture: jax.Array) -> jax.Array:
    """Each colour filtered twice, and its contrast raised a little."""
    colours = [filtered(filtered(picture[..., colour])) for colour in range(3)]
    return jnp.clip(1.2 * jnp.stack(colours, -1) - 0.1, 0, 1)


def photograph() -> np.ndarray:
    """A photograph of a flower from scikit-learn, f32[427, 640, 3] between 0 and 1."""
    from sklearn.datasets import load_sample_image

    return load_sample_image("flower.jpg").astype(np.float32) / 255


def dusty() -> np.ndarray:
    """The photograph with pixels that are black or white."""
    random = np.random.default_rng(0)
    picture = photograph()
    struck = random.random(picture.shape[:2]) < DUST
    picture[struck] = random.integers(0, 2, (int(struck.sum()), 1)).astype(np.float32)
    return picture


def clean():
    """The model with the kernels."""
    return lambda picture: _cleaned(median, picture), (dusty(),)


def plainly():
    """The same in plain JAX."""
    return lambda picture: _cleaned(medians, picture), (dusty(),)
