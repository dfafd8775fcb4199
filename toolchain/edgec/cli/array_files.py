"""Arrays in `.npy`, `.npz` and raw files to memory; what a file claims is checked before it counts.

Files are not trusted: pickles are refused, and nothing is allocated before the header's shape has
been compared with the number of bytes that are there.
"""

import errno
import io
import lzma
import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import ml_dtypes
import numpy as np
from numpy.lib import format as npy

from edgec.cli.input_spec import TypedShape
from edgec.runtime.errors import FileError, InputError

__all__ = ["Check", "read_npy", "read_npz", "read_raw"]

Check = Callable[[str, tuple[int, ...], np.dtype], None]
"""Called with an array's name, shape and type before its values are read; it may raise."""

_MAX_HEADER = 10_000
_CHUNK = 1 << 24
_WRITE = "write it with numpy.save or numpy.savez"
# What NumPy's header reader and the decompressors raise for bytes that make no sense to them.
_DAMAGE = (
    ValueError,
    TypeError,
    KeyError,
    OverflowError,
    SyntaxError,
    EOFError,
    RuntimeError,
    tokenize.TokenError,
    struct.error,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
)


def read_npy(path: Path, check: Check) -> np.ndarray:
    """The array of a `.npy` file.

    Raises:
        FileError: it cannot be read.
        InputError: it is no such file, damaged, or holds Python objects.
        And what `check` raises.
    """
    with _reading(path), path.open("rb") as stream:
        return _array(stream, os.fstat(stream.fileno()).st_size, path.name, check)


def read_npz(
    path: Path, choose: Callable[[tuple[str, ...]], dict[str, Check]]
) -> dict[str, np.ndarray]:
    """Arrays of a `.npz` archive: `choose` is told the keys, and says which to read and check.

    Raises:
        FileError, InputError: as `read_npy`.
    """
    with _reading(path), zipfile.ZipFile(path) as archive:
        members = {
            info.filename.removesuffix(".npy"): info
            for info in archive.infolist()
            if info.filename.endswith(".npy")
        }
        arrays = {}
        for key, check in choose(tuple(members)).items():
            info = members[key]
            with archive.open(info) as stream:
                arrays[key] = _array(stream, info.file_size, f"{path.name}:{key}", check)
        return arrays


def read_raw(path: Path, typed: TypedShape) -> np.ndarray:
    """Raw little-endian bytes as an array of that shape and type.

    Raises:
        FileError: it cannot be read.
        InputError: it holds more or fewer bytes.
    """
    need = typed.dtype.bits // 8
    for extent in typed.shape:
        need *= extent
    with _reading(path), path.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        if size != need:
            raise InputError(f"{path} holds {size} bytes, and {typed} takes {need}")
        data = _read_all(stream, need, path.name)
    return np.frombuffer(data, typed.dtype.numpy).reshape(typed.shape)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn what reading a bad file raises into edgec's errors."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.EINVAL:  # an archive's table of contents points out of the file
            raise InputError(f"{path} is damaged, or no NumPy file", hint=_WRITE) from error
        raise FileError(f"cannot read {path}: {error.strerror or error}") from error
    except _DAMAGE as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(
            f"{path} is damaged, or no NumPy file: {reason}",
            hint=_WRITE,
        ) from error


def _array(stream: IO[bytes], size: int, name: str, check: Check) -> np.ndarray:
    head = io.BytesIO(stream.read(min(size, _MAX_HEADER + 12)))
    version = npy.read_magic(head)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"{name} is of the NumPy format {version[0]}.{version[1]}")
    read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, fortran, dtype = read_header(head, max_header_size=_MAX_HEADER)
    if dtype.hasobject:
        raise InputError(
            f"{name} holds Python objects (a pickle), which edgec does not load",
            hint="save plain numbers with numpy.save",
        )
    if dtype == np.dtype("V2"):  # how NumPy writes ml_dtypes' bfloat16
        dtype = np.dtype(ml_dtypes.bfloat16)
    if any(extent < 0 for extent in shape):
        raise ValueError(f"{name} has a negative dimension: {shape}")
    need = dtype.itemsize
    for extent in shape:
        need *= extent
    check(name, tuple(map(int, shape)), dtype)
    there = size - head.tell()
    if there < need:
        raise ValueError(f"{name} is truncated: it holds {there} of {need} bytes")
    rest = head.read()
    data = rest[:need] if len(rest) >= need else rest + _read_all(stream, need - len(rest), name)
    array = np.frombuffer(data, dtype)
    return array.reshape(shape[::-1]).T if fortran else array.reshape(shape)


def _read_all(stream: IO[bytes], count: int, name: str) -> bytes:
    """Exactly `count` bytes, read piece by piece so that a lie about the size costs nothing."""
    pieces = []
    while count:
        piece = stream.read(min(count, _CHUNK))
        if not piece:
            raise ValueError(f"{name} ends early")
        pieces.append(piece)
        count -= len(piece)
    return b"".join(pieces)
