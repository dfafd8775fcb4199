"""The inputs of calls as files for edgert, and the file of results that comes back as arrays."""

import struct
import tokenize
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from edgec.runtime.errors import DeviceError, FileError
from edgec.runtime.signature import TensorSpec

__all__ = ["read_results", "write_inputs"]

# What reading an archive raises where its bytes are not those that were written.
_DAMAGED = (
    *(OSError, EOFError, ValueError, RuntimeError, struct.error),
    *(zipfile.BadZipFile, zlib.error, tokenize.TokenError),
)


def write_inputs(calls: Sequence[Sequence[np.ndarray]], folder: Path) -> dict[str, Path]:
    """Write the inputs of calls, each a `.npy` file: the files by their names, in order.

    Of several calls, an input that is the same array in all of them is written as it is, another
    with a row for each call, as `edgert run --each` takes them.

    Raises:
        FileError: they cannot be written.
    """
    files: dict[str, Path] = {}
    differ = [any(call[i] is not first for call in calls) for i, first in enumerate(calls[0])]
    for index, first in enumerate(calls[0]):
        # With nothing that differs, the first says how many calls there are.
        is_stacked = differ[index] or (len(calls) > 1 and index == 0 and not any(differ))
        array = np.stack([call[index] for call in calls]) if is_stacked else first
        file = folder / f"in{index}.npy"
        try:
            with file.open("wb") as stream:
                npy.write_array(stream, _contiguous(array), allow_pickle=False)
        except OSError as error:
            raise FileError(
                f"cannot write the inputs to {folder}: {error.strerror}", hint="free some space"
            ) from error
        files[file.name] = file
    return files


def read_results(
    path: Path, specs: Sequence[TensorSpec], calls: int, name: str
) -> list[list[np.ndarray]]:
    """The outputs of every call.

    Args:
        path: the archive that edgert wrote, one array for each output in order.
        specs: the outputs.
        calls: how many calls there were; each array holds a row for each, if it is not one.
        name: what messages call the device.

    Raises:
        DeviceError: the archive is damaged, or holds other arrays.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            arrays = [_read(archive, member) for member in archive.infolist()]
    except _DAMAGED as error:
        raise DeviceError(f"what {name} gave back is damaged: {error}") from error
    if len(arrays) != len(specs):
        raise DeviceError(f"{name} gave back {len(arrays)} results instead of {len(specs)}")
    typed = [_typed(spec, array, name) for spec, array in zip(specs, arrays, strict=True)]
    if calls == 1:
        return [typed]
    if any(array.shape[:1] != (calls,) for array in typed):
        raise DeviceError(f"{name} did not give back the results of {calls} calls")
    return [[array[row] for array in typed] for row in range(calls)]


def _contiguous(array: np.ndarray) -> np.ndarray:
    """In C order; `np.ascontiguousarray` would give a number a dimension."""
    return np.asarray(array, order="C")


def _read(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    with archive.open(member) as stream:
        return np.asarray(npy.read_array(stream, allow_pickle=False))


def _typed(spec: TensorSpec, array: np.ndarray, name: str) -> np.ndarray:
    """An output in the signature's type: bf16 comes as f32, unsigned integers perhaps signed."""
    want = spec.dtype.numpy
    if array.dtype == want:
        return array
    if want.kind == "V" or array.dtype.itemsize != want.itemsize:
        if array.dtype == np.float32 and spec.dtype.is_float:
            return array.astype(want)
    elif array.dtype.kind in "iu" and want.kind in "iu":
        return array.view(want)
    raise DeviceError(f"{name} gave back {array.dtype} for {spec}")
