"""Example inputs that lie beside an `.onnx` file, as the ONNX project ships its models."""

from pathlib import Path
from typing import Any

import numpy as np

from edgec.runtime.errors import SourceError

__all__ = ["inputs_beside"]

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
