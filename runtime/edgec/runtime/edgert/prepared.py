"""Calls of a function with all but the values ready: one crossing to C, however small they are.

Small arrays go in and out through memory of the call's own, whose address C knows already: asking
NumPy for that of an array takes longer than copying a few thousand numbers.
"""

import ctypes
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from edgec.runtime.array import dtype_of_hal
from edgec.runtime.dtypes import DType
from edgec.runtime.edgert.element_types import hal_type
from edgec.runtime.edgert.native import Error, Place
from edgec.runtime.edgert.session import EdgertSession
from edgec.runtime.edgert.tensor import EdgertTensor, shape_of
from edgec.runtime.errors import DeviceError
from edgec.runtime.host_memory import aligned_empty

__all__ = ["SMALL", "SMALL_IN_ALL", "PreparedCall"]

SMALL = 1 << 16
"""Bytes of a tensor up to which copies take less than an array of its own memory does."""
SMALL_IN_ALL = 1 << 20
"""Bytes of all such inputs, and of all such results, of one call."""


class PreparedCall:
    """Calls of a function on values alike in kind and shape, for one caller at a time."""

    def __init__(
        self,
        session: EdgertSession,
        function: str,
        values: Sequence[np.ndarray | EdgertTensor],
        dtypes: Sequence[DType],
        *,
        to_host: bool,
    ) -> None:
        """Prepare it; nothing runs yet.

        Args:
            session: whose it is.
            function: its name.
            values: such as it will be called with: tensors, and arrays that are not empty.
            dtypes: of the results, as NumPy is to know them.
            to_host: give small results as arrays.
        """
        module = session.module
        self._library = session.library
        self._session = session
        index = module.functions[function]
        count = module.output_counts[index]
        self._dtypes = dtypes
        self._learns = to_host and len(dtypes) == count
        self._native_inputs = (Place * len(values))()
        self._native_outputs = (Place * count)()
        # Each shares its memory with the one in there, which Python would wrap anew each time.
        self._places_in = list(self._native_inputs)
        self._places_out = list(self._native_outputs)
        self._inputs = [
            None
            if isinstance(value, EdgertTensor)
            else _memory(place, value.shape, DType.of(value.dtype))
            for place, value in zip(self._places_in, values, strict=True)
        ]
        self._outputs: list[np.ndarray | None] = [None] * count
        self._fresh = bytes(self._native_outputs)
        self._error = Error()
        # Made into what C takes once, which each time takes longer than the call.
        self._call = partial(
            self._library.session_call_places,
            ctypes.c_void_p(session.pointer),
            ctypes.c_size_t(index),
            *(ctypes.byref(self._native_inputs), ctypes.c_size_t(len(values))),
            *(ctypes.byref(self._native_outputs), ctypes.c_size_t(count)),
            ctypes.byref(self._error),
        )

    def run(self, values: Sequence[np.ndarray | EdgertTensor]) -> list[Any]:
        """The results: arrays of the caller's own and tensors, None for what is a number.

        Raises:
            DeviceError: the call failed.
        """
        for place, memory, value in zip(self._places_in, self._inputs, values, strict=True):
            if memory is None:
                place.tensor = value.pointer  # type: ignore[union-attr]  # a tensor, as before
            else:
                memory[...] = value
        status = self._call()
        if status:
            self._begin_again()
            self._library.check(status, self._error, DeviceError)
        results: list[Any] = []
        as_prepared = True
        for place, memory in zip(self._places_out, self._outputs, strict=True):
            if place.tensor is None and place.data is not None and memory is not None:
                results.append(memory.copy())
                continue
            as_prepared = False
            results.append(None if place.tensor is None else EdgertTensor.at(self._library, place))
        if not as_prepared:
            self._begin_again()
            if self._learns:
                self._learn(results)
        return results

    def _learn(self, results: Sequence[EdgertTensor | None]) -> None:
        """Let results like these, those that are small, come as arrays from now on."""
        self._learns = False
        left = SMALL_IN_ALL
        for number, (tensor, dtype) in enumerate(zip(results, self._dtypes, strict=True)):
            if tensor is None or not 0 < tensor.size <= min(SMALL, left):
                continue
            if not _is_read_as(tensor.element_type, dtype):
                continue
            left -= tensor.size
            place = self._places_out[number]
            self._outputs[number] = _memory(place, tensor.shape, dtype, tensor.element_type)
        self._fresh = bytes(self._native_outputs)

    def _begin_again(self) -> None:
        """What places say of tensors, and of a call that failed, is over."""
        ctypes.memmove(self._native_outputs, self._fresh, len(self._fresh))


def _memory(
    place: Place, shape: tuple[int, ...], dtype: DType, element_type: int = 0
) -> np.ndarray:
    """Memory for an array, and a place that is there."""
    memory = aligned_empty(shape, dtype)
    place.data, place.size = memory.ctypes.data, memory.nbytes
    place.type = element_type or hal_type(dtype)
    place.rank, place.shape = memory.ndim, shape_of(memory)
    return memory


def _is_read_as(element_type: int, dtype: DType) -> bool:
    """Whether a result of that type is one of this: integers by their width."""
    given = dtype_of_hal(element_type)
    are_integers = not (given.is_float or dtype.is_float)
    return given is dtype or (are_integers and given.bits == dtype.bits)
