"""Weights kept beside a module: one file mapped once and shared by every module that uses it."""

import json
import threading
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar
from weakref import WeakValueDictionary

from edgec.runtime.errors import FileError, ModuleError, ModuleMismatch, UsageError
from edgec.runtime.module import Module
from edgec.runtime.native import iree_runtime, native_errors

__all__ = ["WeightsFile", "weights_path"]

_SUFFIXES = (".safetensors", ".irpa", ".gguf")
_FOREIGN_SCOPES = ("model", "")
_AGAIN = "copy the weights file again, or export the model again"


class WeightsFile:
    """One weights file, for as long as a module uses it.

    Attributes:
        path: the file.
        names: of the weights in it; None where only IREE's runtime could tell, and it is not here.
    """

    _open: ClassVar[WeakValueDictionary[tuple[str, int, int], "WeightsFile"]] = (
        WeakValueDictionary()
    )
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, path: Path) -> None:
        """Check a file; use `open`, which shares."""
        self.path = path
        self.names: frozenset[str] | None = None
        if path.suffix == ".safetensors":
            self.names = _check_safetensors(path)
        elif iree_runtime():
            self.names = frozenset(name for name, _ in self.index.items())

    @cached_property
    def index(self) -> Any:
        """IREE's index of the file, which maps it.

        Raises:
            ModuleError: it is damaged.
        """
        from iree.runtime import ParameterIndex

        index = ParameterIndex()
        with native_errors(f"cannot read the weights file {self.path}", ModuleError, _AGAIN):
            index.load(str(self.path))
            entries = dict(index.items())
        size = self.path.stat().st_size
        for name, entry in entries.items():
            if entry.is_file and entry.file_storage[1] + entry.length > size:
                raise ModuleError(
                    f"the weights file {self.path} is cut short: {name} lies outside", hint=_AGAIN
                )
        return index

    @classmethod
    def open(cls, path: Path) -> "WeightsFile":
        """The file, mapped once however often it is asked for.

        Raises:
            FileError: it is missing or not readable.
            ModuleError: it is damaged.
            UsageError: it is no weights file by its name.
        """
        if path.suffix not in _SUFFIXES:
            raise UsageError(
                f"{path} is no weights file", hint=f"give one of {', '.join(_SUFFIXES)}"
            )
        try:
            real = path.resolve(strict=True)
            status = real.stat()
            with real.open("rb"):
                pass
        except OSError as error:
            raise FileError(
                f"cannot read the weights file {path}: {error.strerror}",
                hint="put it there, or name it with weights= (--weights)",
            ) from error
        key = (str(real), status.st_mtime_ns, status.st_size)
        with cls._lock:
            found = cls._open.get(key)
            if found is None:
                found = cls._open[key] = cls(real)
            return found

    def providers(self, module: Module) -> list[Any]:
        """IREE's providers of these weights for a module.

        Raises:
            ModuleMismatch: the file lacks weights that the module needs.
        """
        self.require(module)
        facts = module.facts.weights
        scopes = _FOREIGN_SCOPES if facts is None else (facts.scope,)
        return [self.index.create_provider(scope=scope) for scope in scopes]

    def require(self, module: Module) -> None:
        """Refuse a file that lacks what the module needs, where its names can be read here.

        Raises:
            ModuleMismatch: it does.
        """
        facts = module.facts.weights
        names: Sequence[str] = () if facts is None else facts.names
        missing = [] if self.names is None else [n for n in names if n not in self.names]
        if missing:
            shown = ", ".join(missing[:3]) + (
                f" and {len(missing) - 3} more" if missing[3:] else ""
            )
            raise ModuleMismatch(
                f"the weights file {self.path} lacks {shown}, which {module.path} needs",
                hint="use the weights file that was exported with the program",
            )


def weights_path(module: Module, given: Path | str | None) -> Path | None:
    """Where a module's weights are: as given, else where the module says, relative to itself.

    Raises:
        UsageError: weights are given to a module that takes none.
    """
    takes = module.facts.weights is not None or any(
        function.name.startswith("io_parameters.") for function in module.imports
    )
    if given is not None:
        if not takes:
            raise UsageError(
                f"{module.path} has its weights inside and takes no weights file",
                hint="leave weights= (--weights) out",
            )
        return Path(given)
    if module.facts.weights is not None:
        return module.path.parent / module.facts.weights.file
    if takes:
        raise UsageError(
            f"{module.path} keeps its weights in another file and does not say where",
            hint="name the file with weights= (--weights)",
        )
    return None


def _check_safetensors(path: Path) -> frozenset[str]:
    """Check the header against the file's size, before native code follows it; the names in it.

    Raises:
        ModuleError: the file is truncated or no safetensors file.
    """
    size = path.stat().st_size
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if size < 8 or length > size - 8:
            raise ModuleError(f"the weights file {path} is cut short", hint=_AGAIN)
        text = stream.read(length)
    data = size - 8 - length
    try:
        header = json.loads(text)
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            start, end = entry["data_offsets"]
            if not 0 <= start <= end <= data:
                raise ModuleError(
                    f"the weights file {path} is cut short: {name} lies outside", hint=_AGAIN
                )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ModuleError(f"the weights file {path} is damaged: {error!r}", hint=_AGAIN) from error
    return frozenset(name for name in header if name != "__metadata__")
