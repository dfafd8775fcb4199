"""What Keras itself makes of tiles, in a process of its own.

    python samples/keras/answers.py noisy.npy denoised.npy

Keras brings TensorFlow along where that is installed, and TensorFlow must not share a process with
the Vulkan driver.
"""

import argparse
import os
from pathlib import Path

import numpy as np

MODEL = Path(__file__).resolve().with_name("denoiser.keras")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tiles", type=Path, help="a .npy of noisy tiles, f32[n, 32, 32, 3]")
    parser.add_argument("output", type=Path, help="the .npy to write")
    chosen = parser.parse_args()

    os.environ.setdefault("KERAS_BACKEND", "jax")
    import keras

    model = keras.models.load_model(MODEL, compile=False)
    np.save(chosen.output, model.predict(np.load(chosen.tiles), verbose=0))


if __name__ == "__main__":
    main()
