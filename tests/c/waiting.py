"""A program that reads what the device holds in the middle of a call, and goes on by it."""

from tests.c.bytecode import Function, Program, ref
from tests.c.hal_imports import ALLOCATE, ALLOCATOR, DEVICE, FILL, LOAD

__all__ = ["waiting"]


def waiting(*, in_beginning: bool = False) -> bytes:
    """A module whose `main` doubles a 7 that lies on the device four times, and gives it.

    Each step reads it twice, once in a function of its own. With `in_beginning` one step is made
    when a session is, and `main` gives what came of it.
    """
    ask = (
        ("block", "start"),
        ("const.i64.zero", 0),
        ("const.i32.zero", 2),
        ("const.i64", 64, 4),
        ("const.i32", 4, 3),
        ("const.i64", 7, 6),
        ("call", DEVICE, [2], [ref(0)]),
        ("call", ALLOCATOR, [ref(0)], [ref(1)]),
        ("call", ALLOCATE, [ref(1), 0, 2, 2, 4], [ref(2)]),
        ("call", FILL, [ref(0), 0, ref(6), ref(7), ref(2), 0, 4, 6, 3, 0], []),
    )
    step = (
        ("call", "look", [ref(2)], [10]),
        ("call", LOAD, [ref(2), 0, 3], [11]),
        ("add.i32", 10, 11, 12),
        ("ext.i32.i64.u", 12, 6),
        ("call", FILL, [ref(0), 0, ref(6), ref(7), ref(2), 0, 4, 6, 3, 0], []),
    )
    look = (
        ("block", "start"),
        ("const.i64.zero", 0),
        ("const.i32", 4, 2),
        ("call", LOAD, [ref(0), 0, 2], [3]),
        ("return", [3]),
    )
    keep = (*ask, *step, ("global.store.i32", 0, 12), ("return", []))
    functions = [
        Function(name="main", convention="0v_i", body=[*ask, *step * 4, ("return", [12])]),
        Function(name="look", convention="0r_i", body=list(look)),
    ]
    if in_beginning:
        read = [("block", "start"), ("global.load.i32", 0, 12), ("return", [12])]
        functions[0] = Function(name="main", convention="0v_i", body=read)
        functions.append(Function(name="__init", convention="0v_v", body=list(keep)))
    return Program(functions=functions).build()
