"""GGUF files of the shapes that people bring, with seeded weights in the usual blocks.

python -m benchmarks.text.shapes llama-3.2-1b Q4_0 --words=SmolLM2.gguf -o llama.gguf
python -m benchmarks.text.shapes qwen3-0.6b Q4_K_M --words=SmolLM2.gguf -o qwen.gguf

Sizes, number of words and kinds of blocks are those of the published files; the weights are random
blocks, so such a model says nothing, at the speed of the real one. Its tokenizer is another file's
with words joined further until there are as many.
"""

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import gguf
import numpy as np

__all__ = ["MIXES", "SHAPES", "Shape", "write_shape"]

_CONTROL, _NORMAL = 3, 1


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A network's sizes, as its `config.json` has them.

    Attributes:
        kind: what GGUF calls the architecture.
        head: numbers of a head, which need not be `width / heads`.
        base: of the rotary positions.
        epsilon: of the norms.
        even_heads: whether queries and keys have norms of their own.
        stretched: Llama 3's stretching of slow positions: factor, low, high, original context.
    """

    kind: str
    layers: int
    width: int
    inner: int
    heads: int
    shared: int
    head: int
    words: int
    context: int
    base: float
    epsilon: float
    even_heads: bool = False
    stretched: tuple[float, float, float, int] | None = None


SHAPES: Mapping[str, Shape] = MappingProxyType(
    {
        "llama-3.2-1b": Shape(
            kind="llama",
            layers=16,
            width=2048,
            inner=8192,
            heads=32,
            shared=8,
            head=64,
            words=128256,
            context=131072,
            base=500000.0,
            epsilon=1e-5,
            stretched=(32.0, 1.0, 4.0, 8192),
        ),
        # Its words are its own outputs here, where the published model has two matrices of them: a
        # token reads as much. `--layers=8` is what a machine of 24 GB can export.
        "llama-3.1-8b": Shape(
            kind="llama",
            layers=32,
            width=4096,
            inner=14336,
            heads=32,
            shared=8,
            head=128,
            words=128256,
            context=131072,
            base=500000.0,
            epsilon=1e-5,
            stretched=(8.0, 1.0, 4.0, 8192),
        ),
        "qwen3-0.6b": Shape(
            kind="qwen3",
            layers=28,
            width=1024,
            inner=3072,
            heads=16,
            shared=8,
            head=128,
            words=151936,
            context=40960,
            base=1000000.0,
            epsilon=1e-6,
            even_heads=True,
        ),
        "smollm2-135m": Shape(
            kind="llama",
            layers=30,
            width=576,
            inner=1536,
            heads=9,
            shared=3,
            head=64,
            words=49152,
            context=8192,
            base=100000.0,
            epsilon=1e-5,
        ),
    }
)


@dataclass(frozen=True, kw_only=True)
class _Mix:
    """Which blocks which weights are in: what llama.cpp's own tool chooses for tied embeddings."""

    file_type: gguf.LlamaFileType
    most: str
    words: str
    better: str = ""
    """Of values and of what goes back from the inner width, in some layers."""

    def kind(self, name: str, layer: int, layers: int) -> str:
        early, late = layer < layers // 8, layer >= 7 * layers // 8
        chosen = early or late or (layer - layers // 8) % 3 == 2
        return (
            self.better if self.better and chosen and name in ("attn_v", "ffn_down") else self.most
        )


MIXES: Mapping[str, _Mix] = MappingProxyType(
    {
        "Q4_0": _Mix(file_type=gguf.LlamaFileType.MOSTLY_Q4_0, most="Q4_0", words="Q6_K"),
        "Q4_K_M": _Mix(
            file_type=gguf.LlamaFileType.MOSTLY_Q4_K_M, most="Q4_K", words="Q6_K", better="Q6_K"
        ),
        "Q8_0": _Mix(file_type=gguf.LlamaFileType.MOSTLY_Q8_0, most="Q8_0", words="Q8_0"),
    }
)


@dataclass(frozen=True, kw_only=True)
class _Block:
    """A block's bytes, and where its own factors in f16 are, beside how large they are."""

    numbers: int
    size: int
    factors: tuple[tuple[int, float], ...] = field(default=((0, 1.0),))


_BLOCKS: Mapping[str, _Block] = MappingProxyType(
    {
        "Q4_0": _Block(numbers=32, size=18),
        "Q8_0": _Block(numbers=32, size=34),
        # The least values are taken away: the middle of the codes is where 0 lies.
        "Q4_K": _Block(numbers=256, size=144, factors=((0, 1.0), (2, 7.5))),
        "Q6_K": _Block(numbers=256, size=210, factors=((208, 1.0),)),
    }
)


def write_shape(shape: Shape, mix: _Mix, words: Path, path: Path, *, seed: int = 0) -> None:
    """Write a file.

    Args:
        shape: its sizes.
        mix: its kinds of blocks.
        words: a GGUF file with a tokenizer of bytes and pairs.
        path: where to.
        seed: of the weights, and of what words are joined.
    """
    random = np.random.default_rng(seed)
    writer = gguf.GGUFWriter(path, shape.kind)
    writer.add_file_type(mix.file_type)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    _write_sizes(writer, shape)
    _write_words(writer, gguf.GGUFReader(words), shape.words, random)
    for name, rows, inner, kind in _tensors(shape, mix):
        if kind:
            data = _weights(rows, inner, kind, random)
            writer.add_tensor(name, data, raw_dtype=gguf.GGMLQuantizationType[kind])
        else:
            writer.add_tensor(name, np.ones(inner, np.float32))
    if shape.stretched:
        writer.add_tensor("rope_freqs.weight", _stretched(shape, *shape.stretched))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _write_sizes(writer: Any, shape: Shape) -> None:
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.inner)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.shared)
    writer.add_key_length(shape.head)
    writer.add_value_length(shape.head)
    writer.add_rope_dimension_count(shape.head)
    writer.add_rope_freq_base(shape.base)
    writer.add_layer_norm_rms_eps(shape.epsilon)
    writer.add_vocab_size(shape.words)


def _write_words(writer: Any, held: Any, count: int, random: np.random.Generator) -> None:
    """The tokenizer of another file, with words of two of its words until there are enough."""
    fields = held.fields
    words = fields["tokenizer.ggml.tokens"].contents()
    kinds = fields["tokenizer.ggml.token_type"].contents()
    pairs = fields["tokenizer.ggml.merges"].contents()
    plain = [word for word, kind in zip(words, kinds, strict=True) if kind == _NORMAL]
    known = set(words)
    while len(words) < count:
        left, right = (plain[n] for n in random.integers(0, len(plain), 2))
        # A word goes before letters alone, as in pairs that were counted in texts.
        if left + right in known or not right.isalpha() or not left[-1].isalpha():
            continue
        known.add(left + right)
        words.append(left + right)
        kinds.append(_NORMAL)
        pairs.append(f"{left} {right}")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(fields["tokenizer.ggml.pre"].contents())
    writer.add_token_list(words)
    writer.add_token_types(kinds)
    writer.add_token_merges(pairs)
    writer.add_bos_token_id(fields["tokenizer.ggml.bos_token_id"].contents())
    writer.add_eos_token_id(fields["tokenizer.ggml.eos_token_id"].contents())
    writer.add_chat_template(fields["tokenizer.chat_template"].contents())


def _tensors(shape: Shape, mix: _Mix) -> Iterator[tuple[str, int, int, str]]:
    """Each tensor's name, outputs, inputs and kind of blocks; none for a norm."""
    yield "token_embd.weight", shape.words, shape.width, mix.words
    yield "output_norm.weight", 1, shape.width, ""
    query, key = shape.heads * shape.head, shape.shared * shape.head
    matrices = {
        "attn_q": (query, shape.width),
        "attn_k": (key, shape.width),
        "attn_v": (key, shape.width),
        "attn_output": (shape.width, query),
        "ffn_gate": (shape.inner, shape.width),
        "ffn_up": (shape.inner, shape.width),
        "ffn_down": (shape.width, shape.inner),
    }
    for layer in range(shape.layers):
        for name, (rows, inner) in matrices.items():
            yield f"blk.{layer}.{name}.weight", rows, inner, mix.kind(name, layer, shape.layers)
        norms = {"attn_norm": shape.width, "ffn_norm": shape.width}
        if shape.even_heads:
            norms |= {"attn_q_norm": shape.head, "attn_k_norm": shape.head}
        for name, inner in norms.items():
            yield f"blk.{layer}.{name}.weight", 1, inner, ""


def _weights(rows: int, inner: int, kind: str, random: np.random.Generator) -> np.ndarray:
    """Random blocks whose numbers are spread as those of a trained network's weights."""
    block = _BLOCKS[kind]
    data = random.integers(0, 256, (rows * inner // block.numbers, block.size), np.uint8)
    _set_factors(data, block, 1.0)
    spread = gguf.quants.dequantize(data[:64], gguf.GGMLQuantizationType[kind]).std()
    _set_factors(data, block, float(inner**-0.5 / spread))
    return data.reshape(rows, -1)


def _set_factors(data: np.ndarray, block: _Block, whole: float) -> None:
    for place, share in block.factors:
        data[:, place : place + 2] = np.array([whole * share], np.float16).view(np.uint8)


def _stretched(shape: Shape, factor: float, low: float, high: float, original: int) -> np.ndarray:
    """What each frequency of the positions is divided by: Llama 3's rule."""
    turns = original * shape.base ** (-np.arange(0, shape.head, 2) / shape.head) / (2 * np.pi)
    smooth = np.clip((turns - low) / (high - low), 0, 1)
    return (1 / ((1 - smooth) / factor + smooth)).astype(np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shape", choices=sorted(SHAPES))
    parser.add_argument("mix", choices=sorted(MIXES))
    parser.add_argument("--words", type=Path, required=True, help="a GGUF file with a tokenizer")
    parser.add_argument("--layers", type=int, help="how many (default: all)")
    parser.add_argument("-o", "--output", type=Path, required=True)
    chosen = parser.parse_args()
    shape = SHAPES[chosen.shape]
    if chosen.layers:
        shape = replace(shape, layers=chosen.layers)
    write_shape(shape, MIXES[chosen.mix], chosen.words, chosen.output)


if __name__ == "__main__":
    main()
