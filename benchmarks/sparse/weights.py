"""Weights with zeros: anywhere, two of four, in blocks; the same ones every time."""

import functools

import numpy as np

__all__ = ["FORMS", "weights"]

_BLOCK = 16
FORMS = (
    "random 2 %",
    "random 5 %",
    "random 10 %",
    "random 20 %",
    "random 30 %",
    "random 50 %",
    "blocks 10 %",
    "2:4",
)
"""What is kept: of numbers anywhere, of blocks of 16 x 16, or the largest two of each four."""


@functools.cache
def weights(form: str, size: int) -> np.ndarray:
    """A matrix f32[size, size] of a form."""
    random = np.random.default_rng(0)
    dense = random.standard_normal((size, size)).astype(np.float32)
    if form == "2:4":
        fours = dense.reshape(size, size // 4, 4)
        least = np.argsort(np.abs(fours), axis=-1)[..., :2]
        np.put_along_axis(fours, least, 0, axis=-1)
        return fours.reshape(size, size)
    kept = float(form.split()[1]) / 100
    if form.startswith("blocks"):
        blocks = random.random((size // _BLOCK, size // _BLOCK)) < kept
        return dense * np.kron(blocks, np.ones((_BLOCK, _BLOCK), np.float32))
    return dense * (random.random((size, size)) < kept)
