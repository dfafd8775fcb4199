"""Programs of transfers alone, for devices whose memory is the host's and those where it is not."""

from dataclasses import dataclass

import numpy as np

from tests.c.bytecode import Function, Program, ref
from tests.c.hal_imports import ALLOCATE, ALLOCATOR, COPY, DEVICE, FILL, LOAD, UPDATE

__all__ = ["HOST_VISIBLE", "TRANSFERS", "all_transfers", "leaves_and_finds"]

HOST_VISIBLE = 2
"""Among the types of memory that a program asks for."""
WORDS = 12


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """One transfer into a buffer that held 0x00 at every byte, and where it is looked at."""

    kind: str
    offset: int
    length: int
    pattern: int = 0
    width: int = 1
    source: int = 0
    size: int = 48
    look: tuple[int, ...] = tuple(range(0, 4 * WORDS, 4))

    def expected(self) -> list[int]:
        """The words that should be there."""
        held = np.zeros(self.size, np.uint8)
        if self.kind == "copy":
            held[:8] = np.arange(1, 9)
            held[self.offset : self.offset + self.length] = held[
                self.source : self.source + self.length
            ]
        elif self.kind == "update":
            data = np.frombuffer(DATA, np.uint8)
            held[self.offset : self.offset + self.length] = data[
                self.source : self.source + self.length
            ]
        else:
            one = self.pattern.to_bytes(8, "little")[: self.width]
            held[self.offset : self.offset + self.length] = np.frombuffer(
                one * (self.length // self.width), np.uint8
            )
        return [int(held[at : at + 4].view(np.int32)[0]) for at in self.look]

    def function(self, name: str, types: int) -> Function:
        """Byte code that does it, in memory of such types.

        Registers: 0 is 64 bits of zero, 2 is 32, 4 and on numbers.
        """
        body: list[tuple[object, ...]] = [
            ("block", "start"),
            ("const.i64.zero", 0),
            ("const.i32.zero", 2),
            ("const.i64", self.size, 4),
            ("call", DEVICE, [2], [ref(0)]),
            ("call", ALLOCATOR, [ref(0)], [ref(1)]),
            ("const.i32", types, 14),
            ("call", ALLOCATE, [ref(1), 0, 14, 2, 4], [ref(2)]),
            ("const.ref.rodata", DATA, ref(3)),
            ("const.i32", 1, 3),
            ("call", FILL, [ref(0), 0, ref(6), ref(7), ref(2), 0, 4, 0, 3, 0], []),
            ("const.i64", self.offset, 4),
            ("const.i64", self.length, 6),
            ("const.i64", self.pattern, 8),
            ("const.i64", self.source, 10),
            ("const.i32", self.width, 3),
        ]
        head = (ref(0), 0, ref(6), ref(7))
        if self.kind == "copy":
            body += [
                ("const.i64", 0x0807060504030201, 8),
                ("const.i64", 8, 12),
                ("const.i32", 8, 3),
                ("call", FILL, [*head, ref(2), 0, 12, 8, 3, 0], []),
                ("call", COPY, [*head, ref(2), 10, ref(2), 4, 6, 0], []),
            ]
        elif self.kind == "update":
            body.append(("call", UPDATE, [*head, ref(3), 10, ref(2), 4, 6, 0], []))
        else:
            body.append(("call", FILL, [*head, ref(2), 4, 6, 8, 3, 0], []))
        body.append(("const.i32", 4, 3))
        for word, at in enumerate(self.look):
            body += [("const.i64", at, 4), ("call", LOAD, [ref(2), 4, 3], [16 + word])]
        body.append(("return", list(range(16, 16 + len(self.look)))))
        return Function(name=name, convention=f"0v_{'i' * len(self.look)}", body=body)


DATA = bytes(range(100, 164))
FAR = (0, 4, 131064, 131072, 262140, 299992, 299996)
TRANSFERS = [
    *(Transfer(kind="fill", offset=at, length=n, pattern=0xA7) for at, n in [(0, 48), (5, 1)]),
    *(
        Transfer(kind="fill", offset=at, length=n, pattern=0x5A)
        for at, n in [(3, 7), (5, 3), (5, 4)]
    ),
    *(
        Transfer(kind="fill", offset=at, length=n, pattern=0xBEEF, width=2)
        for at, n in [(2, 6), (6, 10), (4, 2), (6, 2)]
    ),
    Transfer(kind="fill", offset=4, length=40, pattern=0x12345678, width=4),
    Transfer(kind="fill", offset=8, length=24, pattern=0x0102030405060708, width=8),
    Transfer(kind="fill", offset=8, length=16, pattern=0x1122334411223344, width=8),
    Transfer(
        kind="fill",
        offset=0,
        length=300000,
        pattern=0x0102030405060708,
        width=8,
        size=300000,
        look=FAR,
    ),
    Transfer(kind="update", offset=3, length=5, source=1),
    Transfer(kind="update", offset=8, length=33, source=11),
    Transfer(kind="copy", offset=17, length=3, source=2),
    Transfer(kind="copy", offset=8, length=8, source=0),
]


def all_transfers(types: int = 0) -> bytes:
    """A module with a function for each of them, `f0` and on, in memory of such types."""
    functions = [case.function(f"f{i}", types) for i, case in enumerate(TRANSFERS)]
    return Program(functions=functions).build()


def leaves_and_finds(types: int = 0) -> bytes:
    """A module that leaves a number in memory (`leave`), or looks into new memory (`find`)."""
    ask = (
        ("block", "start"),
        ("const.i64.zero", 0),
        ("const.i32.zero", 2),
        ("const.i64", 4096, 4),
        ("call", DEVICE, [2], [ref(0)]),
        ("call", ALLOCATOR, [ref(0)], [ref(1)]),
        ("const.i32", types, 10),
        ("call", ALLOCATE, [ref(1), 0, 10, 2, 4], [ref(2)]),
        ("const.i32", 4, 3),
    )
    leave = (
        *ask,
        ("const.i64", 0x5EC2E7, 6),
        ("call", FILL, [ref(0), 0, ref(6), ref(7), ref(2), 0, 4, 6, 3, 0], []),
        ("return", []),
    )
    find = (*ask, ("call", LOAD, [ref(2), 0, 3], [8]), ("return", [8]))
    return Program(
        functions=[
            Function(name="leave", convention="0v_v", body=list(leave)),
            Function(name="find", convention="0v_i", body=list(find)),
        ]
    ).build()
