"""Outputs of a call to a `.npz` or `.npy` file, to JSON, and to lines for people."""

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from edgec.runtime.dtypes import DType
from edgec.runtime.errors import UsageError
from edgec.runtime.files import write_atomically
from edgec.runtime.signature import TensorSpec

__all__ = ["check_results_path", "result_json", "result_text", "save_results"]

_SUFFIXES = (".npz", ".npy")
_SHOWN = 6
_JSON_VALUES = 64


def check_results_path(path: Path, outputs: int) -> None:
    """Refuse, before any work, a file that results cannot be written to.

    Raises:
        UsageError: its ending is neither `.npz` nor, for a single output, `.npy`.
    """
    if path.suffix not in _SUFFIXES:
        raise UsageError(f"results cannot be written to {path}", hint="end its name in .npz")
    if path.suffix == ".npy" and outputs != 1:
        raise UsageError(f"{path} holds one array, and there are {outputs}", hint="use .npz")


def save_results(path: Path, specs: Sequence[TensorSpec], arrays: Sequence[np.ndarray]) -> None:
    """Write outputs under their names; bf16 is written as f32, which holds every bf16 exactly.

    Raises:
        FileError: the file cannot be written.
    """
    plain = [a.astype(np.float32) if DType.of(a.dtype) is DType.BF16 else a for a in arrays]
    with write_atomically(path) as stream:
        if path.suffix == ".npy":
            npy.write_array(stream, plain[0], allow_pickle=False)
            return
        with zipfile.ZipFile(stream, "w") as archive:
            for spec, array in zip(specs, plain, strict=True):
                with archive.open(f"{spec.name}.npy", "w", force_zip64=True) as member:
                    npy.write_array(member, array, allow_pickle=False)


def result_text(spec: TensorSpec, array: np.ndarray) -> str:
    """`logits: f32[1, 10] = [[1.2, …]]`, abridged."""
    shape = ", ".join(map(str, array.shape))
    body = np.array2string(
        _viewable(array),
        threshold=64,
        edgeitems=_SHOWN // 2,
        precision=6,
        separator=", ",
        max_line_width=100,
    )
    head = f"{spec.name}: {spec.dtype.value}[{shape}] ="
    return f"{head} {body}" if "\n" not in body else f"{head}\n{body}"


def result_json(spec: TensorSpec, array: np.ndarray) -> dict[str, Any]:
    """Name, type, shape, range; the values themselves where they are few."""
    value: dict[str, Any] = {
        "name": spec.name,
        "dtype": spec.dtype.value,
        "shape": list(array.shape),
    }
    plain = _viewable(array)
    if array.size and not np.iscomplexobj(plain):
        value |= {"min": plain.min().item(), "max": plain.max().item()}
        if spec.dtype.is_float:
            value["mean"] = float(plain.mean(dtype=np.float64))
    if array.size <= _JSON_VALUES:
        value["values"] = _listed(plain)
    return value


def _listed(array: np.ndarray) -> Any:
    if np.iscomplexobj(array):
        return np.stack([array.real, array.imag], axis=-1).tolist()
    return array.tolist()


def _viewable(array: np.ndarray) -> np.ndarray:
    """A type that NumPy prints and sums well."""
    small = DType.of(array.dtype) in (DType.BF16, DType.F16)
    return array.astype(np.float32) if small else array
