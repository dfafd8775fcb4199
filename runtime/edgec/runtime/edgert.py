"""edgert, the C runtime, from Python: a module file to functions on tensors, arrays and numbers.

Objects here are edgert's own, one class for each kind in its header; `edgec.runtime.load` with the
device `edgert://cpu` is the same with edgec's signatures and checks. Nothing of IREE is needed.
"""

import contextlib
import ctypes
import itertools
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from edgec.runtime.dtypes import DType
from edgec.runtime.edgert_native import (
    DONE,
    F32,
    F64,
    I32,
    I64,
    RELEASE,
    TENSOR,
    TIMED,
    DeviceOptions,
    Error,
    ModuleOptions,
    NativeArgument,
    NativeValue,
    Scope,
    SessionOptions,
    Timing,
    open_library,
)
from edgec.runtime.errors import DeviceError, DeviceMissing, EdgecError, InputError, ModuleError
from edgec.runtime.host_memory import ALIGNMENT, aligned_empty, bytes_at

__all__ = [
    "EdgertCall",
    "EdgertDevice",
    "EdgertModule",
    "EdgertSession",
    "EdgertTensor",
    "EdgertWeights",
    "Ran",
    "device_names",
    "open_library",
]

Value: TypeAlias = np.ndarray | int | float
Result: TypeAlias = "EdgertTensor | int | float"


class _Handle:
    """A native object; `close()` gives it back early, twice is fine."""

    _release = ""
    pointer: int | None = None

    def __init__(self, library: Any, pointer: int | None) -> None:
        self.library = library
        self.pointer = pointer
        self._process = os.getpid()

    def close(self) -> None:
        """Give the object back; whatever was made with it keeps what it needs."""
        pointer, self.pointer = self.pointer, None
        # A forked child has none of the threads, and would wait for their end for ever.
        if pointer and self._process == os.getpid():
            getattr(self.library, self._release)(pointer)

    def __del__(self) -> None:
        self.close()


@dataclass(frozen=True, kw_only=True)
class Ran:
    """A kernel that has run once, or what moved bytes between kernels.

    Attributes:
        kernel: its name in the module; `copy`, `fill` or `update` for moves.
        where: `file:line` in the model's source, if the module knows.
        seconds: on the clock, all threads together.
    """

    kernel: str
    where: str | None
    seconds: float


class EdgertDevice(_Handle):
    """A device of edgert: `cpu`, `vulkan`, or `null`, which computes nothing.

    Attributes:
        driver: its driver's name.
    """

    _release = "device_release"

    def __init__(
        self,
        driver: str = "cpu",
        *,
        threads: int = 0,
        index: int = 0,
        cache_file: Path | str | None = None,
        timed: Callable[[Ran], None] | None = None,
        library: Any = None,
    ) -> None:
        """Open a device.

        Args:
            driver: its name.
            threads: that compute, with the caller's; 0 is one for each processor.
            index: which of the driver's devices, in the order of `device_names`.
            cache_file: where a driver that compiles kernels keeps them for the next time.
            timed: told of each kernel that has run; they then run one after the other.
            library: from `open_library`; without it the one that it finds.

        Raises:
            DeviceMissing: there is no such driver, no such device, or no library.
        """
        super().__init__(library or open_library(), None)
        self.driver = driver
        options = DeviceOptions(
            size=ctypes.sizeof(DeviceOptions),
            threads=threads,
            index=index,
            cache_file=None if cache_file is None else os.fsencode(cache_file),
        )
        if timed is not None:
            self._timed = options.timed = TIMED(lambda _, timing: timed(_ran(timing.contents)))
        out, error = ctypes.c_void_p(), Error()
        status = self.library.device_create(
            driver.encode(), ctypes.byref(options), ctypes.byref(out), ctypes.byref(error)
        )
        self.library.check(status, error, DeviceMissing)
        self.pointer = out.value

    @property
    def name(self) -> str:
        """What the device calls itself, or its driver's name."""
        return str(self.library.device_name(self.pointer).decode(errors="replace"))

    @property
    def identity(self) -> int:
        """A number for the device, its driver's version and its features."""
        return int(self.library.device_identity(self.pointer))

    @property
    def maps_memory(self) -> bool:
        """Whether it computes in the host's memory."""
        return self.driver != "vulkan"


def device_names(driver: str, *, library: Any = None) -> tuple[str, ...]:
    """The names of a driver's devices, in order; none where the system has nothing for it.

    It may load foreign code into this process.
    """
    library = library or open_library()
    names: list[str] = []
    name, error = ctypes.create_string_buffer(256), Error()
    while not library.driver_device(driver.encode(), len(names), name, len(name), error):
        names.append(name.value.decode(errors="replace"))
    return tuple(names)


class EdgertTensor(_Handle):
    """Numbers with a shape on a device, which do not change.

    Attributes:
        shape: its dimensions.
        element_type: as the HAL numbers it.
    """

    _release = "tensor_release"

    def __init__(self, library: Any, pointer: int) -> None:
        """Take over a native tensor."""
        super().__init__(library, pointer)
        rank = library.tensor_rank(pointer)
        self.shape = tuple(library.tensor_shape(pointer)[:rank])
        self.element_type = int(library.tensor_type(pointer))

    @classmethod
    def copy(cls, device: EdgertDevice, array: np.ndarray, dtype: DType) -> "EdgertTensor":
        """A tensor with an array's values.

        Raises:
            DeviceError: out of memory.
        """
        library = device.library
        flat = np.ascontiguousarray(array)
        out, error = ctypes.c_void_p(), Error()
        status = library.tensor_create(
            *(device.pointer, _hal(dtype), array.ndim, _shape(array)),
            *(ctypes.byref(out), ctypes.byref(error)),
        )
        library.check(status, error, DeviceError)
        tensor = cls(library, out.value or 0)
        status = library.tensor_write(
            tensor.pointer, flat.ctypes.data, flat.nbytes, ctypes.byref(error)
        )
        library.check(status, error, DeviceError)
        return tensor

    @classmethod
    def share(
        cls, device: EdgertDevice, array: np.ndarray, dtype: DType, owner: object = None
    ) -> "EdgertTensor":
        """A tensor on an array's own memory: contiguous, at a multiple of `ALIGNMENT`.

        The array, and the owner of its memory, are held until edgert needs them no more: a
        function that keeps its argument as state outlives the tensor.

        Raises:
            InputError: its memory cannot be shared.
        """
        library = device.library
        out, error = ctypes.c_void_p(), Error()
        status = library.tensor_wrap(
            *(device.pointer, _hal(dtype), array.ndim, _shape(array)),
            *(array.ctypes.data, array.nbytes, _LET_GO, _hold((array, owner))),
            *(ctypes.byref(out), ctypes.byref(error)),
        )
        library.check(status, error, InputError)
        return cls(library, out.value or 0)

    def read(self, dtype: DType) -> np.ndarray:
        """A copy of its values, from any device.

        Raises:
            DeviceError: the device failed.
        """
        array = aligned_empty(self.shape, dtype)
        error = Error()
        status = self.library.tensor_read(
            self.pointer, array.ctypes.data, array.nbytes, ctypes.byref(error)
        )
        self.library.check(status, error, DeviceError)
        return array

    def array(self, dtype: DType) -> np.ndarray:
        """Its memory as an array, which keeps the tensor; writing to it changes the tensor.

        Only on devices that compute in the host's memory; use `read` for the others.
        """
        size = int(self.library.tensor_size(self.pointer))
        address = self.library.tensor_data(self.pointer)
        if not size or not address:
            return np.zeros(self.shape, dtype.numpy)
        return bytes_at(address, size, self).view(dtype.numpy).reshape(self.shape)


@dataclass(frozen=True, kw_only=True)
class EdgertArgument:
    """What a module declares of an argument or result; -1 is a size that is not fixed."""

    name: str
    dtype: DType | None
    shape: tuple[int, ...]


class EdgertModule(_Handle):
    """A module file, read and verified by edgert."""

    _release = "module_release"

    def __init__(
        self,
        source: Path | str | bytes,
        *,
        check: bool = False,
        max_bytes: int = 0,
        library: Any = None,
    ) -> None:
        """Read a file, or a file's bytes.

        Args:
            source: which.
            check: compare it with the checksum in it, which reads all of it.
            max_bytes: that it may have; 0: no limit.
            library: from `open_library`; without it the one that it finds.

        Raises:
            ModuleError: it cannot be read, is damaged, too large, or of another version.
        """
        super().__init__(library or open_library(), None)
        out, error = ctypes.c_void_p(), Error()
        options = ctypes.byref(
            ModuleOptions(size=ctypes.sizeof(ModuleOptions), check=check, max_bytes=max_bytes)
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
                    dtype=_BY_HAL.get(native.type),
                    shape=tuple(native.shape[: native.rank]),
                )
            )
        return tuple(found)


class EdgertWeights(_Handle):
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
                *(source.ctypes.data, source.nbytes, _LET_GO, _hold((source, None)), None),
                *(ctypes.byref(out), ctypes.byref(error)),
            )
        else:
            status = self.library.weights_open(
                os.fsencode(source), None, ctypes.byref(out), ctypes.byref(error)
            )
        self.library.check(status, error, ModuleError)
        self.pointer = out.value


class EdgertSession(_Handle):
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
        count = self.library.module_output_count(self.module.pointer, index)
        given = _values(arguments)
        results = (NativeValue * count)()
        error = Error()
        status = self.library.session_call(
            *(self.pointer, index, given, len(arguments), results, count), ctypes.byref(error)
        )
        self.library.check(status, error, DeviceError)
        return [_taken(self.library, slot) for slot in results]

    def begin(
        self,
        function: str,
        arguments: Sequence[EdgertTensor],
        done: "Callable[[EdgertCall], None] | None" = None,
    ) -> "EdgertCall":
        """Begin a call on tensors; calls of one session run in the order they are begun.

        Args:
            function: its name.
            arguments: they may be closed as soon as this returns.
            done: told when the call has ended, on the session's own thread; what it raises is
                reported as from any thread and changes nothing.

        Raises:
            DeviceError: no memory, or no thread.
        """
        return EdgertCall(self, function, arguments, done)

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
        count = self.library.module_output_count(self.module.pointer, index)
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
        taken = [_taken(self.library, slot) for slot in results[:count]]
        return [
            _copied(value, spec)
            for value, spec in zip(taken, self.module.outputs(function), strict=True)
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
            slot.value.tensor = tensors[-1].pointer
            return
        if kind == I32:
            slot.value.i32 = int(argument)
        elif kind == I64:
            slot.value.i64 = int(argument)
        elif kind == F32:
            slot.value.f32 = argument
        elif kind == F64:
            slot.value.f64 = argument
        else:
            raise InputError(f"{type(argument).__name__} given for a tensor")
        slot.kind = kind


class EdgertCall(_Handle):
    """A call that runs in the background; without threads it ran when it was begun."""

    _release = "call_release"

    def __init__(
        self,
        session: EdgertSession,
        function: str,
        arguments: Sequence[EdgertTensor],
        done: Callable[["EdgertCall"], None] | None,
    ) -> None:
        """Begin it; use `EdgertSession.begin`."""
        super().__init__(session.library, None)
        index = session.module.functions[function]
        count = self.library.module_output_count(session.module.pointer, index)
        self._slots = (NativeValue * count)()
        self._results: list[Result] | None = None
        self._done = done
        self._lock = threading.RLock()
        out, error = ctypes.c_void_p(), Error()
        # Held until it has ended, since edgert writes its results here.
        token = _hold(self)
        with self._lock:
            status = self.library.call_begin(
                *(session.pointer, index, _values(arguments), len(arguments), self._slots, count),
                *(_TELL, token, ctypes.byref(out), ctypes.byref(error)),
            )
            self.pointer = out.value
        if status:
            _let_go(token)
        self.library.check(status, error, DeviceError)

    @property
    def is_done(self) -> bool:
        """Whether `wait` would return at once."""
        return self._results is not None or bool(self.library.call_is_done(self.pointer))

    def cancel(self) -> bool:
        """Keep the call from running; False where it has begun, and then it runs to its end."""
        return self._results is None and bool(self.library.call_cancel(self.pointer))

    def wait(self, timeout: float | None = None) -> list[Result]:
        """The results, when the call has ended and its `done` has returned.

        Args:
            timeout: seconds to wait at most.

        Raises:
            DeviceError: the call failed, was cancelled, or has not ended by then.
        """
        if self._results is None:
            error = Error()
            if timeout is None:
                status = self.library.call_wait(self.pointer, ctypes.byref(error))
            else:
                status = self.library.call_wait_for(
                    self.pointer, max(0, round(timeout * 1000)), ctypes.byref(error)
                )
            self.library.check(status, error, DeviceError)
            with self._lock:
                if self._results is None:
                    self._results = [_taken(self.library, slot) for slot in self._slots]
        return self._results

    def close(self) -> None:
        """Give the call back when it has ended; from its `done` at once."""
        if self.pointer and self._results is None:
            with contextlib.suppress(EdgecError):
                self.wait()
        super().close()

    def _tell(self) -> None:
        with self._lock:  # until `begin` has noted its handle
            done, self._done = self._done, None
        if done is not None:
            done(self)


# What edgert still reads or writes, by a number of its own.
_held: dict[int, Any] = {}
_tokens = itertools.count(1)


def _hold(thing: object) -> int:
    token = next(_tokens)
    _held[token] = thing
    return token


def _let_go(token: int | None) -> Any:
    return _held.pop(token or 0, None)


def _release_held(token: int | None) -> None:
    _let_go(token)


def _tell(token: int | None, _: int | None) -> None:
    _let_go(token)._tell()


_LET_GO_CALLBACK = RELEASE(_release_held)
_LET_GO = ctypes.cast(_LET_GO_CALLBACK, ctypes.c_void_p)
_TELL = DONE(_tell)


def _ran(timing: Timing) -> Ran:
    place = None
    if timing.file and timing.line:
        file = ctypes.string_at(timing.file, timing.file_size).decode(errors="replace")
        place = f"{file}:{timing.line}"
    return Ran(
        kernel=timing.kernel.decode(errors="replace"),
        where=place,
        seconds=timing.nanoseconds * 1e-9,
    )


def _shape(array: np.ndarray) -> Any:
    return (ctypes.c_int64 * max(1, array.ndim))(*array.shape)


def _values(tensors: Sequence[EdgertTensor]) -> Any:
    """Tensors as arguments."""
    values = (NativeValue * len(tensors))()
    for slot, tensor in zip(values, tensors, strict=True):
        slot.kind = TENSOR
        slot.value.tensor = tensor.pointer
    return values


def _taken(library: Any, slot: NativeValue) -> Result:
    """A result, which now belongs to Python."""
    kind = slot.kind
    if kind in (I32, I64):
        return int(slot.value.i32 if kind == I32 else slot.value.i64)
    if kind in (F32, F64):
        return float(slot.value.f32 if kind == F32 else slot.value.f64)
    slot.kind = 0
    return EdgertTensor(library, slot.value.tensor)


def _copied(value: Result, spec: EdgertArgument) -> Value:
    """A result as an array of its own, in the type that the module declares."""
    if not isinstance(value, EdgertTensor):
        return value
    given = _dtype(value.element_type)
    dtype = spec.dtype if spec.dtype is not None and spec.dtype.bits == given.bits else given
    return value.read(dtype)


# edgert tells signed and unsigned elements apart, where IREE's compiler has one kind for both.
_SIGNLESS, _SIGNED, _UNSIGNED = 0x10, 0x11, 0x12


def _hal(dtype: DType) -> int:
    """An element type as edgert.h has it."""
    kind = dtype.hal >> 24
    if kind == _SIGNLESS:
        kind = _UNSIGNED if dtype.numpy.kind == "u" else _SIGNED
    return kind << 24 | dtype.hal & 0xFFFFFF


_BY_HAL = {_hal(dtype): dtype for dtype in DType}


def _dtype(hal: int) -> DType:
    """An element type of edgert's; integers without a sign of their own are signed."""
    kind = hal >> 24
    return _BY_HAL[(_SIGNED if kind == _SIGNLESS else kind) << 24 | hal & 0xFFFFFF]
