"""NVIDIA's library of collectives, loaded when it is needed (ctypes): communicators and calls.

The library comes with `nvidia-nccl-cu12` or `nvidia-nccl-cu13`, which PyTorch and JAX bring along
with CUDA, or with the system. Of its interface (nccl.h, unchanged since 2.10 where it is used here)
only what a mesh in one process needs is declared.
"""

import ctypes
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgec.runtime.dtypes import DType
from edgec.runtime.errors import DeviceError, MissingExtra

__all__ = ["ELEMENTS", "REDUCTIONS", "Communicator", "Nccl", "nccl_files"]

ELEMENTS = {
    DType.I8: 0,
    DType.U8: 1,
    DType.I32: 2,
    DType.U32: 3,
    DType.I64: 4,
    DType.U64: 5,
    DType.F16: 6,
    DType.F32: 7,
    DType.F64: 8,
    DType.BF16: 9,
}
"""Element types that NCCL can reduce, by its own numbers."""

REDUCTIONS = {"add": 0, "multiply": 1, "maximum": 2, "minimum": 3}
"""What a reduction can be, by NCCL's own numbers."""

Communicator = ctypes.c_void_p
"""One device's membership of a group that speaks together."""

_NAME = "libnccl.so.2"
_SUCCESS, _IN_PROGRESS = 0, 7
_IDENTITY = 128
"""Bytes of a `ncclUniqueId`."""


class Nccl:
    """The library.

    Attributes:
        path: where it was found.
        version: such as `2.27.7`.
    """

    def __init__(self, path: Path | str | None = None) -> None:
        """Load it: the given file, else the package's, else the system's.

        Raises:
            MissingExtra: it is nowhere.
        """
        self.path, self._library = _load(path)
        number = ctypes.c_int()
        self.call("ncclGetVersion", ctypes.byref(number))
        # Before 2.9 the minor version had three digits less.
        base = 10_000 if number.value >= 10_000 else 1_000
        major, rest = divmod(number.value, base)
        self.version = f"{major}.{rest // 100}.{rest % 100}"

    def communicators(self, ordinals: Sequence[int]) -> list[Communicator]:
        """Of GPUs of this process that speak together, one each, in this order.

        Raises:
            DeviceError: the GPUs do not reach each other, or one is named twice.
        """
        made = (Communicator * len(ordinals))()
        numbers = (ctypes.c_int * len(ordinals))(*ordinals)
        self.call("ncclCommInitAll", made, len(ordinals), numbers)
        return [Communicator(each) for each in made]

    def identity(self) -> bytes:
        """A new name for a group whose members are to find each other by it.

        Raises:
            DeviceError: NCCL finds no way for them to do so.
        """
        made = ctypes.create_string_buffer(_IDENTITY)
        self.call("ncclGetUniqueId", made)
        return made.raw

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the library.

        Raises:
            DeviceError: it fails.
        """
        status = getattr(self._library, name)(*arguments)
        if status in (_SUCCESS, _IN_PROGRESS):
            return
        tell = self._library.ncclGetErrorString
        tell.restype = ctypes.c_char_p
        said = tell(status)
        raise DeviceError(
            f"NCCL's {name} failed: {said.decode() if said else status}",
            hint="NCCL_DEBUG=WARN in the environment lets NCCL say why",
        )


def _load(path: Path | str | None) -> tuple[str, Any]:
    names = [str(path)] if path is not None else nccl_files()
    for name in names:
        try:
            return name, ctypes.CDLL(name)
        except OSError:
            continue
    raise MissingExtra(
        f"NCCL is not here ({', '.join(names)})",
        hint="pip install nvidia-nccl-cu12, or nvidia-nccl-cu13",
    )


def nccl_files() -> list[str]:
    """Where it may be: `nvidia-nccl-cu12` and `-cu13` share a place, and else the system knows."""
    try:
        found = importlib.util.find_spec("nvidia.nccl")
    except ModuleNotFoundError:
        found = None
    folders = [] if found is None else list(found.submodule_search_locations or [])
    paths = [Path(folder, "lib", _NAME) for folder in folders]
    return [*(str(path) for path in paths if path.exists()), _NAME]
