"""Two networks for several GPUs, seeded: a block of a large transformer, and BERT-large, in f16.

Plain JAX, so that XLA runs the same functions; edgec is not needed. Axes of the mesh that a network
knows: `model` cuts heads and the inner layer (tensor parallelism), `data` the texts.
"""

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["NETWORKS", "WAYS", "Network", "callable_of", "inputs_of", "spec_of", "weights_of"]


@dataclass(frozen=True, kw_only=True)
class Network:
    """Sizes: texts of tokens, width, heads, inner layer, layers.

    `vocabulary` is 0 for a network that takes numbers instead of tokens.
    """

    texts: int
    tokens: int
    width: int
    heads: int
    inner: int
    layers: int = 1
    vocabulary: int = 0
    causal: bool = False


NETWORKS = {
    "block": Network(texts=2, tokens=2048, width=4096, heads=32, inner=16384, causal=True),
    "bert-large": Network(
        texts=16, tokens=512, width=1024, heads=16, inner=4096, layers=24, vocabulary=30522
    ),
}
"""By name."""


def _shapes(net: Network) -> dict[str, tuple[int, ...]]:
    each = net.width // net.heads
    found: dict[str, tuple[int, ...]] = {}
    if net.vocabulary:
        found = {"words": (net.vocabulary, net.width), "places": (net.tokens, net.width)}
        found |= {"scale": (net.width,), "shift": (net.width,)}
    for layer in range(net.layers):
        found |= {
            f"{layer}.{name}": shape
            for name, shape in {
                "query": (net.width, net.heads, each),
                "key": (net.width, net.heads, each),
                "value": (net.width, net.heads, each),
                "out": (net.heads, each, net.width),
                "up": (net.width, net.inner),
                "down": (net.inner, net.width),
                "query_bias": (net.heads, 1, each),
                "key_bias": (net.heads, 1, each),
                "value_bias": (net.heads, 1, each),
                "out_bias": (net.width,),
                "up_bias": (net.inner,),
                "down_bias": (net.width,),
                "scale_1": (net.width,),
                "shift_1": (net.width,),
                "scale_2": (net.width,),
                "shift_2": (net.width,),
            }.items()
        }
    return found


def weights_of(name: str) -> dict[str, np.ndarray]:
    """Every weight in f16, drawn by its name."""
    found = {}
    for key, shape in _shapes(NETWORKS[name]).items():
        random = np.random.default_rng(zlib.crc32(f"{name}.{key}".encode()))
        values = random.standard_normal(shape, np.float32)
        kind = key.rpartition(".")[2]
        if kind.startswith("scale"):
            values = 1 + 0.1 * values
        elif kind in ("words", "places") or kind.startswith("shift") or kind.endswith("bias"):
            values *= 0.1
        else:
            values /= np.sqrt(np.prod(shape[:-1]) if kind == "out" else shape[0])
        found[key] = values.astype(np.float16)
    return found


def inputs_of(name: str) -> np.ndarray:
    """The one input: tokens, or numbers in f16."""
    net, random = NETWORKS[name], np.random.default_rng(1)
    if net.vocabulary:
        return random.integers(0, net.vocabulary, (net.texts, net.tokens), np.int32)
    return random.standard_normal((net.texts, net.tokens, net.width), np.float32).astype(np.float16)


WAYS = {"block": ("data", "model"), "bert-large": ("data", "model")}
"""The axes along which each network is cut in two."""

_CUTS: dict[str, tuple[str | None, ...]] = {
    "query": (None, "model", None),
    "key": (None, "model", None),
    "value": (None, "model", None),
    "out": ("model", None, None),
    "up": (None, "model"),
    "down": ("model", None),
    "query_bias": ("model", None, None),
    "key_bias": ("model", None, None),
    "value_bias": ("model", None, None),
    "up_bias": ("model",),
}


def spec_of(key: str, axes: tuple[str, ...]) -> Any:
    """How a weight is cut on a mesh of these axes."""
    from jax.sharding import PartitionSpec

    names = _CUTS.get(key.rpartition(".")[2], ())
    return PartitionSpec(*(name if name in axes else None for name in names))


def callable_of(name: str) -> Callable[[Mapping[str, Any], Any], Any]:
    """The network as a function of its weights and its input, in the type of its weights."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import PartitionSpec

    net = NETWORKS[name]
    scale = (net.width // net.heads) ** -0.5

    def cut(x: Any, *names: str | None) -> Any:
        axes = jax.sharding.get_abstract_mesh().axis_names
        wanted = [each if each in axes else None for each in names]
        return jax.lax.with_sharding_constraint(x, PartitionSpec(*wanted)) if axes else x

    def norm(x: Any, scale: Any, shift: Any) -> Any:
        wide = x.astype(jnp.float32)
        mean = wide.mean(-1, keepdims=True)
        spread = jnp.square(wide - mean).mean(-1, keepdims=True)
        made = (wide - mean) * jax.lax.rsqrt(spread + 1e-5)
        return (made * scale.astype(jnp.float32) + shift.astype(jnp.float32)).astype(x.dtype)

    def attention(w: Callable[[str], Any], x: Any) -> Any:
        heads = []
        for part in ("query", "key", "value"):
            made = jnp.einsum("btd,dhe->bhte", x, w(part)) + w(f"{part}_bias")
            heads.append(cut(made, "data", "model"))
        q, k, v = heads
        scores = jnp.einsum("bhte,bhse->bhts", q, k) * jnp.asarray(scale, x.dtype)
        if net.causal:
            mask = jnp.tril(jnp.ones((net.tokens, net.tokens), bool))
            scores = jnp.where(mask, scores, jnp.asarray(-6e4, x.dtype))
        read = jnp.einsum("bhts,bhse->bhte", jax.nn.softmax(scores), v)
        return jnp.einsum("bhte,hed->btd", read, w("out")) + w("out_bias")

    def inner(w: Callable[[str], Any], x: Any) -> Any:
        made = jax.nn.gelu(x @ w("up") + w("up_bias"), approximate=net.causal)
        return cut(made, "data", None, "model") @ w("down") + w("down_bias")

    def layer(w: Callable[[str], Any], x: Any) -> Any:
        if net.causal:  # norms before, as large decoders have them
            x = x + attention(w, norm(x, w("scale_1"), w("shift_1")))
            return x + inner(w, norm(x, w("scale_2"), w("shift_2")))
        x = norm(x + attention(w, x), w("scale_1"), w("shift_1"))
        return norm(x + inner(w, x), w("scale_2"), w("shift_2"))

    def network(weights: Mapping[str, Any], x: Any) -> Any:
        x = cut(x, "data")
        if net.vocabulary:
            x = weights["words"][x] + weights["places"]
            x = norm(x, weights["scale"], weights["shift"])
        for number in range(net.layers):
            x = layer(lambda key, number=number: weights[f"{number}.{key}"], x)
        return x

    return network
