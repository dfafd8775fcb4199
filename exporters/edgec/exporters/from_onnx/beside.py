"""What lies beside an `.onnx` file: example inputs, as the ONNX project ships them, and weights."""

from pathlib import Path
from typing import Any

import numpy as np

from edgec.runtime.errors import FileError, SourceError

__all__ = ["inputs_beside", "refuse_missing_weights"]

_DATA = "test_data_set_0"


def inputs_beside(path: Path) -> tuple[np.ndarray, ...]:
    """The arrays of `test_data_set_0/input_0.pb` and following; none where there are none.

    Raises:
        SourceError: a file there is no ONNX tensor.
    """
    found: list[np.ndarray] = []
    while (file := path.parent / _DATA / f"input_{len(found)}.pb").exists():
        found.append(_array(file))
    return tuple(found)


def refuse_missing_weights(path: Path) -> None:
    """Raise where a model says that its weights are in a file, and that is not there.

    Raises:
        FileError: naming the file.
    """
    import onnx

    model = onnx.load(path, load_external_data=False)
    for tensor in model.graph.initializer:
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        said = {entry.key: entry.value for entry in tensor.external_data}
        file = path.parent / said.get("location", "")
        if not file.is_file():
            raise FileError(
                f"{path} keeps its weights in {file.name}, which is not there",
                hint=f"put it at {file}",
            )


def _array(path: Path) -> Any:
    from onnx import TensorProto, numpy_helper

    tensor = TensorProto()
    try:
        tensor.ParseFromString(path.read_bytes())
        return np.asarray(numpy_helper.to_array(tensor))
    except Exception as error:
        raise SourceError(
            f"{path} holds no tensor: {error}", hint=f"remove {path.parent}, or write it again"
        ) from error
