"""Train the digit reader in JAX: seconds on a CPU, the same weights every time on one machine.

`variables()` trains once and keeps the weights in `weights.npz` in this folder.
"""

import hashlib
import os
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import data
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.traverse_util import flatten_dict, unflatten_dict
from model import DigitReader

FOLDER = Path(__file__).resolve().parent
WEIGHTS = FOLDER / "weights.npz"
STEPS = 400
BATCH = 128

Variables = Mapping[str, Any]


def train(report_every: int = 0) -> Variables:
    """Weights after `STEPS` steps of Adam; prints the loss now and then if asked to."""
    learn, _ = data.load()
    images, labels = jnp.asarray(learn.images), jnp.asarray(learn.labels)
    variables = DigitReader().init(jax.random.key(0), images[:1])
    optimizer = optax.adam(optax.cosine_decay_schedule(3e-3, STEPS))

    def loss_of(variables: Variables, batch: jax.Array) -> jax.Array:
        scores = DigitReader().apply(variables, images[batch])
        return optax.softmax_cross_entropy_with_integer_labels(scores, labels[batch]).mean()

    @jax.jit
    def step(variables: Variables, memory: Any, batch: jax.Array) -> tuple[Variables, Any, Any]:
        loss, gradients = jax.value_and_grad(loss_of)(variables, batch)
        updates, memory = optimizer.update(gradients, memory)
        return optax.apply_updates(variables, updates), memory, loss

    memory = optimizer.init(variables)
    order = np.random.default_rng(1)
    for count in range(STEPS):
        batch = order.choice(len(labels), BATCH, replace=False)
        variables, memory, loss = step(variables, memory, batch)
        if report_every and (count + 1) % report_every == 0:
            print(f"step {count + 1:4}   loss {loss:.4f}")
    return variables


def variables() -> Variables:
    """The trained weights, from `weights.npz` if that was made by this very code."""
    recipe = _recipe()
    try:
        with np.load(WEIGHTS) as kept:
            if str(kept["recipe"]) == recipe:
                flat = {name: kept[name] for name in kept.files if name != "recipe"}
                return unflatten_dict(flat, sep="/")
    except (OSError, KeyError, ValueError, zipfile.BadZipFile):
        pass
    trained = train()
    _save({"recipe": recipe, **flatten_dict(trained, sep="/")})
    return trained


def accuracy(read: np.ndarray, true: np.ndarray) -> float:
    """Which part of the digits was read right."""
    return float(np.mean(read == true))


def _recipe() -> str:
    sources = (FOLDER / name for name in ("data.py", "model.py", "train.py"))
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()


def _save(arrays: Mapping[str, Any]) -> None:
    """Write `weights.npz` whole or not at all: two processes may train at once."""
    with tempfile.NamedTemporaryFile(dir=FOLDER, suffix=".npz", delete=False) as stream:
        np.savez(stream, **arrays)
    os.replace(stream.name, WEIGHTS)  # noqa: PTH105


if __name__ == "__main__":
    trained = train(report_every=50)
    _, held_out = data.load()
    scores = DigitReader().apply(trained, held_out.images)
    right = accuracy(np.argmax(scores, axis=-1), held_out.labels)
    _save({"recipe": _recipe(), **flatten_dict(trained, sep="/")})
    print(f"{right:.1%} of {len(held_out.labels)} held-out digits are read right")
