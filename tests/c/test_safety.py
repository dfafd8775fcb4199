"""What a module must not get away with: each of these it once did."""

import ctypes
import json
import struct
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgec.runtime.dtypes import DType
from edgec.runtime.edgert import EdgertDevice, EdgertModule, EdgertSession, EdgertTensor
from edgec.runtime.edgert.native import DeviceOptions, Error, SessionOptions
from edgec.runtime.errors import DeviceError, ModuleError
from tests.c.bytecode import Function, Program, ref
from tests.c.hal_imports import (
    ALLOCATE,
    ALLOCATOR,
    CREATE,
    DEVICE,
    DISPATCH,
    EXECUTE,
    FINISH,
    JOIN,
    LOAD,
    RECORD,
    STORE,
)
from tests.c.programs import PROGRAMS
from tests.c.unruly import keeps_refused_commands

FORMAT = b"embedded-elf-x86_64"

Open = Callable[..., EdgertSession]


@pytest.fixture
def device(library: object) -> EdgertDevice:
    return EdgertDevice(threads=1, library=library)


@pytest.fixture
def open_on(device: EdgertDevice, library: object) -> Open:
    return lambda data, **options: EdgertSession(
        EdgertModule(data, library=library), device, **options
    )


def _function(name: str, convention: str, *body: tuple, **more: object) -> Function:
    return Function(name=name, convention=convention, body=[("block", "start"), *body], **more)


# A buffer of 4096 bytes of the device in reference 2; 0 is the device, 1 its allocator.
ASK = (
    ("const.i32.zero", 0),
    ("const.i32", 4, 1),
    ("const.i64.zero", 2),
    ("const.i64", 4096, 4),
    ("call", DEVICE, [0], [ref(0)]),
    ("call", ALLOCATOR, [ref(0)], [ref(1)]),
    ("call", ALLOCATE, [ref(1), 2, 0, 0, 4], [ref(2)]),
)


def test_memory_that_another_session_left_holds_zeros(open_on: Open) -> None:
    leave = _function(
        "leave",
        "0v_v",
        *ASK,
        ("const.i32", 0x5EC2E7, 6),
        ("call", STORE, [6, ref(2), 2, 1], []),
        ("discard.refs", [ref(2)]),
        ("return", []),
    )
    find = _function("find", "0v_i", *ASK, ("call", LOAD, [ref(2), 2, 1], [6]), ("return", [6]))
    module = Program(functions=[leave, find]).build()
    one, other = open_on(module), open_on(module)
    one.call("leave")
    assert other.call("find") == [0]
    one.call("leave")
    one.close()
    assert open_on(module).call("find") == [0]


@pytest.fixture(scope="session")
def kernels(compile_text: Callable[..., Path]) -> bytes:
    """The machine code of a small program."""
    program = next(program for program in PROGRAMS if program.name == "state")
    data = compile_text(program.text).read_bytes()
    start = data.index(b"\x7fELF")
    sections, entry, count = (
        struct.unpack_from("<Q", data, start + 40)[0],
        *struct.unpack_from("<HH", data, start + 58),
    )
    return data[start : start + sections + entry * count]


def test_a_dispatch_that_was_refused_does_not_run_later(open_on: Open, kernels: bytes) -> None:
    """The commands are kept in a global; the next call executes them."""
    session = open_on(keeps_refused_commands(FORMAT, kernels))
    for _ in range(2):
        with pytest.raises(DeviceError, match="there is no kernel 1048576"):
            session.call("record")
    assert session.call("replay") == []


def test_a_flipped_bit_is_found_where_the_app_asks_for_the_checksum(
    compile_text: Callable[..., Path], library: object, tmp_path: Path
) -> None:
    """In a kernel, which runs as it is, and in the last byte of what the checksum is of."""
    program = next(program for program in PROGRAMS if program.name == "state")
    path = compile_text(program.text)
    data = path.read_bytes()
    EdgertModule(path, check=True, library=library)
    with zipfile.ZipFile(path) as archive:
        last = archive.infolist()[-1]
    end = last.header_offset + 30 + sum(struct.unpack_from("<HH", data, last.header_offset + 26))
    for at in (data.index(b"\x7fELF") + 100, end + last.compress_size - 1):
        changed = bytes(data[:at]) + bytes([data[at] ^ 4]) + data[at + 1 :]
        EdgertModule(changed, library=library)
        with pytest.raises(ModuleError, match="its checksum is another"):
            EdgertModule(changed, check=True, library=library)
        (tmp_path / "changed.vmfb").write_bytes(changed)
        with pytest.raises(ModuleError, match="its checksum is another"):
            EdgertModule(tmp_path / "changed.vmfb", check=True, library=library)


def test_a_module_may_be_no_larger_than_the_app_says(
    compile_text: Callable[..., Path], library: object
) -> None:
    program = next(program for program in PROGRAMS if program.name == "state")
    path = compile_text(program.text)
    size = path.stat().st_size
    EdgertModule(path, max_bytes=size, library=library)
    with pytest.raises(ModuleError, match=f"has {size} bytes, more than it may"):
        EdgertModule(path, max_bytes=size - 1, library=library)


def test_a_tensor_of_another_device_is_refused(open_on: Open, library: object) -> None:
    """A driver would take another one's memory for its own."""
    other = EdgertDevice("null", library=library)
    tensor = EdgertTensor.copy(other, np.zeros(4, np.float32), DType.F32)
    takes = _function("takes", "0r_v", ("return", []))
    session = open_on(Program(functions=[takes]).build())
    with pytest.raises(DeviceError, match="argument 0 is on another device"):
        session.run("takes", [tensor])


def test_a_reference_of_another_kind_is_refused(open_on: Open) -> None:
    """Whatever an imported function asks for, also in a span and behind an empty one."""
    wrong = _function(
        "wrong",
        "0v_v",
        ("const.i32.zero", 0),
        ("const.i64.zero", 2),
        ("call", DEVICE, [0], [ref(0)]),
        ("call.variadic", JOIN, [0xFFFF, 1], [2, ref(0)], [ref(1)]),
        ("return", []),
    )
    with pytest.raises(DeviceError, match=r"gives a hal\.device for a hal\.fence"):
        open_on(Program(functions=[wrong]).build()).call("wrong")


def test_devices_are_listed_by_their_drivers(library: object) -> None:
    name, error = ctypes.create_string_buffer(4), Error()
    assert library.driver_device(b"null", 0, name, 4, error) == 0
    assert name.value == b"nul"
    assert library.driver_device(b"null", 1, name, 4, error) == error.status == -3
    assert library.driver_device(b"tpu", 0, name, 4, error) == error.status == -3
    assert EdgertDevice("null", library=library).name == "null"


def test_a_fence_is_given_to_references_only(open_on: Open) -> None:
    """Else the address of one would come out as a number."""
    taken = _function(
        "taken", "0iI_I", ("return", [2]), attributes={"iree.abi.model": "coarse-fences"}
    )
    session = open_on(Program(functions=[taken]).build())
    with pytest.raises(DeviceError, match="takes 2 arguments"):
        session.call("taken")
    assert session.call("taken", (1, 5)) == [5]


def test_functions_may_not_share_their_code(library: object) -> None:
    """Each is verified for itself: many that share a long one would take the square of its size."""
    long = _function("long", "0v_v", *([("const.i32.zero", 0)] * 1000), ("return", []))
    short = [_function(f"short{i}", "0v_v", ("return", [])) for i in range(20)]
    data = Program(functions=[long, *short]).build()
    EdgertModule(data, library=library)
    (first,) = (
        at
        for at in range(0, len(data) - 20, 4)
        if struct.unpack_from("<hhh", data, at + 14) == (1, 32, 8)
        and struct.unpack_from("<i", data, at) == (0,)
    )
    for index in range(1, 21):
        at = first + 20 * index
        data = data[:at] + data[first : first + 20] + data[at + 20 :]
    with pytest.raises(ModuleError, match="code overlaps"):
        EdgertModule(data, library=library)


@pytest.mark.parametrize("index", [(1 << 63) - 1, -(1 << 63)])
def test_what_is_out_of_range_is_said_without_overflow(open_on: Open, index: int) -> None:
    fill = _function(
        "fill",
        "0II_v",
        ("const.i64", 16, 4),
        ("const.i32.zero", 6),
        ("buffer.alloc", 4, 6, ref(0)),
        ("buffer.fill.i8", ref(0), 0, 2, 6),
        ("return", []),
    )
    session = open_on(Program(functions=[fill]).build())
    with pytest.raises(DeviceError, match=f"reaches for {(1 << 63) - 1} elements at {index} of 16"):
        session.call("fill", (index, (1 << 63) - 1))


class _Newer(ctypes.Structure):
    _fields_ = [("known", SessionOptions), ("unknown", ctypes.c_uint64)]


def test_options_without_their_size_are_refused(library: object) -> None:
    out, error = ctypes.c_void_p(), Error()
    options = DeviceOptions(threads=1)
    status = library.device_create(
        b"cpu", ctypes.byref(options), ctypes.byref(out), ctypes.byref(error)
    )
    assert (library.status_name(status), out.value) == (b"invalid argument", None)
    assert b"set `size`" in error.message


def test_options_of_a_newer_header_are_refused_where_they_are_set(
    library: object, device: EdgertDevice
) -> None:
    module = EdgertModule(
        Program(functions=[_function("f", "0v_v", ("return", []))]).build(), library=library
    )
    options = _Newer(known=SessionOptions(size=ctypes.sizeof(_Newer)))
    out, error = ctypes.c_void_p(), Error()

    def create() -> bytes:
        given = (module.pointer, device.pointer, ctypes.byref(options))
        status = library.session_create(*given, ctypes.byref(out), ctypes.byref(error))
        return bytes(library.status_name(status))

    assert create() == b"ok"
    library.session_release(out)
    options.unknown = 1
    assert create() == b"unsupported"
    assert b"it is older" in error.message


def _endless() -> bytes:
    return Program(
        functions=[
            _function("f", "0v_v", ("br", "start", [])),
            _function("g", "0v_i", ("const.i32", 7, 0), ("return", [0])),
        ]
    ).build()


def test_a_session_holds_no_more_than_it_may(open_on: Open) -> None:
    """276 bytes of a module once made 2 GiB of globals."""
    body = (("return", []),)
    greedy = Program(functions=[_function("f", "0v_v", *body)], global_bytes=2**31 - 8).build()
    with pytest.raises(DeviceError, match="no memory for 2147483640 bytes"):
        open_on(greedy, max_memory=1 << 20)
    keep = _function("keep", "0v_v", *ASK, ("global.store.ref", 0, "!hal.buffer", ref(2)), *body)
    drop = _function(
        "drop",
        "0v_v",
        ("const.ref.zero", ref(0)),
        ("global.store.ref", 0, "!hal.buffer", ref(0)),
        *body,
    )
    big = _function("big", "0v_v", *ASK[:3], ("const.i64", 1 << 20, 4), *ASK[4:], *body)
    session = open_on(Program(functions=[keep, drop, big]).build(), max_memory=1 << 20)
    session.call("drop")  # the interpreter's stack stays
    before, _ = session.memory()
    session.call("keep")
    held, peak = session.memory()
    assert 4096 <= held - before < 8192
    assert peak >= held
    session.call("drop")
    assert session.memory()[0] == before
    with pytest.raises(DeviceError, match="beyond the session's 1048576"):
        session.call("big")
    assert session.memory()[0] == before
    session.call("keep")


def test_a_call_takes_no_longer_than_it_may(open_on: Open) -> None:
    session = open_on(_endless(), max_milliseconds=30)
    start = time.monotonic()
    with pytest.raises(DeviceError, match="limit reached: the call took longer"):
        session.call("f")
    assert 0.03 <= time.monotonic() - start < 10
    assert session.call("g") == [7]


def test_another_thread_interrupts_a_call(open_on: Open) -> None:
    session = open_on(_endless())
    session.interrupt()  # none is running
    assert session.call("g") == [7]
    call = session.begin("f", [])
    with pytest.raises(DeviceError, match="timed out: the call has not ended yet"):
        call.wait(0.02)
    session.interrupt()
    with pytest.raises(DeviceError, match="cancelled: the call was interrupted"):
        call.wait(60)
    assert session.call("g") == [7]


def test_kernels_are_stopped_between_their_workgroups(
    open_on: Open, kernels: bytes, library: object
) -> None:
    """A dispatch of 2^32 workgroups, each of which does all of its four elements."""
    for threads in (1, 2):
        device = EdgertDevice(threads=threads, library=library)
        endless = _function(
            "endless",
            "0v_v",
            *ASK,
            ("const.ref.rodata", FORMAT, ref(3)),
            ("const.ref.rodata", kernels, ref(4)),
            ("call", CREATE, [ref(0), 2, ref(3), ref(4), ref(7)], [ref(3)]),
            ("const.i32", 1, 8),
            ("const.i32", 1 << 16, 9),
            ("call", RECORD, [ref(0), 0, 0, 2, 0], [ref(4)]),
            ("const.i64", -1, 10),
            (
                *("call.variadic", DISPATCH, [*([0xFFFF] * 7), 2, 4]),
                [
                    *(ref(4), ref(3), 2, 9, 9, 8, 2),
                    *(0, 0),
                    *([0, 0, ref(2), 2, 10] * 4),
                ],
                [],
            ),
            ("call", FINISH, [ref(4)], []),
            ("call", EXECUTE, [ref(0), 2, ref(5), ref(6), ref(4), 2], []),
            ("return", []),
        )
        module = EdgertModule(Program(functions=[endless]).build(), library=library)
        session = EdgertSession(module, device, max_milliseconds=50)
        with pytest.raises(DeviceError, match="the call took longer"):
            session.call("endless")


def test_code_is_not_read_from_a_file_that_others_write_to(
    library: object, device: EdgertDevice, tmp_path: Path
) -> None:
    path = tmp_path / "module.vmfb"
    path.write_bytes(_endless())
    session = EdgertSession(EdgertModule(path, library=library), device)
    size = path.stat().st_size
    with path.open("r+b") as stream:
        stream.write(b"\xff" * size)
    assert session.call("g") == [7]
    with path.open("r+b") as stream:
        stream.truncate(0)
    assert session.call("g") == [7]


def test_a_name_is_not_cut_inside_a_character(library: object) -> None:
    said = {"name": "f", "inputs": [{"name": "x" + "é" * 40, "shape": [], "dtype": "f32"}]}
    text = json.dumps(said, ensure_ascii=False)
    function = _function("f", "0r_v", ("return", []), attributes={"edgec.signature": text})
    module = EdgertModule(Program(functions=[function]).build(), library=library)
    assert module.inputs("f")[0].name == "x" + "é" * 31


@pytest.mark.parametrize("letter", ["\u00df", "\u20ac", "\U0001f642"])
def test_a_message_is_not_cut_inside_a_character(letter: str, library: object) -> None:
    out, error = ctypes.c_void_p(), Error()
    for begin in ("", "a", "ab", "abc"):
        path = (begin + 300 * letter).encode()
        assert library.module_open(path, None, ctypes.byref(out), ctypes.byref(error)) < 0
        said = error.message.decode()
        assert said.startswith(f"cannot open {begin}{letter}")
        assert set(said.removeprefix(f"cannot open {begin}")) == {letter}
        assert len(error.message) >= 251 - 3
