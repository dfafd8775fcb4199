"""The digit reader for one image: `image`, f32[8, 8], to `logits`, a score for each digit.

edgec export samples/web_digits/reader.py:reader -o digits.mlirbc
"""

import sys
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np

DIGITS = Path(__file__).resolve().parent.parent / "digits"


def reader() -> tuple[Callable[[jax.Array], dict[str, jax.Array]], tuple[np.ndarray]]:
    """The digits sample's trained network, and an image that was held out."""
    sys.path.insert(0, str(DIGITS))
    import data
    import train
    from model import DigitReader

    variables = train.variables()

    def main(image: jax.Array) -> dict[str, jax.Array]:
        return {"logits": DigitReader().apply(variables, image[None])[0]}

    _, held_out = data.load()
    return main, (held_out.images[0],)
