"""Modules as edgert reads them, and their weights."""

import ctypes
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgec.runtime.dtypes import DType
from edgec.runtime.edgert.element_types import BY_HAL
from edgec.runtime.edgert.handle import LET_GO, Handle, hold
from edgec.runtime.edgert.native import Error, ModuleOptions, NativeArgument, open_library
from edgec.runtime.errors import ModuleError

__all__ = ["EdgertArgument", "EdgertModule", "EdgertWeights"]


@dataclass(frozen=True, kw_only=True)
class EdgertArgument:
    """What a module declares of an argument or result; -1 is a size that is not fixed."""

    name: str
    dtype: DType | None
    shape: tuple[int, ...]


class EdgertModule(Handle):
    """A module file, read and verified by edgert."""

    _release = "module_release"

    def __init__(
        self,
        source: Path | str | bytes,
        *,
        check: bool = False,
        max_bytes: int = 0,
        key: bytes | None = None,
        library: Any = None,
    ) -> None:
        """Read a file, or a file's bytes.

        Args:
            source: which.
            check: compare it with the checksum in it, which reads all of it.
            max_bytes: that it may have; 0: no limit.
            key: a public key, 32 bytes, that must have signed it and its weights.
            library: from `open_library`; without it the one that it finds.

        Raises:
            ModuleError: it cannot be read, is damaged, too large, or of another version.
            Untrusted: the key did not sign it.
        """
        super().__init__(library or open_library(), None)
        out, error = ctypes.c_void_p(), Error()
        options = ctypes.byref(
            ModuleOptions(
                size=ctypes.sizeof(ModuleOptions), check=check, max_bytes=max_bytes, key=key
            )
        )
        if isinstance(source, bytes):
            self._bytes = source
            status = self.library.module_wrap(
                source, len(source), None, None, options, ctypes.byref(out), ctypes.byref(error)
            )
        else:
            status = self.library.module_open(
                os.fsencode(source), options, ctypes.byref(out), ctypes.byref(error)
            )
        self.library.check(status, error, ModuleError)
        self.pointer = out.value
        count = self.library.module_function_count(self.pointer)
        names = [self.library.module_function_name(self.pointer, i) for i in range(count)]
        self.functions = {name.decode(): index for index, name in enumerate(names)}
        self.output_counts = [
            self.library.module_output_count(self.pointer, index) for index in range(count)
        ]

    def attribute(self, function: str, key: str) -> str | None:
        """A function's attribute, None where it has none by that key."""
        found = self.library.module_attribute(self.pointer, self.functions[function], key.encode())
        return None if found is None else found.decode()

    def inputs(self, function: str) -> tuple[EdgertArgument, ...]:
        """What a function takes."""
        return self._arguments(function, "input")

    def outputs(self, function: str) -> tuple[EdgertArgument, ...]:
        """What a function gives."""
        return self._arguments(function, "output")

    def _arguments(self, function: str, side: str) -> tuple[EdgertArgument, ...]:
        index = self.functions[function]
        count = getattr(self.library, f"module_{side}_count")(self.pointer, index)
        found = []
        for position in range(count):
            native, error = NativeArgument(), Error()
            status = getattr(self.library, f"module_{side}")(
                self.pointer, index, position, ctypes.byref(native), ctypes.byref(error)
            )
            self.library.check(status, error, ModuleError)
            found.append(
                EdgertArgument(
                    name=native.name.decode(errors="replace"),
                    dtype=BY_HAL.get(native.type),
                    shape=tuple(native.shape[: native.rank]),
                )
            )
        return tuple(found)


class EdgertWeights(Handle):
    """A `.safetensors` or `.irpa` file."""

    _release = "weights_release"

    def __init__(self, source: Path | str | np.ndarray, *, library: Any = None) -> None:
        """Map a file, or take a file's bytes (u8) where they are.

        Raises:
            ModuleError: it cannot be read or is damaged.
        """
        super().__init__(library or open_library(), None)
        out, error = ctypes.c_void_p(), Error()
        if isinstance(source, np.ndarray):
            status = self.library.weights_wrap(
                *(source.ctypes.data, source.nbytes, LET_GO, hold((source, None)), None),
                *(ctypes.byref(out), ctypes.byref(error)),
            )
        else:
            status = self.library.weights_open(
                os.fsencode(source), None, ctypes.byref(out), ctypes.byref(error)
            )
        self.library.check(status, error, ModuleError)
        self.pointer = out.value
