"""A PyTorch module to a subject of the zoo: seeded, evaluated, and given to the peers as ONNX."""

import contextlib
from collections.abc import Mapping
from typing import Any

from benchmarks.zoo.subject import Built

__all__ = ["declare_torchvision", "subject"]

_OPSET = 18


def subject(model: Any, *inputs: Any, kwargs: Mapping[str, Any] | None = None) -> Built:
    """The model in evaluation, with what exports it for the peers."""
    model = model.eval()

    def write(path: str) -> None:
        import torch

        torch.onnx.export(
            model,
            inputs,
            path,
            kwargs=dict(kwargs or {}),
            dynamo=True,
            opset_version=_OPSET,
            verbose=False,
            external_data=False,
        )

    return Built(model=model, inputs=inputs, kwargs=kwargs, onnx=write)


def declare_torchvision() -> None:
    """Let torchvision be imported where its compiled operators do not load.

    Its wheel in the registry is built for a PyTorch with CUDA; with one without, importing fails
    on operators that only detectors use. Declaring them is enough for all that is in Python.
    """
    import torch

    library = torch.library.Library("torchvision", "FRAGMENT")
    _LIBRARIES.append(library)
    for name in ("nms", "qnms"):
        with contextlib.suppress(RuntimeError):  # it is there already
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


_LIBRARIES: list[Any] = []  # an operator lives as long as the library that declared it
