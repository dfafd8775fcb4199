"""Networks that are put into bytes: those of the samples, and what says how right they are.

Each gives a model with example inputs, inputs to see ranges in (none of those that it is judged
on), and a judgement of a function that computes what the model does.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

__all__ = ["CASES", "SEEDED", "Case"]

SEEDED = "seeded weights"
"""The judgement of a network that knows nothing."""

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
_Compute = Callable[..., Any]
_Inputs = tuple[np.ndarray, ...]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A network.

    Attributes:
        model: what is exported.
        inputs: examples, and what is timed.
        ranges: inputs to see values in; none for the examples.
        judge: of a function of the inputs, what is right of its answers, in words.
        write_onnx: writes the network for NNCF; None where nothing does.
        write_tflite: writes it for ai-edge-quantizer, by what the packages in a folder have.
        by_rows: whether its products are most of it, so that rows can be rounded at each call.
    """

    model: Any
    inputs: _Inputs
    ranges: tuple[_Inputs, ...]
    judge: Callable[[_Compute], str]
    write_onnx: Callable[[Path], None] | None = None
    write_tflite: Callable[[Path, Path], None] | None = None
    by_rows: bool = False


def _digits() -> Case:
    """Held-out digits, read by the trained network of samples/digits."""
    data, model = _modules("digits", "data", "model")
    function, inputs = model.classifier()
    learned, held_out = data.load()
    count = len(held_out.images)

    def judge(read: _Compute) -> str:
        labels = np.asarray(read(held_out.images)["label"])
        return f"{np.mean(labels == held_out.labels):.1%} of {count} read rightly"

    parts = tuple((learned.images[at : at + count],) for at in (0, count, 2 * count))
    return Case(model=function, inputs=inputs, ranges=parts, judge=judge)


def _sentences() -> Case:
    """Questions about sentences, which MiniLM ranks: samples/sentences."""
    data, model = _modules("sentences", "data", "model")
    network, inputs = model.embedder()
    library = [line.text for line in data.library()]
    size = model.BATCH

    def batches(texts: list[str]) -> Iterator[_Inputs]:
        for first in range(0, len(texts), size):
            some = texts[first : first + size]
            found = model.tokens(some + [""] * (size - len(some)))
            yield tuple(each.numpy() for each in found)

    def vectors(embed: _Compute, texts: list[str]) -> np.ndarray:
        return np.concatenate([np.asarray(embed(*each)) for each in batches(texts)])[: len(texts)]

    def cosines(embed: _Compute) -> np.ndarray:
        return vectors(embed, list(data.QUESTIONS)) @ vectors(embed, library).T

    import torch

    def original(*given: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return np.asarray(network(*(torch.from_numpy(each) for each in given)))

    right = cosines(original)

    def judge(embed: _Compute) -> str:
        found = cosines(embed)
        same = int((found.argmax(1) == right.argmax(1)).sum())
        orders = [np.argsort(np.argsort(each, axis=1), axis=1) for each in (found, right)]
        rank = np.mean([np.corrcoef(a, b)[0, 1] for a, b in zip(*orders, strict=True)])
        return f"best sentence as PyTorch's for {same} of {len(right)}, rank correlation {rank:.3f}"

    def write_onnx(path: Path) -> None:
        names = ["input_ids", "attention_mask"]
        torch.onnx.export(network, inputs, str(path), input_names=names, dynamo=False)

    def write_tflite(path: Path, packages: Path) -> None:
        sys.path.append(str(packages))
        import litert_torch

        litert_torch.convert(network, inputs).export(str(path))

    examples = tuple(np.asarray(each) for each in inputs)
    return Case(
        write_onnx=write_onnx,
        write_tflite=write_tflite,
        model=(network, inputs),
        inputs=examples,
        ranges=tuple(batches(library)),
        judge=judge,
        by_rows=True,
    )


def _photos() -> Case:
    """MobileNetV3Large with numbers from a seed, which know nothing: its time alone."""
    os.environ["WEB_PHOTOS_WEIGHTS"] = "none"
    (network,) = _modules("web_photos", "network")
    function, inputs = network.classifier()

    def write_tflite(path: Path, packages: Path) -> None:
        import keras

        del packages  # TensorFlow's converter, in a process whose Keras is TensorFlow's
        keras.utils.set_random_seed(3)  # the numbers of `classifier`
        size = (network.SIZE, network.SIZE, 3)
        weights = path.with_suffix(".weights.h5")
        keras.applications.MobileNetV3Large(input_shape=size, weights=None).save_weights(weights)
        subprocess.run(
            [sys.executable, "-c", _KERAS_TO_TFLITE, str(weights), str(path)],
            env={**os.environ, "KERAS_BACKEND": "tensorflow"},
            check=True,
        )

    return Case(
        model=function,
        inputs=inputs,
        ranges=(),
        judge=lambda _: SEEDED,
        write_tflite=write_tflite,
    )


_KERAS_TO_TFLITE = """
import sys, keras, tensorflow as tf
network = keras.applications.MobileNetV3Large(input_shape=(224, 224, 3), weights=None)
network.load_weights(sys.argv[1])
open(sys.argv[2], "wb").write(tf.lite.TFLiteConverter.from_keras_model(network).convert())
"""


def _modules(sample: str, *names: str) -> tuple[Any, ...]:
    """Modules of a sample, which import each other by plain names."""
    import importlib

    for name in ("data", "model", "network", "train"):  # those of another sample
        sys.modules.pop(name, None)
    sys.path[:] = [str(SAMPLES / sample), *(each for each in sys.path if str(SAMPLES) not in each)]
    return tuple(importlib.import_module(name) for name in names)


CASES: Mapping[str, Callable[[], Case]] = MappingProxyType(
    {"digits": _digits, "MiniLM": _sentences, "MobileNetV3": _photos}
)
