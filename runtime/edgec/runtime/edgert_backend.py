"""edgert as a device: its tensors and sessions behind what `edgec.runtime` asks of a runtime."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from edgec.runtime.backend import Program
from edgec.runtime.dlpack import capsule_of
from edgec.runtime.dtypes import DType
from edgec.runtime.edgert import (
    EdgertDevice,
    EdgertModule,
    EdgertSession,
    EdgertTensor,
    EdgertWeights,
)
from edgec.runtime.edgert.prepared import SMALL, SMALL_IN_ALL, PreparedCall
from edgec.runtime.errors import EdgecError, ModuleError, ModuleMismatch
from edgec.runtime.module import Module
from edgec.runtime.parameters import WeightsFile

__all__ = ["EdgertBackend"]

_WEIGHTS = (".safetensors", ".irpa")
_MOST_PREPARED = 8
"""Calls that are kept ready; a function has one for each choice of shapes."""


class EdgertBackend:
    """A device by edgert."""

    def __init__(self, *, device: EdgertDevice, uri: str) -> None:
        self.device = device
        self.maps_memory = device.maps_memory
        self.uri = uri

    def copy_in(self, array: np.ndarray, dtype: DType) -> EdgertTensor:
        """A tensor with a copy of the array's values."""
        with _about(f"cannot copy {array.nbytes} bytes to {self.uri}"):
            return EdgertTensor.copy(self.device, array, dtype)

    def share_in(self, array: np.ndarray, dtype: DType) -> EdgertTensor:
        """A tensor on the array's memory."""
        with _about(f"cannot share memory with {self.uri}"):
            return EdgertTensor.share(self.device, array, dtype)

    def borrow(self, capsule: Any, array: np.ndarray, dtype: DType) -> EdgertTensor:
        """A tensor on a capsule's memory."""
        with _about(f"cannot share memory with {self.uri}"):
            return EdgertTensor.share(self.device, array, dtype, owner=capsule)

    def read(self, tensor: EdgertTensor, dtype: DType) -> np.ndarray:
        """A tensor's memory, or a copy of it."""
        if self.maps_memory:
            return tensor.array(dtype)
        with _about(f"cannot read an array back from {self.uri}"):
            return tensor.read(dtype)

    def lend(self, tensor: EdgertTensor, dtype: DType) -> Any:
        """A capsule on a tensor's memory."""
        return capsule_of(tensor.array(dtype), dtype)

    def load(self, module: Module, weights: WeightsFile | None) -> Program:
        """A module in a session of its own."""
        return _EdgertProgram(self, module, weights)


class _EdgertProgram:
    """A module's session, and what a new one is made of; for one caller at a time."""

    small = SMALL
    small_in_all = SMALL_IN_ALL

    def __init__(self, backend: EdgertBackend, module: Module, weights: WeightsFile | None) -> None:
        self._backend = backend
        self._path = module.path
        self._weights: EdgertWeights | None = None
        library = backend.device.library
        with _about(f"cannot load {module.path}", "compile it again"):
            self._module = EdgertModule(module.path, key=module.key, library=library)
        if weights is not None:
            weights.require(module)
            if weights.path.suffix not in _WEIGHTS:
                raise ModuleMismatch(
                    f"cannot read the weights file {weights.path}: edgert reads "
                    f"{' and '.join(_WEIGHTS)} files",
                    hint="use the device local-task, or export the weights again",
                )
            with _about(f"cannot read the weights file {weights.path}"):
                self._weights = EdgertWeights(weights.path, library=library)
        self.reset()

    def has(self, function: str) -> bool:
        """Whether the module has a function of this name."""
        return function in self._module.functions

    def attribute(self, function: str, key: str) -> str | None:
        """A function's attribute."""
        return self._module.attribute(function, key)

    def call(self, function: str, tensors: Sequence[EdgertTensor]) -> list[Any]:
        """Call a function on tensors."""
        return self._run(function, tensors, (), to_host=False)

    def call_on_host(
        self, function: str, values: Sequence[np.ndarray | EdgertTensor], dtypes: Sequence[DType]
    ) -> list[Any]:
        """Call a function on tensors and small arrays."""
        return self._run(function, values, dtypes, to_host=True)

    def _run(
        self,
        function: str,
        values: Sequence[np.ndarray | EdgertTensor],
        dtypes: Sequence[DType],
        *,
        to_host: bool,
    ) -> list[Any]:
        key = function, to_host, *[v.shape if type(v) is np.ndarray else None for v in values]
        prepared = self._prepared.get(key)
        if prepared is None:
            if len(self._prepared) >= _MOST_PREPARED:
                del self._prepared[next(iter(self._prepared))]
            prepared = PreparedCall(self._session, function, values, dtypes, to_host=to_host)
            self._prepared[key] = prepared
        try:  # not `_about`, which takes a microsecond where nothing fails
            results = prepared.run(values)
        except EdgecError as error:
            raise _told(error, f"{function}() failed on {self._backend.uri}") from error
        for result in results:
            if result is None:
                raise ModuleError(
                    f"{function}() of {self._path} gives a number that is no tensor",
                    hint="compile the program again",
                )
        return results

    def reset(self) -> None:
        """A new session: the state at its first values."""
        self._prepared: dict[Any, PreparedCall] = {}
        with _about(f"cannot load {self._path}", "compile it again"):
            self._session = EdgertSession(self._module, self._backend.device, weights=self._weights)


@contextmanager
def _about(what: str, hint: str | None = None) -> Iterator[None]:
    """Begin edgert's errors with what was tried, and say what to do where they do not."""
    try:
        yield
    except EdgecError as error:
        raise _told(error, what, hint) from error


def _told(error: EdgecError, what: str, hint: str | None = None) -> EdgecError:
    return type(error)(f"{what}: {error.what}", hint=error.hint or hint)
