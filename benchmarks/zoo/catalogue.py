"""The kinds of the zoo by name; a kind's frameworks are imported when its models are built."""

import importlib
from typing import Protocol, cast

from benchmarks.zoo.subject import Built

__all__ = ["FILES_OF_TFLITE", "KINDS", "WITH_PEERS", "kind_of"]

# Name → module; each has `names()` and `build(name)`.
KINDS = {
    "users": "users",
    "known": "known",
    "transformers": "hugging_face",
    "causal": "causal_models",
    "chat": "chat_folders",
    "timm": "timm_models",
    "torchvision": "torchvision_models",
    "diffusers": "diffusers_models",
    "keras": "keras_models",
    "keras-hub": "keras_hub_models",
    "flax": "flax_models",
    "equimo": "equimo_models",
    "tflite": "tflite_files",
    "tflite-keras": "tflite_converted",
    "onnx-exported": "onnx_exported",
    "onnx-files": "onnx_files",
    "onnx-nodes": "onnx_nodes",
    "packages": "package_files",
}

WITH_PEERS = (
    *("users", "transformers", "causal", "timm", "torchvision", "diffusers"),
    "onnx-exported",
    "packages",
)
"""Kinds of whole networks that have an ONNX form, for ONNX Runtime and OpenVINO."""

FILES_OF_TFLITE = ("tflite", "tflite-keras")
"""Kinds whose models are files of TensorFlow Lite's."""


class Kind(Protocol):
    """What a kind's module gives."""

    def names(self) -> list[str]:
        """All that the list holds."""

    def build(self, name: str) -> Built:
        """One of them, with seeded weights."""


def kind_of(name: str) -> Kind:
    """The module of a kind."""
    return cast(Kind, importlib.import_module(f"benchmarks.zoo.kinds.{KINDS[name]}"))
