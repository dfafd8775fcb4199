"""A module on a device: its functions called on tensors, arrays and numbers."""

import ctypes
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from edgec.runtime.dtypes import DType
from edgec.runtime.edgert.call import EdgertCall
from edgec.runtime.edgert.device import EdgertDevice
from edgec.runtime.edgert.element_types import dtype_of
from edgec.runtime.edgert.handle import Handle
from edgec.runtime.edgert.module import EdgertArgument, EdgertModule, EdgertWeights
from edgec.runtime.edgert.native import (
    F32,
    F64,
    I32,
    I64,
    TENSOR,
    Error,
    NativeArgument,
    NativeValue,
    Scope,
    SessionOptions,
)
from edgec.runtime.edgert.tensor import EdgertTensor, Result, Value, taken, values
from edgec.runtime.errors import DeviceError, InputError, ModuleError
from edgec.runtime.host_memory import ALIGNMENT

__all__ = ["EdgertSession"]


class EdgertSession(Handle):
    """A module on a device, with the state its functions keep between calls."""

    _release = "session_release"

    def __init__(
        self,
        module: EdgertModule,
        device: EdgertDevice,
        *,
        weights: EdgertWeights | None = None,
        max_steps: int = 0,
        max_memory: int = 0,
        max_milliseconds: int = 0,
    ) -> None:
        """Load a module's code and set its state to the first values.

        Args:
            module: what to run.
            device: where.
            weights: of a module that keeps its outside.
            max_steps: jumps and calls of the interpreter in one call; 0: no limit.
            max_memory: bytes of state, buffers and the interpreter's own; 0: no limit.
            max_milliseconds: that a call, and this, may take; 0: no limit.

        Raises:
            ModuleMismatch: the module does not fit the device.
            ModuleError: its initialiser failed.
        """
        super().__init__(module.library, None)
        self.module = module
        self.device = device
        options = SessionOptions(
            size=ctypes.sizeof(SessionOptions),
            max_steps=max_steps,
            max_memory=max_memory,
            max_milliseconds=max_milliseconds,
        )
        scope = Scope(name=None, weights=weights.pointer if weights else None)
        if weights is not None:
            options.scopes = ctypes.pointer(scope)
            options.scope_count = 1
        out, error = ctypes.c_void_p(), Error()
        status = self.library.session_create(
            module.pointer,
            device.pointer,
            ctypes.byref(options),
            ctypes.byref(out),
            ctypes.byref(error),
        )
        self.library.check(status, error, ModuleError)
        self.pointer = out.value

    def interrupt(self) -> None:
        """Make the call that is running fail as cancelled; from any thread."""
        self.library.session_interrupt(self.pointer)

    def memory(self) -> tuple[int, int]:
        """Bytes that the session and what it gave hold, now and at most so far."""
        current, peak = ctypes.c_uint64(), ctypes.c_uint64()
        self.library.session_memory(self.pointer, ctypes.byref(current), ctypes.byref(peak))
        return current.value, peak.value

    def prove(self, verdicts: Path | str | None = None) -> None:
        """Make the golden calls that the module brings, and compare; state stays as it is.

        Args:
            verdicts: a file that keeps what came of it, so that it is done once for a module, a
                device and a driver's version.

        Raises:
            WrongAnswer: an answer is off; it says which, and by how much.
            ModuleError: the module brings no golden calls, damaged ones, or does not run.
        """
        error = Error()
        path = None if verdicts is None else os.fsencode(verdicts)
        status = self.library.session_prove(self.pointer, path, ctypes.byref(error))
        self.library.check(status, error, ModuleError)

    @property
    def identity(self) -> int:
        """A number for the module, the device and its driver's version."""
        return int(self.library.session_identity(self.pointer))

    def run(self, function: str, arguments: Sequence[EdgertTensor]) -> list[Result]:
        """Call a function on tensors; its results as they are.

        Raises:
            DeviceError: the call failed.
        """
        index = self.module.functions[function]
        count = self.module.output_counts[index]
        library, error = self.library, Error()
        results = (NativeValue * count)()
        status = library.session_call(
            self.pointer, index, values(arguments), len(arguments), results, count, error
        )
        if status:
            library.check(status, error, DeviceError)
        return [taken(library, slot) for slot in results]

    def begin(
        self,
        function: str,
        arguments: Sequence[EdgertTensor],
        done: Callable[[EdgertCall], None] | None = None,
    ) -> EdgertCall:
        """Begin a call on tensors; calls of one session run in the order they are begun.

        Args:
            function: its name.
            arguments: they may be closed as soon as this returns.
            done: told when the call has ended, on the session's own thread; what it raises is
                reported as from any thread and changes nothing.

        Raises:
            DeviceError: no memory, or no thread.
        """
        index = self.module.functions[function]
        count = self.module.output_counts[index]
        return EdgertCall(self.library, self.pointer, index, count, arguments, done)

    def call(self, function: str, arguments: Sequence[Value] = ()) -> list[Value]:
        """Call a function; arrays are copied in where they do not lie at 64 bytes, and copied out.

        Python numbers go to arguments that are numbers in the module; their kinds are in its
        calling convention.

        Raises:
            InputError: an argument has a type that edgert has not.
            DeviceError: the call failed.
        """
        index = self.module.functions[function]
        kinds = self._kinds(index, len(arguments))
        given = (NativeValue * max(1, len(arguments)))()
        count = self.module.output_counts[index]
        results = (NativeValue * max(1, count))()
        tensors: list[EdgertTensor] = []
        for slot, kind, argument in zip(given, kinds, arguments, strict=False):
            self._put(slot, kind, argument, tensors)
        error = Error()
        status = self.library.session_call(
            *(self.pointer, index, given, len(arguments), results, count),
            ctypes.byref(error),
        )
        self.library.check(status, error, DeviceError)
        found = [taken(self.library, slot) for slot in results[:count]]
        return [
            _copied(value, spec)
            for value, spec in zip(found, self.module.outputs(function), strict=True)
        ]

    def _kinds(self, index: int, count: int) -> list[int]:
        """What each argument is; tensors for those that are too many, which the call refuses."""
        kinds = [TENSOR] * count
        known = self.library.module_input_count(self.module.pointer, index)
        for position in range(min(count, known)):
            native, error = NativeArgument(), Error()
            status = self.library.module_input(
                self.module.pointer, index, position, ctypes.byref(native), ctypes.byref(error)
            )
            self.library.check(status, error, ModuleError)
            kinds[position] = native.kind
        return kinds

    def _put(
        self, slot: NativeValue, kind: int, argument: Value, tensors: list[EdgertTensor]
    ) -> None:
        if isinstance(argument, np.ndarray):
            dtype = DType.of(argument.dtype)
            array = np.ascontiguousarray(argument).reshape(argument.shape)
            shares = self.device.maps_memory and array.ctypes.data % ALIGNMENT == 0
            make = EdgertTensor.share if shares else EdgertTensor.copy
            tensors.append(make(self.device, array, dtype))
            slot.kind = TENSOR
            slot.tensor = tensors[-1].pointer
            return
        if kind == I32:
            slot.i32 = int(argument)
        elif kind == I64:
            slot.i64 = int(argument)
        elif kind == F32:
            slot.f32 = argument
        elif kind == F64:
            slot.f64 = argument
        else:
            raise InputError(f"{type(argument).__name__} given for a tensor")
        slot.kind = kind


def _copied(value: Result, spec: EdgertArgument) -> Value:
    """A result as an array of its own, in the type that the module declares."""
    if not isinstance(value, EdgertTensor):
        return value
    given = dtype_of(value.element_type)
    dtype = spec.dtype if spec.dtype is not None and spec.dtype.bits == given.bits else given
    return value.read(dtype)
