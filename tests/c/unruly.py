"""Programs that ask for what they may not have: every driver has to keep them from it."""

from tests.c.bytecode import Function, Program, ref
from tests.c.hal_imports import (
    ALLOCATE,
    ALLOCATOR,
    CREATE,
    DEVICE,
    DISPATCH,
    EXECUTE,
    FINISH,
    RECORD,
)

__all__ = ["keeps_and_asks", "keeps_refused_commands"]


def keeps_refused_commands(format_name: bytes, executable: bytes) -> bytes:
    """A module that keeps commands with a kernel that is not there (`record`), and runs them.

    The commands are kept in a global; `replay`, at the next call, executes them.
    """
    record = Function(
        name="record",
        convention="0v_v",
        body=[
            ("block", "start"),
            ("const.i32.zero", 0),
            ("const.i32", 1, 1),
            ("const.i64.zero", 2),
            ("const.i64", 1 << 20, 4),
            ("call", DEVICE, [0], [ref(0)]),
            ("const.ref.rodata", format_name, ref(1)),
            ("const.ref.rodata", executable, ref(2)),
            ("call", CREATE, [ref(0), 2, ref(1), ref(2), ref(7)], [ref(3)]),
            ("call", RECORD, [ref(0), 0, 0, 2, 0], [ref(4)]),
            ("global.store.ref", 0, "!hal.command_buffer", ref(4)),
            (
                *("call.variadic", DISPATCH, [*([0xFFFF] * 7), 0, 0]),
                *([ref(4), ref(3), 4, 1, 1, 1, 2], []),
            ),
            ("return", []),
        ],
    )
    replay = Function(
        name="replay",
        convention="0v_v",
        body=[
            ("block", "start"),
            ("const.i32.zero", 0),
            ("const.i64.zero", 2),
            ("call", DEVICE, [0], [ref(0)]),
            ("global.load.ref", 0, "!hal.command_buffer", ref(4)),
            ("call", FINISH, [ref(4)], []),
            ("call", EXECUTE, [ref(0), 2, ref(5), ref(6), ref(4), 2], []),
            ("return", []),
        ],
    )
    return Program(functions=[record, replay]).build()


def keeps_and_asks(kept: int, asked: int) -> bytes:
    """A module that keeps so many bytes (`keep`), lets them go (`drop`), or wants more (`ask`)."""

    def function(name: str, size: int, *body: tuple) -> Function:
        ask = [
            ("block", "start"),
            ("const.i32.zero", 0),
            ("const.i64.zero", 2),
            ("const.i64", size, 4),
            ("call", DEVICE, [0], [ref(0)]),
            ("call", ALLOCATOR, [ref(0)], [ref(1)]),
            ("call", ALLOCATE, [ref(1), 2, 0, 0, 4], [ref(2)]),
        ]
        return Function(name=name, convention="0v_v", body=[*ask, *body, ("return", [])])

    keep = function("keep", kept, ("global.store.ref", 0, "!hal.buffer", ref(2)))
    drop = function(
        "drop", 16, ("const.ref.zero", ref(0)), ("global.store.ref", 0, "!hal.buffer", ref(0))
    )
    return Program(functions=[keep, drop, function("ask", asked)]).build()
