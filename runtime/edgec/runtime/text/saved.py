"""What a language model has read, to a file and back: tokens, keys and values.

Only the part of each state that is in use is written: an axis that is as long as the cache is cut
to the tokens that are there.
"""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgec.runtime.errors import InputError
from edgec.runtime.files import read_bytes, write_atomically
from edgec.runtime.module import Module
from edgec.runtime.signature import TensorSpec
from edgec.runtime.text.facts import HISTORY

__all__ = ["read", "write"]

_TOKENS = "edgec.tokens"
_MODULE = "edgec.module"
_CACHE_RANK = 4
"""Of a cache: text, head, token, element."""


def write(
    path: Path | str, module: Module, state: Mapping[str, np.ndarray], held: Sequence[int]
) -> None:
    """Write the state of a module that has read `held`.

    Raises:
        FileError: it cannot be written.
    """
    arrays: dict[str, Any] = {
        spec.name: state[spec.name][_used(spec, len(held))].view(_plain(spec.dtype.numpy))
        for spec in module.facts.states
    }
    arrays[_TOKENS] = np.asarray(held, np.int32)
    arrays[_MODULE] = np.array(_kind(module))
    with write_atomically(Path(path)) as stream:
        np.savez(stream, **arrays)


def read(path: Path | str, module: Module) -> tuple[dict[str, np.ndarray], list[int]]:
    """The state of a module, and the tokens that it had read.

    Raises:
        FileError: it cannot be read.
        InputError: it is of another module, or damaged.
    """
    data = read_bytes(Path(path))
    state: dict[str, np.ndarray] = {}
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            if str(archive[_MODULE]) != _kind(module):
                raise InputError(f"{path} was written by another model", hint="read the text again")
            held = [int(token) for token in archive[_TOKENS]]
            for spec in module.facts.states:
                value = np.zeros(_shape(spec), spec.dtype.numpy)
                kept = archive[spec.name].view(spec.dtype.numpy)
                value[_used(spec, len(held))] = kept
                state[spec.name] = value
    except (KeyError, ValueError, TypeError, EOFError, OSError) as error:
        raise InputError(f"{path} is no saved text: {error}", hint="read the text again") from error
    return state, held


def _used(spec: TensorSpec, count: int) -> tuple[slice, ...]:
    """The part of a state that holds something: of the history, and of each cache's third axis."""
    cut = 0 if spec.name == HISTORY else 2 if len(spec.shape) == _CACHE_RANK else None
    return tuple(slice(0, count) if axis == cut else slice(None) for axis in range(len(spec.shape)))


def _shape(spec: TensorSpec) -> tuple[int, ...]:
    return tuple(size for size in spec.shape if isinstance(size, int))


def _plain(dtype: np.dtype[Any]) -> Any:
    """A type that NumPy's format has, of the same width."""
    return dtype if dtype.kind in "biufc" else np.dtype(f"u{dtype.itemsize}")


def _kind(module: Module) -> str:
    """What a saved state fits: its states, whatever the target."""
    return repr([(spec.name, _shape(spec), spec.dtype.value) for spec in module.facts.states])
