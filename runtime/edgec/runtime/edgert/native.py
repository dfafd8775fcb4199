"""edgert's C interface as ctypes see it: structures, functions, and the library that has them.

`runtime/c/include/edgert/edgert.h` is the manual; names here are its names without their prefix.
"""

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

from edgec.runtime.edgert_library import EDGERT_VARIABLE, find_library
from edgec.runtime.errors import (
    DeviceError,
    DeviceMissing,
    EdgecError,
    ModuleError,
    ModuleMismatch,
    Untrusted,
    WrongAnswer,
)

__all__ = [
    "ACCEPT",
    "DONE",
    "F32",
    "F64",
    "I32",
    "I64",
    "READ",
    "RELEASE",
    "TENSOR",
    "TIMED",
    "DeviceOptions",
    "Error",
    "Library",
    "ModuleOptions",
    "NativeArgument",
    "NativeValue",
    "Place",
    "Reader",
    "Scope",
    "SessionOptions",
    "TensorFacts",
    "Timing",
    "open_library",
]

_ABI = 1
# Kinds of values as edgert.h numbers them.
TENSOR, I32, I64, F32, F64 = 1, 2, 3, 4, 5
# Kinds of failure that ask for a step of their own, as edgert.h numbers them.
_OUT_OF_MEMORY, _UNSUPPORTED, _WRONG_ANSWER, _UNTRUSTED = -1, -5, -13, -15
_MAX_RANK = 16


class Error(ctypes.Structure):
    """What failed: a status and a sentence."""

    _fields_ = [("status", ctypes.c_int), ("message", ctypes.c_char * 252)]


class _Union(ctypes.Union):
    _fields_ = [
        ("tensor", ctypes.c_void_p),
        ("i32", ctypes.c_int32),
        ("i64", ctypes.c_int64),
        ("f32", ctypes.c_float),
        ("f64", ctypes.c_double),
    ]


class NativeValue(ctypes.Structure):
    """An argument or result; `kind` says which member of the union counts."""

    _anonymous_ = ("value",)  # its members are set as if they were this one's own: in half the time
    _fields_ = [("kind", ctypes.c_int), ("value", _Union)]


class NativeArgument(ctypes.Structure):
    """An argument or result as the module declares it."""

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


class Timing(ctypes.Structure):
    """What ran, and for how long."""

    _fields_ = [
        ("kernel", ctypes.c_char_p),
        ("file", ctypes.c_void_p),
        ("file_size", ctypes.c_uint32),
        ("line", ctypes.c_uint32),
        ("workgroups", ctypes.c_uint64),
        ("nanoseconds", ctypes.c_uint64),
        ("idle_nanoseconds", ctypes.c_uint64),
    ]


TIMED = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(Timing))
"""What is told of each kernel that has run."""


READ = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t
)
"""Copies bytes of a file, from an offset, to an address; 0 where that fails."""
ACCEPT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
"""Looks at all bytes of a module before any is believed; 0 refuses them."""
RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
"""What is told that memory is not needed any more: the number it was lent with."""


class Reader(ctypes.Structure):
    """Where the bytes of a file come from that the system does not know as one."""

    _fields_ = [
        ("user", ctypes.c_void_p),
        ("size", ctypes.c_uint64),
        ("read", READ),
        ("release", RELEASE),
    ]


class DeviceOptions(ctypes.Structure):
    """How a device is opened; zero is the default of each."""

    _fields_ = [
        ("size", ctypes.c_uint32),
        ("threads", ctypes.c_uint32),
        ("allocator", _Allocator),
        ("log", ctypes.c_void_p),
        ("log_user", ctypes.c_void_p),
        ("libraries", ctypes.c_void_p),
        ("library_count", ctypes.c_size_t),
        ("cache_bytes", ctypes.c_uint64),
        ("index", ctypes.c_uint32),
        ("unwritten", ctypes.c_uint32),
        ("cache_file", ctypes.c_char_p),
        ("timed", TIMED),
        ("timed_user", ctypes.c_void_p),
    ]


class ModuleOptions(ctypes.Structure):
    """How a module is read; zero is the default of each."""

    _fields_ = [
        ("size", ctypes.c_uint32),
        ("check", ctypes.c_uint32),
        ("allocator", _Allocator),
        ("max_bytes", ctypes.c_uint64),
        ("accept", ACCEPT),
        ("accept_user", ctypes.c_void_p),
        ("key", ctypes.c_char_p),
    ]


class Scope(ctypes.Structure):
    """A weights file under the name that a module calls it by."""

    _fields_ = [("name", ctypes.c_char_p), ("weights", ctypes.c_void_p)]


class SessionOptions(ctypes.Structure):
    """How a module is put on a device; zero is the default of each."""

    _fields_ = [
        ("size", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("allocator", _Allocator),
        ("scopes", ctypes.POINTER(Scope)),
        ("scope_count", ctypes.c_size_t),
        ("max_steps", ctypes.c_uint64),
        ("max_memory", ctypes.c_uint64),
        ("max_milliseconds", ctypes.c_uint64),
    ]


class TensorFacts(ctypes.Structure):
    """What a tensor is made of."""

    _fields_ = [
        ("type", ctypes.c_uint32),
        ("rank", ctypes.c_uint32),
        ("size", ctypes.c_uint64),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
    ]


class Place(ctypes.Structure):
    """A tensor of a call: one of edgert's, or the caller's own memory."""

    _fields_ = [
        ("tensor", ctypes.c_void_p),
        ("data", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
        ("type", ctypes.c_uint32),
        ("rank", ctypes.c_uint32),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
    ]


_SIZE, _POINTER, _STATUS = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int
_OUT = ctypes.POINTER(ctypes.c_void_p)
_ERROR = ctypes.POINTER(Error)
_SHAPE = ctypes.POINTER(ctypes.c_int64)
DONE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
"""What is told of a call that has ended: the number it was begun with, and the call."""
# Each function's result and arguments; None where callers give those as ctypes' own values.
_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...] | None]] = {
    "abi": (ctypes.c_uint32, ()),
    "status_name": (ctypes.c_char_p, (_STATUS,)),
    "device_create": (_STATUS, (ctypes.c_char_p, _POINTER, _OUT, _ERROR)),
    "device_release": (None, (_POINTER,)),
    "device_name": (ctypes.c_char_p, (_POINTER,)),
    "device_identity": (ctypes.c_uint64, (_POINTER,)),
    "driver_name": (ctypes.c_char_p, (_SIZE,)),
    "driver_device": (
        _STATUS,
        (ctypes.c_char_p, ctypes.c_uint32, ctypes.c_char_p, _SIZE, _ERROR),
    ),
    "seal_check": (
        _STATUS,
        (_POINTER, _SIZE, ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(_SIZE), _ERROR),
    ),
    "module_open": (_STATUS, (ctypes.c_char_p, _POINTER, _OUT, _ERROR)),
    "module_wrap": (_STATUS, (_POINTER, _SIZE, _POINTER, _POINTER, _POINTER, _OUT, _ERROR)),
    "module_read": (_STATUS, (ctypes.POINTER(Reader), _POINTER, _OUT, _ERROR)),
    "module_release": (None, (_POINTER,)),
    "module_function_count": (_SIZE, (_POINTER,)),
    "module_function_name": (ctypes.c_char_p, (_POINTER, _SIZE)),
    "module_attribute": (ctypes.c_char_p, (_POINTER, _SIZE, ctypes.c_char_p)),
    "module_input_count": (_SIZE, (_POINTER, _SIZE)),
    "module_output_count": (_SIZE, (_POINTER, _SIZE)),
    "module_input": (_STATUS, (_POINTER, _SIZE, _SIZE, ctypes.POINTER(NativeArgument), _ERROR)),
    "module_output": (_STATUS, (_POINTER, _SIZE, _SIZE, ctypes.POINTER(NativeArgument), _ERROR)),
    "weights_open": (_STATUS, (ctypes.c_char_p, _POINTER, _OUT, _ERROR)),
    "weights_wrap": (_STATUS, (_POINTER, _SIZE, _POINTER, _POINTER, _POINTER, _OUT, _ERROR)),
    "weights_read": (_STATUS, (ctypes.POINTER(Reader), _POINTER, _OUT, _ERROR)),
    "weights_release": (None, (_POINTER,)),
    "tensor_wrap": (
        _STATUS,
        (
            *(_POINTER, ctypes.c_uint32, _SIZE, _SHAPE, _POINTER, _SIZE),
            *(_POINTER, _POINTER, _OUT, _ERROR),
        ),
    ),
    "tensor_create": (_STATUS, (_POINTER, ctypes.c_uint32, _SIZE, _SHAPE, _OUT, _ERROR)),
    "tensor_write": (_STATUS, (_POINTER, _POINTER, _SIZE, _ERROR)),
    "tensor_data": (ctypes.c_void_p, (_POINTER,)),
    "tensor_release": (None, (_POINTER,)),
    "tensor_describe": (None, (_POINTER, ctypes.POINTER(TensorFacts))),
    "tensor_read": (_STATUS, (_POINTER, _POINTER, _SIZE, _ERROR)),
    "session_create": (_STATUS, (_POINTER, _POINTER, _POINTER, _OUT, _ERROR)),
    "session_release": (None, (_POINTER,)),
    "session_interrupt": (None, (_POINTER,)),
    "session_identity": (ctypes.c_uint64, (_POINTER,)),
    "session_prove": (_STATUS, (_POINTER, ctypes.c_char_p, _ERROR)),
    "session_memory": (None, (_POINTER, *[ctypes.POINTER(ctypes.c_uint64)] * 2)),
    "session_call": (
        _STATUS,
        (
            *(_POINTER, _SIZE, ctypes.POINTER(NativeValue), _SIZE),
            *(ctypes.POINTER(NativeValue), _SIZE, _ERROR),
        ),
    ),
    "session_call_places": (_STATUS, None),
    "call_begin": (
        _STATUS,
        (
            *(_POINTER, _SIZE, ctypes.POINTER(NativeValue), _SIZE, ctypes.POINTER(NativeValue)),
            *(_SIZE, DONE, _POINTER, _OUT, _ERROR),
        ),
    ),
    "call_is_done": (ctypes.c_int, (_POINTER,)),
    "call_wait": (_STATUS, (_POINTER, _ERROR)),
    "call_wait_for": (_STATUS, (_POINTER, ctypes.c_uint64, _ERROR)),
    "call_cancel": (ctypes.c_int, (_POINTER,)),
    "call_release": (None, (_POINTER,)),
}


class Library:
    """The shared library's functions by name, without their prefix."""

    def __init__(self, path: Path) -> None:
        try:
            native = ctypes.CDLL(str(path))
            native.edgert_abi.restype = ctypes.c_uint32
            found = native.edgert_abi()
        except (OSError, AttributeError) as error:
            raise DeviceMissing(
                f"cannot load edgert from {path}: {error}",
                hint=f"delete it, and it is built anew; or set ${EDGERT_VARIABLE} to a good one",
            ) from error
        if found != _ABI:
            raise DeviceMissing(
                f"{path} has edgert's ABI {found}, and {_ABI} is needed",
                hint=f"build it again, or unset ${EDGERT_VARIABLE}",
            )
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(native, f"edgert_{name}", None)
            if function is None:
                raise DeviceMissing(
                    f"{path} was built without edgert_{name}",
                    hint="build it as Python needs it: cmake --preset shared in runtime/c",
                )
            function.restype = result
            function.argtypes = arguments
            setattr(self, name, function)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)

    def check(self, status: int, error: Error, kind: type[EdgecError]) -> None:
        """Raise `kind` for a failure, or what says more precisely what failed."""
        if not status:
            return
        text = f"{self.status_name(status).decode()}: {error.message.decode(errors='replace')}"
        if status == _OUT_OF_MEMORY:
            raise DeviceError(text, hint="free memory on the device, or use a smaller batch")
        if status == _UNTRUSTED:
            raise Untrusted(error.message.decode(errors="replace") or "not trusted")
        if status == _UNSUPPORTED and kind is ModuleError:
            raise ModuleMismatch(text, hint="compile the program for this device (--target)")
        if status == _WRONG_ANSWER:
            raise WrongAnswer(text, hint="use another variant of the module, or another device")
        raise kind(text)


@cache
def open_library(path: Path | str | None = None) -> Any:
    """Load the shared library; without a path the one that `find_library` finds.

    Raises:
        DeviceMissing: there is none, it does not load, or it has another ABI.
        DeviceError: it could not be built.
    """
    return Library(find_library() if path is None else Path(path))
