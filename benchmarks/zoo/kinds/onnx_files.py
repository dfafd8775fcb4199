"""The ONNX project's own models: those of its tests that PyTorch exported, and its light networks.

The light ones hold a seed in the place of each weight; their answers are to inputs of ones.
"""

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.zoo.kinds.onnx_nodes import arrays
from benchmarks.zoo.subject import Built

__all__ = ["build", "names"]

_FOLDERS = ("pytorch-converted", "pytorch-operator", "simple")


def names() -> list[str]:
    cases = [
        f"{folder}-{path.parent.name.removeprefix('test_')}"
        for folder in _FOLDERS
        for path in (_data() / folder).glob("*/model.onnx")
        if _holds_numbers(path)
    ]
    return sorted([*cases, *(path.stem for path in (_data() / "light").glob("*.onnx"))])


def build(name: str) -> Built:
    if name.startswith("light_"):
        return _light(_data() / "light" / f"{name}.onnx")
    folder = next(f for f in _FOLDERS if name.startswith(f"{f}-"))
    case = _data() / folder / f"test_{name.removeprefix(f'{folder}-')}"
    data = case / "test_data_set_0"
    return Built(
        model=str(case / "model.onnx"), proof=(arrays(data, "input"), arrays(data, "output"))
    )


def _light(path: Path) -> Built:
    import onnx

    model = onnx.load(path)
    held = {tensor.name for tensor in model.graph.initializer}
    inputs = {
        value.name: np.ones([d.dim_value for d in value.type.tensor_type.shape.dim], np.float32)
        for value in model.graph.input
        if value.name not in held
    }
    return Built(model=model, kwargs=inputs)


def _data() -> Path:
    from onnx.backend.test import loader

    return Path(loader.DATA_DIR)


def _holds_numbers(path: Path) -> bool:
    import onnx

    graph = onnx.load(path, load_external_data=False).graph
    return all(_is_tensor_of_numbers(value.type) for value in (*graph.input, *graph.output))


def _is_tensor_of_numbers(kind: Any) -> bool:
    import onnx

    return kind.HasField("tensor_type") and kind.tensor_type.elem_type != onnx.TensorProto.STRING
