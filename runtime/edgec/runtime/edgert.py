"""edgert, the C runtime, from Python: a module file to functions on NumPy arrays and numbers.

The shared library is found at `$EDGERT_LIBRARY`, or at a path that the caller gives. It is built
from `runtime/c` (`cmake --preset shared`). Nothing of IREE is needed.
"""

import ctypes
import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from edgec.runtime.array import ALIGNMENT, aligned_empty
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import DeviceError, DeviceMissing, InputError, ModuleError

__all__ = ["EdgertDevice", "EdgertModule", "EdgertSession", "EdgertWeights", "open_library"]

Value: TypeAlias = np.ndarray | int | float

_ABI = 1
_VARIABLE = "EDGERT_LIBRARY"
# Kinds of values as edgert.h numbers them.
_TENSOR, _I32, _I64, _F32, _F64 = 1, 2, 3, 4, 5
_MAX_RANK = 16


class _Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("message", ctypes.c_char * 252)]


class _Union(ctypes.Union):
    _fields_ = [
        ("tensor", ctypes.c_void_p),
        ("i32", ctypes.c_int32),
        ("i64", ctypes.c_int64),
        ("f32", ctypes.c_float),
        ("f64", ctypes.c_double),
    ]


class _Value(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("value", _Union)]


class _Argument(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_int),
        ("type", ctypes.c_uint32),
        ("rank", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("shape", ctypes.c_int64 * _MAX_RANK),
        ("name", ctypes.c_char * 64),
    ]


class _Allocator(ctypes.Structure):
    _fields_ = [
        ("user", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
    ]


class _DeviceOptions(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint32),
        ("threads", ctypes.c_uint32),
        ("allocator", _Allocator),
        ("log", ctypes.c_void_p),
        ("log_user", ctypes.c_void_p),
        ("libraries", ctypes.c_void_p),
        ("library_count", ctypes.c_size_t),
        ("cache_bytes", ctypes.c_uint64),
    ]


class _Scope(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("weights", ctypes.c_void_p)]


class _SessionOptions(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("allocator", _Allocator),
        ("scopes", ctypes.POINTER(_Scope)),
        ("scope_count", ctypes.c_size_t),
        ("max_steps", ctypes.c_uint64),
    ]


_SIZE, _POINTER, _STATUS = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int
_OUT = ctypes.POINTER(ctypes.c_void_p)
_ERROR = ctypes.POINTER(_Error)
_SHAPE = ctypes.POINTER(ctypes.c_int64)
_RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
# Each function's result and arguments.
_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "abi": (ctypes.c_uint32, ()),
    "status_name": (ctypes.c_char_p, (_STATUS,)),
    "device_create": (_STATUS, (ctypes.c_char_p, _POINTER, _OUT, _ERROR)),
    "device_release": (None, (_POINTER,)),
    "module_open": (_STATUS, (ctypes.c_char_p, _POINTER, _OUT, _ERROR)),
    "module_wrap": (_STATUS, (_POINTER, _SIZE, _POINTER, _POINTER, _POINTER, _OUT, _ERROR)),
    "module_release": (None, (_POINTER,)),
    "module_function_count": (_SIZE, (_POINTER,)),
    "module_function_name": (ctypes.c_char_p, (_POINTER, _SIZE)),
    "module_attribute": (ctypes.c_char_p, (_POINTER, _SIZE, ctypes.c_char_p)),
    "module_input_count": (_SIZE, (_POINTER, _SIZE)),
    "module_output_count": (_SIZE, (_POINTER, _SIZE)),
    "module_input": (_STATUS, (_POINTER, _SIZE, _SIZE, ctypes.POINTER(_Argument), _ERROR)),
    "module_output": (_STATUS, (_POINTER, _SIZE, _SIZE, ctypes.POINTER(_Argument), _ERROR)),
    "weights_open": (_STATUS, (ctypes.c_char_p, _POINTER, _OUT, _ERROR)),
    "weights_release": (None, (_POINTER,)),
    "tensor_wrap": (
        _STATUS,
        (
            *(_POINTER, ctypes.c_uint32, _SIZE, _SHAPE, _POINTER, _SIZE),
            *(_POINTER, _POINTER, _OUT, _ERROR),
        ),
    ),
    "tensor_release": (None, (_POINTER,)),
    "tensor_type": (ctypes.c_uint32, (_POINTER,)),
    "tensor_rank": (_SIZE, (_POINTER,)),
    "tensor_shape": (_SHAPE, (_POINTER,)),
    "tensor_size": (ctypes.c_uint64, (_POINTER,)),
    "tensor_read": (_STATUS, (_POINTER, _POINTER, _SIZE, _ERROR)),
    "session_create": (_STATUS, (_POINTER, _POINTER, _POINTER, _OUT, _ERROR)),
    "session_release": (None, (_POINTER,)),
    "session_call": (
        _STATUS,
        (
            *(_POINTER, _SIZE, ctypes.POINTER(_Value), _SIZE),
            *(ctypes.POINTER(_Value), _SIZE, _ERROR),
        ),
    ),
}


class _Library:
    """The shared library's functions by name, without their prefix."""

    def __init__(self, path: Path) -> None:
        try:
            native = ctypes.CDLL(str(path))
            native.edgert_abi.restype = ctypes.c_uint32
            found = native.edgert_abi()
        except (OSError, AttributeError) as error:
            raise DeviceMissing(
                f"cannot load edgert from {path}: {error}",
                hint=f"build it (cmake --preset shared in runtime/c) and set ${_VARIABLE}",
            ) from error
        if found != _ABI:
            raise DeviceMissing(
                f"{path} has edgert's ABI {found}, and {_ABI} is needed", hint="build it again"
            )
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(native, f"edgert_{name}")
            function.restype = result
            function.argtypes = arguments
            setattr(self, name, function)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)

    def check(self, status: int, error: _Error, kind: type[Exception]) -> None:
        """Raise `kind` for a failure."""
        if status:
            name = self.status_name(status).decode()
            raise kind(f"{name}: {error.message.decode(errors='replace')}")


@cache
def open_library(path: Path | str | None = None) -> Any:
    """Load the shared library.

    Raises:
        DeviceMissing: there is none, or it has another ABI.
    """
    given = path or os.environ.get(_VARIABLE)
    if not given:
        raise DeviceMissing(
            "edgert's shared library is not named",
            hint=f"build it (cmake --preset shared in runtime/c) and set ${_VARIABLE}",
        )
    return _Library(Path(given))


class _Handle:
    """A native object; `close()` gives it back early, twice is fine."""

    _release = ""

    def __init__(self, library: Any, pointer: int | None) -> None:
        self.library = library
        self.pointer = pointer

    def close(self) -> None:
        """Give the object back; whatever was made with it keeps what it needs."""
        pointer, self.pointer = self.pointer, None
        if pointer:
            getattr(self.library, self._release)(pointer)

    def __del__(self) -> None:
        self.close()


class EdgertDevice(_Handle):
    """A device of edgert: `cpu`, or `null`, which computes nothing."""

    _release = "device_release"

    def __init__(self, driver: str = "cpu", *, threads: int = 0, library: Any = None) -> None:
        """Open a device.

        Args:
            driver: its name.
            threads: that compute, with the caller's; 0 is one for each processor.
            library: from `open_library`; without it the one that `$EDGERT_LIBRARY` names.

        Raises:
            DeviceMissing: there is no such driver, or no library.
        """
        super().__init__(library or open_library(), None)
        options = _DeviceOptions(size=ctypes.sizeof(_DeviceOptions), threads=threads)
        out, error = ctypes.c_void_p(), _Error()
        status = self.library.device_create(
            driver.encode(), ctypes.byref(options), ctypes.byref(out), ctypes.byref(error)
        )
        self.library.check(status, error, DeviceMissing)
        self.pointer = out.value


@dataclass(frozen=True, kw_only=True)
class EdgertArgument:
    """What a module declares of an argument or result; -1 is a size that is not fixed."""

    name: str
    dtype: DType | None
    shape: tuple[int, ...]


class EdgertModule(_Handle):
    """A module file, read and verified by edgert."""

    _release = "module_release"

    def __init__(self, source: Path | str | bytes, *, library: Any = None) -> None:
        """Read a file, or a file's bytes.

        Raises:
            ModuleError: it cannot be read, is damaged, or of another version.
        """
        super().__init__(library or open_library(), None)
        out, error = ctypes.c_void_p(), _Error()
        if isinstance(source, bytes):
            self._bytes = source
            status = self.library.module_wrap(
                source, len(source), None, None, None, ctypes.byref(out), ctypes.byref(error)
            )
        else:
            status = self.library.module_open(
                os.fsencode(source), None, ctypes.byref(out), ctypes.byref(error)
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
            native, error = _Argument(), _Error()
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

    def __init__(self, path: Path | str, *, library: Any = None) -> None:
        """Map a file.

        Raises:
            ModuleError: it cannot be read or is damaged.
        """
        super().__init__(library or open_library(), None)
        out, error = ctypes.c_void_p(), _Error()
        status = self.library.weights_open(
            os.fsencode(path), None, ctypes.byref(out), ctypes.byref(error)
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
    ) -> None:
        """Load a module's code and set its state to the first values.

        Raises:
            ModuleError: the module does not fit the device, or its initialiser failed.
        """
        super().__init__(module.library, None)
        self.module = module
        self.device = device
        options = _SessionOptions(size=ctypes.sizeof(_SessionOptions), max_steps=max_steps)
        scope = _Scope(name=None, weights=weights.pointer if weights else None)
        if weights is not None:
            options.scopes = ctypes.pointer(scope)
            options.scope_count = 1
        out, error = ctypes.c_void_p(), _Error()
        status = self.library.session_create(
            module.pointer,
            device.pointer,
            ctypes.byref(options),
            ctypes.byref(out),
            ctypes.byref(error),
        )
        self.library.check(status, error, ModuleError)
        self.pointer = out.value

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
        given = (_Value * max(1, len(arguments)))()
        count = self.library.module_output_count(self.module.pointer, index)
        results = (_Value * max(1, count))()
        kept: list[np.ndarray] = []
        try:
            for slot, kind, argument in zip(given, kinds, arguments, strict=False):
                self._put(slot, kind, argument, kept)
            error = _Error()
            status = self.library.session_call(
                *(self.pointer, index, given, len(arguments), results, count),
                ctypes.byref(error),
            )
            self.library.check(status, error, DeviceError)
            outputs = self.module.outputs(function)
            return [
                self._get(slot, spec) for slot, spec in zip(results[:count], outputs, strict=True)
            ]
        finally:
            for slot in (*given, *results):
                if slot.kind == _TENSOR:
                    self.library.tensor_release(slot.value.tensor)

    def _kinds(self, index: int, count: int) -> list[int]:
        """What each argument is; tensors for those that are too many, which the call refuses."""
        kinds = [_TENSOR] * count
        known = self.library.module_input_count(self.module.pointer, index)
        for position in range(min(count, known)):
            native, error = _Argument(), _Error()
            status = self.library.module_input(
                self.module.pointer, index, position, ctypes.byref(native), ctypes.byref(error)
            )
            self.library.check(status, error, ModuleError)
            kinds[position] = native.kind
        return kinds

    def _put(self, slot: _Value, kind: int, argument: Value, kept: list[np.ndarray]) -> None:
        if not isinstance(argument, np.ndarray):
            if kind == _I32:
                slot.value.i32 = int(argument)
            elif kind == _I64:
                slot.value.i64 = int(argument)
            elif kind == _F32:
                slot.value.f32 = argument
            elif kind == _F64:
                slot.value.f64 = argument
            else:
                raise InputError(f"{type(argument).__name__} given for a tensor")
            slot.kind = kind
            return
        dtype = DType.of(argument.dtype)
        array = np.ascontiguousarray(argument).reshape(argument.shape)
        if array.ctypes.data % ALIGNMENT:
            copy = aligned_empty(array.shape, dtype)
            copy[...] = array
            array = copy
        kept.append(array)
        shape = (ctypes.c_int64 * max(1, array.ndim))(*array.shape)
        out, error = ctypes.c_void_p(), _Error()
        # The array lives until the call is over; a function that keeps its argument as state
        # would outlive it, so the array is held until edgert lets go of it.
        token = _hold(array)
        status = self.library.tensor_wrap(
            *(self.device.pointer, _hal(dtype), array.ndim, shape),
            *(array.ctypes.data, array.nbytes, _LET_GO, token),
            *(ctypes.byref(out), ctypes.byref(error)),
        )
        self.library.check(status, error, InputError)
        slot.kind = _TENSOR
        slot.value.tensor = out.value

    def _get(self, slot: _Value, spec: EdgertArgument) -> Value:
        if slot.kind in (_I32, _I64):
            return int(slot.value.i32 if slot.kind == _I32 else slot.value.i64)
        if slot.kind in (_F32, _F64):
            return float(slot.value.f32 if slot.kind == _F32 else slot.value.f64)
        tensor = slot.value.tensor
        rank = self.library.tensor_rank(tensor)
        shape = tuple(self.library.tensor_shape(tensor)[:rank])
        given = _dtype(self.library.tensor_type(tensor))
        dtype = spec.dtype if spec.dtype is not None and spec.dtype.bits == given.bits else given
        array = aligned_empty(shape, dtype)
        error = _Error()
        status = self.library.tensor_read(
            tensor, array.ctypes.data, array.nbytes, ctypes.byref(error)
        )
        self.library.check(status, error, DeviceError)
        return array


# Arrays that edgert still reads, by a number of their own.
_held: dict[int, np.ndarray] = {}
_tokens = itertools.count(1)


def _hold(array: np.ndarray) -> int:
    token = next(_tokens)
    _held[token] = array
    return token


def _let_go(token: int | None) -> None:
    _held.pop(token or 0, None)


_CALLBACK = _RELEASE(_let_go)
_LET_GO = ctypes.cast(_CALLBACK, ctypes.c_void_p)
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
