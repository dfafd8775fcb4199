"""What a runtime gives for one of its devices: memory to tensors, modules to programs.

There are two: IREE's runtime (`iree_backend`) for every HAL driver, and edgert
(`edgert_backend`). What is the same for both (signatures, checks, names, state) is not theirs.

A tensor is a runtime's own object; of it only `shape` and `element_type` (as the HAL numbers types)
are asked.
"""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from edgec.runtime.dtypes import DType
from edgec.runtime.module import Module
from edgec.runtime.parameters import WeightsFile

__all__ = ["Backend", "Copying", "Program", "Speaking"]


class Program(Protocol):
    """A module on a device, with its state."""

    def has(self, function: str) -> bool:
        """Whether the module has a function of this name."""
        ...

    def attribute(self, function: str, key: str) -> str | None:
        """A function's attribute, None where it has none by that key."""
        ...

    def call(self, function: str, tensors: Sequence[Any]) -> list[Any]:
        """Call a function.

        Raises:
            DeviceError: it failed.
        """
        ...

    def reset(self) -> None:
        """Set the state to its first values."""
        ...


@runtime_checkable
class Speaking(Program, Protocol):
    """A program whose collectives the runtime carries out between devices."""

    def join(self, identity: bytes, rank: int, count: int) -> None:
        """Find the other devices of a group; all of them call it at once.

        Raises:
            DeviceError: they do not come.
        """
        ...

    def leave(self) -> None:
        """Leave them; all call it at once.

        Raises:
            DeviceError: they do not.
        """
        ...


@runtime_checkable
class Copying(Program, Protocol):
    """A program that takes and gives small tensors as arrays, by copies of its own.

    Attributes:
        small: bytes that such an array has at most.
        small_in_all: bytes that all of a call's inputs have at most.
    """

    small: int
    small_in_all: int

    def call_on_host(
        self, function: str, values: Sequence[Any], dtypes: Sequence[DType]
    ) -> list[Any]:
        """Call a function on tensors and on small arrays that are not empty.

        Args:
            function: its name.
            values: its arguments.
            dtypes: of the results, as the caller takes them.

        Returns:
            Its results: tensors, and arrays of those types that are the caller's own.

        Raises:
            DeviceError: it failed.
        """
        ...


class Backend(Protocol):
    """A device of a runtime."""

    @property
    def maps_memory(self) -> bool:
        """Whether its memory is the host's."""
        ...

    def copy_in(self, array: np.ndarray, dtype: DType) -> Any:
        """A tensor with a copy of the array's values.

        Raises:
            DeviceError: out of memory, or the device failed.
        """
        ...

    def share_in(self, array: np.ndarray, dtype: DType) -> Any:
        """A tensor on the array's own memory, which is held as long as anything reads it.

        The array is contiguous, aligned and not empty, and the device maps memory.
        """
        ...

    def borrow(self, capsule: Any, array: np.ndarray, dtype: DType) -> Any:
        """The same for the memory of a DLPack capsule, of which `array` is a view."""
        ...

    def read(self, tensor: Any, dtype: DType) -> np.ndarray:
        """A tensor's values, not empty: a view that keeps its memory where memory is mapped.

        Raises:
            DeviceError: the device failed.
        """
        ...

    def lend(self, tensor: Any, dtype: DType) -> Any:
        """A DLPack capsule on a tensor's memory; only where memory is mapped."""
        ...

    def load(self, module: Module, weights: WeightsFile | None) -> Program:
        """A module on this device.

        Raises:
            ModuleError: it is damaged, or its weights are.
            DeviceError: out of memory, or the device failed.
        """
        ...
