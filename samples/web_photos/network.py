"""MobileNetV3 for one photograph: `photo`, f32[224, 224, 3] of 0 to 255, to `shares`, f32[1000].

Weights are what `WEB_PHOTOS_WEIGHTS` says: `imagenet`, which Keras downloads once (the default), a
file of weights for Keras' MobileNetV3Large, or `none`, numbers from a seed that know nothing.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

os.environ.setdefault("KERAS_BACKEND", "jax")

import jax
import keras

SIZE = 224
KINDS = 1000
NAMES = "https://storage.googleapis.com/download.tensorflow.org/data/imagenet_class_index.json"


def classifier() -> tuple[Callable[[jax.Array], dict[str, jax.Array]], tuple[np.ndarray]]:
    """The network, and a photograph of noise."""
    chosen = os.environ.get("WEB_PHOTOS_WEIGHTS", "imagenet")
    keras.utils.set_random_seed(3)
    model = keras.applications.MobileNetV3Large(
        input_shape=(SIZE, SIZE, 3), weights=None if chosen == "none" else chosen
    )

    def main(photo: jax.Array) -> dict[str, jax.Array]:
        return {"shares": model(photo[None], training=False)[0]}

    noise = np.random.default_rng(5).uniform(0, 255, (SIZE, SIZE, 3))
    return main, (noise.astype(np.float32),)


def names() -> list[str]:
    """What each of the kinds is called, which Keras downloads once; numbers without weights."""
    if os.environ.get("WEB_PHOTOS_WEIGHTS") == "none":
        return [f"kind {number}" for number in range(KINDS)]
    path = keras.utils.get_file("imagenet_class_index.json", NAMES, cache_subdir="models")
    index = json.loads(Path(path).read_text())
    return [index[str(number)][1].replace("_", " ") for number in range(KINDS)]
