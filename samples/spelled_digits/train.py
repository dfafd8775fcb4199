"""Two models that learn digits on any platform of JAX's, with the losses of XLA's CPU.

JAX_PLATFORMS=edgec python samples/spelled_digits/train.py spell      # an encoder-decoder, in Flax
JAX_PLATFORMS=edgec python samples/spelled_digits/train.py read       # a perceptron, in Equinox

`spell` reads a picture of 8 x 8 pixels row by row and writes the digit's name by its letters. Its
blocks are T5's: norms by the mean of squares without biases, positions told by what is added to an
attention's scores, gated linear units, one table for the letters that go in and come out.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "digits"))
import data

NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
LETTERS = " " + "".join(sorted(set("".join(NAMES))))
"""A blank begins a name and fills it up."""
LENGTH = max(map(len, NAMES)) + 1
WIDTH, HEADS = 32, 4
BATCH = 64


class Attention(nn.Module):
    """Rows of queries and rows of memory to rows; with `causal`, none looks ahead."""

    causal: bool = False

    @nn.compact
    def __call__(self, rows: jax.Array, memory: jax.Array) -> jax.Array:
        def heads(name: str, value: jax.Array) -> jax.Array:
            return nn.DenseGeneral((HEADS, WIDTH // HEADS), use_bias=False, name=name)(value)

        query, key, value = heads("q", rows), heads("k", memory), heads("v", memory)
        scores = jnp.einsum("bqhd,bkhd->bhqk", query, key)
        count = rows.shape[1], memory.shape[1]
        if rows is memory:
            far = jnp.arange(count[0])[:, None] - jnp.arange(count[1]) + count[1]
            table = self.param("far", nn.initializers.normal(0.1), (2 * count[1] + 1, HEADS))
            scores += jnp.moveaxis(table[far], -1, 0)
        if self.causal:
            scores = jnp.where(jnp.tril(jnp.ones(count, bool)), scores, -1e9)
        mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), value)
        return nn.DenseGeneral(WIDTH, (-2, -1), use_bias=False, name="o")(mixed)


class Gated(nn.Module):
    """A gated linear unit."""

    @nn.compact
    def __call__(self, rows: jax.Array) -> jax.Array:
        gate, up = (nn.Dense(2 * WIDTH, use_bias=False, name=name)(rows) for name in ("g", "u"))
        return nn.Dense(WIDTH, use_bias=False, name="down")(jax.nn.gelu(gate) * up)


class Speller(nn.Module):
    """Pictures f32[n, 8, 8] and the letters so far i32[n, length] to scores of the next ones."""

    @nn.compact
    def __call__(self, pictures: jax.Array, letters: jax.Array) -> jax.Array:
        x = nn.Dense(WIDTH, use_bias=False, name="rows")(pictures / 16)
        normed = nn.RMSNorm(name="norm_x")(x)
        x = x + Attention(name="encoder")(normed, normed)
        x = x + Gated(name="encoder_unit")(nn.RMSNorm(name="norm_unit")(x))
        x = nn.RMSNorm(name="norm_memory")(x)
        table = nn.Embed(len(LETTERS), WIDTH, name="letters")
        y = table(letters)
        normed = nn.RMSNorm(name="norm_y")(y)
        y = y + Attention(causal=True, name="decoder")(normed, normed)
        y = y + Attention(name="across")(nn.RMSNorm(name="norm_across")(y), x)
        y = y + Gated(name="decoder_unit")(nn.RMSNorm(name="norm_out")(y))
        return table.attend(nn.RMSNorm(name="norm_end")(y))


def spelled(labels: np.ndarray) -> np.ndarray:
    """The letters of digits' names, i32[n, length]."""
    rows = [[LETTERS.index(each) for each in name.ljust(LENGTH)] for name in NAMES]
    return np.asarray(rows, np.int32)[labels]


def speller() -> tuple[Any, Callable[..., Any]]:
    """Weights, and the loss of pictures with their labels."""
    network = Speller()
    nothing = jnp.zeros((1, LENGTH), jnp.int32)
    weights = network.init(jax.random.key(0), jnp.zeros((1, 8, 8)), nothing)

    def loss_of(weights: Any, pictures: jax.Array, labels: jax.Array) -> jax.Array:
        names = jnp.asarray(spelled(np.arange(len(NAMES))))[labels]
        before = jnp.pad(names, ((0, 0), (1, 0)))[:, :-1]
        scores = network.apply(weights, pictures, before)
        return optax.softmax_cross_entropy_with_integer_labels(scores, names).mean()

    return weights, loss_of


def reader() -> tuple[Any, Callable[..., Any]]:
    """A perceptron in Equinox: its arrays, and the loss of pictures with their labels."""
    import equinox

    network = equinox.nn.MLP(64, 10, 48, 2, key=jax.random.key(0))
    arrays, rest = equinox.partition(network, equinox.is_array)

    def loss_of(arrays: Any, pictures: jax.Array, labels: jax.Array) -> jax.Array:
        network = equinox.combine(arrays, rest)
        scores = jax.vmap(network)(pictures.reshape(len(pictures), -1) / 16)
        return optax.softmax_cross_entropy_with_integer_labels(scores, labels).mean()

    return arrays, loss_of


def train(made: tuple[Any, Callable[..., Any]], steps: int, rate: float) -> list[float]:
    """The loss of every step of Adam."""
    weights, loss_of = made
    learn, _ = data.load()
    optimizer = optax.adam(rate)

    @jax.jit
    def step(weights: Any, memory: Any, pictures: jax.Array, labels: jax.Array) -> Any:
        loss, gradients = jax.value_and_grad(loss_of)(weights, pictures, labels)
        updates, memory = optimizer.update(gradients, memory)
        return optax.apply_updates(weights, updates), memory, loss

    memory, losses = optimizer.init(weights), []
    order = np.random.default_rng(1)
    for _ in range(steps):
        batch = order.choice(len(learn.labels), BATCH, replace=False)
        weights, memory, loss = step(weights, memory, learn.images[batch], learn.labels[batch])
        losses.append(float(loss))
    return losses


def main() -> None:
    """Train, and print the loss now and then."""
    made, steps, rate = {"spell": (speller, 120, 3e-3), "read": (reader, 60, 3e-3)}[sys.argv[1]]
    for number, loss in enumerate(train(made(), steps, rate), 1):
        if number % (steps // 6) == 0:
            print(f"step {number:4}   loss {loss:.4f}")


if __name__ == "__main__":
    main()
