"""What a language model has read, to a file and back: tokens, keys and values.

Only the part of each state that is in use is written: an axis that is as long as the cache is cut
to the tokens that are there. The bytes are those of edgert_text (`runtime/c/text/saved.c` says how
they lie), so an app can begin with what was read here.
"""

import math
import struct
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from edgec.runtime.edgert.element_types import hal_type
from edgec.runtime.errors import InputError, ModuleError
from edgec.runtime.files import read_bytes, write_atomically
from edgec.runtime.module import IDENTITY_WIDTH, Module
from edgec.runtime.signature import TensorSpec
from edgec.runtime.text.facts import HISTORY

__all__ = ["read", "write"]

_MAGIC = b"edgesav1"
_HEAD = struct.Struct(f"<8sI{IDENTITY_WIDTH}sII")
"""The magic, a CRC-32 of all that follows it, of which model, how many tokens, how many states."""
_SUMMED = 12
_STATE = struct.Struct("<IIII")
"""Type, rank, the axis that is cut, and how much of it is kept."""
_CACHE_RANK = 4
"""Of a cache: text, head, token, element."""


def write(
    path: Path | str, module: Module, state: Mapping[str, np.ndarray], held: Sequence[int]
) -> None:
    """Write the state of a module that has read `held`.

    Raises:
        FileError: it cannot be written.
        ModuleError: the module does not say which model it is.
    """
    states, identity = module.facts.states, _identity(module)
    parts = [identity, struct.pack("<II", len(held), len(states))]
    parts.append(np.asarray(held, "<i4").tobytes())
    for spec in states:
        shape = _shape(spec)
        axis = _axis(spec)
        rows = _rows(state[spec.name], axis)
        kept = min(len(held), rows.shape[1]) if axis < len(shape) else 1
        parts.append(_STATE.pack(hal_type(spec.dtype), len(shape), axis, kept))
        parts.append(struct.pack(f"<{len(shape)}I", *shape))
        parts.append(rows[:, :kept].tobytes())
    total = 0
    for part in parts:
        total = zlib.crc32(part, total)
    with write_atomically(Path(path)) as stream:
        stream.write(_MAGIC + struct.pack("<I", total))
        for part in parts:
            stream.write(part)


def read(path: Path | str, module: Module) -> tuple[dict[str, np.ndarray], list[int]]:
    """The state of a module, and the tokens that it had read.

    Raises:
        FileError: it cannot be read.
        InputError: it is of another module, or damaged.
        ModuleError: the module does not say which model it is.
    """
    data = read_bytes(Path(path))
    specs, own = module.facts.states, _identity(module)
    try:
        magic, total, identity, count, states = _HEAD.unpack_from(data)
        if magic != _MAGIC or zlib.crc32(data[_SUMMED:]) != total:
            raise ValueError("damaged, or of another kind")
        if identity != own:
            raise _another(path)
        at = _HEAD.size + 4 * count
        held = np.frombuffer(data, "<i4", count, _HEAD.size).tolist()
        if states != len(specs):
            raise _another(path)
        state = {}
        for spec in specs:
            state[spec.name], at = _state(path, spec, data, at)
        if at != len(data):
            raise ValueError("too long")
    except (ValueError, struct.error) as error:
        raise InputError(f"{path} is no saved text: {error}", hint="read the text again") from error
    return state, held


def _state(path: Path | str, spec: TensorSpec, data: bytes, at: int) -> tuple[np.ndarray, int]:
    """A state of the file, and where it ends."""
    shape, dtype = _shape(spec), np.dtype(spec.dtype.numpy)
    kind, rank, axis, kept = _STATE.unpack_from(data, at)
    at += _STATE.size
    if kind != hal_type(spec.dtype) or rank != len(shape):
        raise _another(path)
    if struct.unpack_from(f"<{rank}I", data, at) != shape:
        raise _another(path)
    at += 4 * rank
    value = np.zeros(shape, dtype)
    rows = _rows(value, axis)
    if axis > rank or kept > rows.shape[1]:
        raise ValueError("a state is larger than it can be")
    part = rows[:, :kept]
    if len(data) - at < part.nbytes:
        raise ValueError("it is cut short")
    part[...] = np.frombuffer(data, dtype, part.size, at).reshape(part.shape)
    return value, at + part.nbytes


def _identity(module: Module) -> bytes:
    """Which model a module is: keys and values mean nothing to another."""
    found = module.identity.encode()
    if len(found) != IDENTITY_WIDTH:
        raise ModuleError(
            f"{module.path} does not say which model it is, so what it has read cannot be told "
            "from what another has",
            hint="compile it again, where its weights are",
        )
    return found


def _another(path: Path | str) -> InputError:
    return InputError(
        f"{path} was written by another model, or with other weights",
        hint="read the text again with this one",
    )


def _rows(state: np.ndarray, axis: int) -> np.ndarray:
    """A view of a state whose second axis is the one that is cut; 1 long where none is."""
    before, after = math.prod(state.shape[:axis]), math.prod(state.shape[axis + 1 :])
    return state.reshape(before, math.prod(state.shape[axis : axis + 1]), after)


def _axis(spec: TensorSpec) -> int:
    """The axis that is cut: the history's only one, a cache's third; the rank where none is."""
    return 0 if spec.name == HISTORY else 2 if len(spec.shape) == _CACHE_RANK else len(spec.shape)


def _shape(spec: TensorSpec) -> tuple[int, ...]:
    return tuple(size for size in spec.shape if isinstance(size, int))
