"""Weights to a file that the runtime maps, `.safetensors` or IREE's `.irpa`, and back."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from edgec.runtime.dtypes import DType
from edgec.runtime.errors import FileError, UsageError
from edgec.runtime.files import write_atomically
from edgec.runtime.parameters import WeightsFile

__all__ = ["check_weights_path", "read_weights", "write_weights"]

_SAFETENSORS_DTYPES = {
    DType.BOOL: "BOOL",
    DType.I8: "I8",
    DType.I16: "I16",
    DType.I32: "I32",
    DType.I64: "I64",
    DType.U8: "U8",
    DType.U16: "U16",
    DType.U32: "U32",
    DType.U64: "U64",
    DType.F16: "F16",
    DType.BF16: "BF16",
    DType.F32: "F32",
    DType.F64: "F64",
    DType.C64: "C64",
}
_ALIGNMENT = 64
"""Where the data begins and each tensor in it; a device reads mapped weights at this alignment."""


def check_weights_path(path: Path) -> None:
    """Refuse a weights file of a kind that edgec does not write, before any work is done.

    Raises:
        UsageError: the suffix is neither `.safetensors` nor `.irpa`.
    """
    if path.suffix not in (".safetensors", ".irpa"):
        raise UsageError(
            f"{path} is no weights file",
            hint="name it .safetensors or .irpa",
        )


def write_weights(weights: Mapping[str, np.ndarray], path: Path) -> None:
    """Write all weights, whole or not at all.

    Raises:
        FileError: the file cannot be written.
        UsageError: unknown suffix, or an element type that the format has not.
    """
    check_weights_path(path)
    if path.suffix == ".irpa":
        _write_irpa(weights, path)
    else:
        _write_safetensors(weights, path)


def _write_safetensors(weights: Mapping[str, np.ndarray], path: Path) -> None:
    header: dict[str, object] = {}
    order: list[np.ndarray] = []
    offset = 0
    # The format wants no holes between tensors, so those of whole alignment units come first
    # and keep the ones after them aligned.
    for name, value in sorted(weights.items(), key=lambda item: item[1].nbytes % _ALIGNMENT != 0):
        dtype = _SAFETENSORS_DTYPES.get(DType.of(value.dtype))
        if dtype is None:
            raise UsageError(
                f"the weight {name} is {value.dtype}, which .safetensors cannot hold",
                hint="name the weights file .irpa",
            )
        header[name] = {
            "dtype": dtype,
            "shape": list(value.shape),
            "data_offsets": [offset, offset + value.nbytes],
        }
        order.append(value)
        offset += value.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % _ALIGNMENT)
    with write_atomically(path) as stream:
        stream.write(len(text).to_bytes(8, "little"))
        stream.write(text)
        for value in order:
            stream.write(_raw(value).data)


def _write_irpa(weights: Mapping[str, np.ndarray], path: Path) -> None:
    from iree.runtime import ParameterIndex

    index = ParameterIndex()
    for name, value in weights.items():
        index.add_buffer(name, _raw(value))
    temporary = path.with_name(f".{path.name}.part")
    try:
        index.create_archive_file(str(temporary))
        temporary.replace(path)
    except (OSError, RuntimeError, ValueError) as error:
        raise FileError(
            f"cannot write {path}: {error}", hint="free some space or choose another place"
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def _raw(value: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(value).reshape(-1).view(np.uint8)


def read_weights(path: Path) -> dict[str, np.ndarray]:
    """All weights of a `.safetensors` file, mapped; other files do not say of what type they are.

    Raises:
        FileError: the file is missing.
        ModuleError: it is damaged.
        UsageError: it is of another kind, or holds an element type that NumPy does not have.
    """
    if path.suffix != ".safetensors":
        raise UsageError(
            f"{path} does not say what its weights are",
            hint="export the model with --external-weights=NAME.safetensors",
        )
    WeightsFile.open(path)  # checks it
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        header = json.loads(stream.read(length))
    kinds = {name: dtype for dtype, name in _SAFETENSORS_DTYPES.items()}
    found = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        if entry["dtype"] not in kinds:
            raise UsageError(f"the weight {name} in {path} is of the type {entry['dtype']}")
        if not all(entry["shape"]):
            found[name] = np.zeros(entry["shape"], kinds[entry["dtype"]].numpy)
            continue
        found[name] = np.memmap(
            path,
            dtype=kinds[entry["dtype"]].numpy,
            mode="r",
            offset=8 + length + entry["data_offsets"][0],
            shape=tuple(entry["shape"]),
        )
    return found
