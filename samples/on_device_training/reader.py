"""The digit reader with a last layer that goes on learning where it runs.

edgec export samples/on_device_training/reader.py:personal_reader -o reader.mlirbc

The layers below stay as they were trained. The last layer is the program's state: it lives on
the device, `train_step` changes it there, and `predict` reads with it as it now is.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax

from edgec.exporters import Bundle, Entry

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "digits"))
import data
import model
import train

BATCH = 32
RATE = 0.02

State = Mapping[str, jax.Array]


def slanted(images: np.ndarray) -> np.ndarray:
    """The same digits by a writer who leans far to the left: the top rows move left.

    f32[n, 8, 8] to f32[n, 8, 8].
    """
    leaning = np.zeros_like(images)
    for row in range(8):
        shift = (7 - row) // 2 - 1
        columns = np.arange(8) + shift
        inside = (columns >= 0) & (columns < 8)
        leaning[:, row, inside] = images[:, row, columns[inside]]
    return leaning


class PersonalReader:
    """The trained digit reader taken apart: fixed features below, a last layer on top."""

    def __init__(self) -> None:
        parameters = train.variables()["params"]
        self._features = {"params": parameters["features"]}
        self.initial: State = {name: np.asarray(x) for name, x in parameters["readout"].items()}

    def predict(self, state: State, images: jax.Array) -> dict[str, jax.Array]:
        """Digits i32[n] and scores f32[n, 10] of images f32[n, 8, 8]."""
        scores = self._scores(state, images)
        return {"label": jnp.argmax(scores, axis=-1).astype(jnp.int32), "scores": scores}

    def train_step(
        self, state: State, images: jax.Array, labels: jax.Array
    ) -> tuple[State, jax.Array]:
        """One step of gradient descent; returns the new last layer and the loss before it."""

        def loss_of(state: State) -> jax.Array:
            scores = self._scores(state, images)
            return optax.softmax_cross_entropy_with_integer_labels(scores, labels).mean()

        loss, gradients = jax.value_and_grad(loss_of)(state)
        return {name: state[name] - RATE * gradients[name] for name in state}, loss

    def _scores(self, state: State, images: jax.Array) -> jax.Array:
        features = model.Features().apply(self._features, images)
        return features @ state["kernel"] + state["bias"]


def personal_reader() -> Bundle:
    """Both functions over one state: `predict` for all held-out images, `train_step` for 32."""
    reader = PersonalReader()
    learn, held_out = data.load()
    images, labels = slanted(learn.images[:BATCH]), learn.labels[:BATCH]
    return Bundle(
        (
            Entry(reader.predict, (slanted(held_out.images),), name="predict", reads_state=True),
            Entry(reader.train_step, (images, labels), name="train_step", updates_state=True),
        ),
        state=reader.initial,
    )
