"""Flax (linen and nnx) and Equinox: models that hold their weights."""

from typing import Any

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from benchmarks.coverage.case import Case, Given, integers, normal


class Cnn(nn.Module):
    """Convolutions, pooling, a dense head."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = nn.max_pool(nn.relu(nn.Conv(16, (3, 3))(x)), (2, 2), (2, 2))
        x = nn.avg_pool(nn.relu(nn.Conv(32, (3, 3))(x)), (2, 2), (2, 2))
        return nn.Dense(10)(x.reshape(x.shape[0], -1))


class ResNetBlock(nn.Module):
    """Two convolutions with batch norm and a projected shortcut."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        y = nn.relu(nn.BatchNorm(use_running_average=True)(nn.Conv(16, (3, 3), strides=2)(x)))
        y = nn.BatchNorm(use_running_average=True)(nn.Conv(16, (3, 3))(y))
        return nn.relu(y + nn.Conv(16, (1, 1), strides=2)(x))


class UNet(nn.Module):
    """Down, up, and a bridge between."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        high = nn.swish(nn.GroupNorm(4)(nn.Conv(8, (3, 3))(x)))
        low = nn.swish(nn.Conv(16, (3, 3), strides=2)(high))
        back = nn.ConvTranspose(8, (2, 2), strides=(2, 2))(low)
        return nn.Conv(3, (3, 3))(jnp.concatenate([back, high], -1))


class Vit(nn.Module):
    """Patches, a class token, one encoder block, a head."""

    @nn.compact
    def __call__(self, image: jax.Array) -> jax.Array:
        x = nn.Conv(32, (4, 4), strides=(4, 4))(image)
        x = x.reshape(x.shape[0], -1, 32)
        first = self.param("class", nn.initializers.normal(0.02), (1, 1, 32))
        x = jnp.concatenate([jnp.tile(first, (x.shape[0], 1, 1)), x], 1)
        x = x + self.param("places", nn.initializers.normal(0.02), (1, x.shape[1], 32))
        y = nn.LayerNorm()(x)
        x = x + nn.MultiHeadDotProductAttention(4)(y, y)
        x = x + nn.Dense(32)(nn.gelu(nn.Dense(64)(nn.LayerNorm()(x))))
        return nn.Dense(10)(x[:, 0])


class CachedAttention(nn.Module):
    """Self-attention that decodes a token a call; the cache is linen's own."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        return nn.MultiHeadDotProductAttention(2, decode=True)(x, x)


class Gru(nnx.Module):
    """A recurrent cell over a sequence and a head."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.recurrent = nnx.RNN(nnx.GRUCell(8, 16, rngs=rngs))
        self.head = nnx.Linear(16, 4, rngs=rngs)

    def __call__(self, sequence: jax.Array) -> jax.Array:
        return self.head(self.recurrent(sequence))


class NnxClassifier(nnx.Module):
    """Embedding, dropout (off), batch norm (running averages), dense."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.table = nnx.Embed(50, 16, rngs=rngs)
        self.norm = nnx.BatchNorm(16, rngs=rngs)
        self.drop = nnx.Dropout(0.5, rngs=rngs)
        self.head = nnx.Linear(16, 4, rngs=rngs)

    def __call__(self, tokens: jax.Array) -> jax.Array:
        return self.head(self.drop(self.norm(self.table(tokens).mean(1))))


class Counter(nnx.Module):
    """A running mean that each call moves."""

    def __init__(self) -> None:
        self.mean = nnx.Variable(jnp.zeros(4))
        self.count = nnx.Variable(jnp.zeros((), jnp.int32))

    def __call__(self, x: jax.Array) -> jax.Array:
        self.count[...] = self.count[...] + 1
        self.mean[...] = self.mean[...] + (x - self.mean[...]) / self.count[...]
        return self.mean[...]


def linen(module: nn.Module, *inputs: np.ndarray, **options: Any) -> Given:
    variables = jax.tree.map(np.asarray, module.init(jax.random.key(0), *inputs))
    return Given(model=(module, variables), inputs=inputs, **options)


def cnn() -> Given:
    return linen(Cnn(), normal(2, 16, 16, 3))


def cnn_dynamic() -> Given:
    return linen(Cnn(), normal(2, 16, 16, 3), dynamic="batch=1..8")


def cnn_external() -> Given:
    return linen(Cnn(), normal(2, 16, 16, 3), external_weights="cnn.irpa")


def resnet() -> Given:
    return linen(ResNetBlock(), normal(1, 16, 16, 8))


def unet() -> Given:
    return linen(UNet(), normal(1, 16, 16, 3))


def vit() -> Given:
    return linen(Vit(), normal(2, 16, 16, 3))


def cached_attention() -> Given:
    module = CachedAttention()
    variables = module.init(jax.random.key(0), normal(1, 8, 16))
    return Given(model=(module, variables), inputs=(normal(1, 1, 16),))


def gru() -> Given:
    return Given(model=Gru(nnx.Rngs(0)), inputs=(normal(2, 10, 8),))


def gru_dynamic() -> Given:
    return Given(
        model=Gru(nnx.Rngs(0)), inputs=(normal(2, 10, 8),), dynamic={"sequence": {0: "batch=1..4"}}
    )


def nnx_classifier() -> Given:
    return Given(model=NnxClassifier(nnx.Rngs(0)), inputs=(integers(50, 3, 7),))


def nnx_state() -> Given:
    return Given(model=Counter(), inputs=(normal(4),))


def equinox_mlp() -> Given:
    model = eqx.nn.MLP(8, 4, 32, 2, key=jax.random.key(0))
    return Given(model=model, inputs=(normal(8),))


def equinox_cnn() -> Given:
    one, two, three = jax.random.split(jax.random.key(0), 3)
    model = eqx.nn.Sequential(
        [
            eqx.nn.Conv2d(3, 8, 3, key=one),
            eqx.nn.Lambda(jax.nn.relu),
            eqx.nn.MaxPool2d(2, 2),
            eqx.nn.Conv2d(8, 8, 3, groups=8, key=two),
            eqx.nn.Lambda(jnp.ravel),
            eqx.nn.Linear(8 * 5 * 5, 4, key=three),
        ]
    )
    return Given(model=model, inputs=(normal(3, 16, 16),))


def equinox_attention() -> Given:
    model = eqx.nn.MultiheadAttention(4, 32, key=jax.random.key(0))
    return Given(model=model, inputs=(normal(6, 32), normal(9, 32), normal(9, 32, seed=1)))


LINEN = (
    Case("CNN", "f32", cnn),
    Case("CNN, dynamic batch", "f32", cnn_dynamic),
    Case("CNN, external weights", "f32", cnn_external),
    Case("ResNet block, batch norm", "f32", resnet),
    Case("U-Net", "f32", unet),
    Case("ViT", "f32", vit),
    Case("attention that decodes, cache as state", "f32", cached_attention),
    Case("GRU (nnx)", "f32", gru),
    Case("GRU (nnx), dynamic batch", "f32", gru_dynamic),
    Case("embedding, batch norm, dropout (nnx)", "f32, i32", nnx_classifier),
    Case("running mean as state (nnx)", "f32, i32", nnx_state),
)
EQUINOX = (
    Case("MLP", "f32", equinox_mlp),
    Case("CNN with depthwise layer", "f32", equinox_cnn),
    Case("attention over two sequences", "f32", equinox_attention),
)
