"""Byte code that reaches every instruction: the pure ones by a rule, the others by hand.

Every function takes and gives integers only (floats travel as their bits), so that one way of
calling serves all runtimes.
"""

import itertools
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.c.bytecode import OPCODES, Function, Opcode, moved, ref

__all__ = ["HAND_MADE", "Case", "agree", "pure_cases"]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A function with the arguments to call it with."""

    function: Function
    arguments: tuple[tuple[int, ...], ...] = ((),)

    @property
    def opcodes(self) -> set[str]:
        """The instructions in it."""
        return {instruction[0] for instruction in self.function.body}


def _is_nan(value: int, kind: str) -> bool:
    """Whether bits are those of a NaN, whose sign and payload are anybody's."""
    if kind == "i":
        return value & 0x7FFFFFFF > 0x7F800000
    return value & (2**63 - 1) > 0x7FF0000000000000


def agree(case: Case, actual: Sequence[int], expected: Sequence[int]) -> bool:
    """Whether results are the same bits; any NaN is as good as another."""
    kinds = case.function.convention.partition("_")[2].replace("v", "")
    floats = any(OPCODES[name].set != "CORE" for name in case.opcodes if name in OPCODES)
    return all(
        a == e or (floats and _is_nan(a, kind) and _is_nan(e, kind))
        for a, e, kind in zip(actual, expected, kinds, strict=True)
    )


# --- pure instructions: registers in, one register out ------------------------------------------

_I32 = (0, 1, -1, 2, -2, 7, -7, 31, 33, 255, -129, 32768, 0x12345678, 0x7FFFFFFF, -0x80000000)
_I64 = (*_I32[:13], 1 << 33, -(1 << 40), (1 << 63) - 1, -(1 << 63))
_FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 3.7, 1e-40, 12345.678, 1e9, -1e9)
_SPECIAL = (float("inf"), float("-inf"), float("nan"), 1e30)
_NO_ZERO = ("div.i", "rem.i")


def _bits(value: float, code: str) -> int:
    form = ("<f", "<i") if code == "f" else ("<d", "<q")
    return int(struct.unpack(form[1], struct.pack(form[0], value))[0])


def _values(opcode: Opcode, code: str, position: int) -> tuple[int, ...]:
    if code in "fF":
        # What does not fit an integer is undefined in C and so not compared.
        is_cast = opcode.name.startswith("cast.f")
        numbers = _FLOATS if is_cast else (*_FLOATS, *_SPECIAL)
        if is_cast and ".ui" in opcode.name:
            numbers = tuple(number for number in numbers if number >= 0)
        return tuple(_bits(number, code) for number in numbers)
    values = _I32 if code == "i" else _I64
    if opcode.name.startswith(_NO_ZERO) and position == 1:
        return tuple(value for value in values if value not in (0, -1))
    return values


def _is_pure(opcode: Opcode) -> bool:
    if opcode.name.startswith("global."):
        return False
    reads = [kind for kind in opcode.operands if kind in ("i", "I", "f", "F")]
    writes = [kind for kind in opcode.operands if kind in (">i", ">I", ">f", ">F")]
    return len(writes) == 1 and len(reads) >= 1 and len(reads) + 1 == len(opcode.operands)


def _cast(kind: str) -> tuple[str, str]:
    """The instructions from an integer's bits to a float and back."""
    return {
        "f": ("bitcast.i32.f32", "bitcast.f32.i32"),
        "F": ("bitcast.i64.f64", "bitcast.f64.i64"),
    }[kind]


def _pure_function(opcode: Opcode) -> Function:
    reads = [kind for kind in opcode.operands if kind[0] != ">"]
    result = opcode.operands[-1][1]
    convention = "".join("i" if kind in "if" else "I" for kind in reads)
    body: list[tuple[object, ...]] = [("block", "start")]
    registers = []
    at = 0
    for kind in reads:
        if kind in "IF":
            at = (at + 1) & ~1
        registers.append(at)
        if kind in "fF":
            body.append((_cast(kind)[0], at, at))
        at += 2 if kind in "IF" else 1
    body.append((opcode.name, *registers, 20))
    if result in "fF":
        body.append((_cast(result)[1], 20, 20))
    body.append(("return", [20]))
    answer = "i" if result in "if" else "I"
    return Function(name=opcode.name, convention=f"0{convention}_{answer}", body=body)


def pure_cases() -> Iterator[Case]:
    """A case for each instruction that only computes, with all pairs of telling values."""
    for opcode in OPCODES.values():
        if not _is_pure(opcode):
            continue
        reads = [kind for kind in opcode.operands if kind[0] != ">"]
        values = [_values(opcode, kind, position) for position, kind in enumerate(reads)]
        if len(reads) == 3:
            values = [group[::3] for group in values]
        yield Case(function=_pure_function(opcode), arguments=tuple(itertools.product(*values)))


# --- the others, by hand ------------------------------------------------------------------------

_HALF, _PI = _bits(0.5, "f"), _bits(3.14159265, "f")
_HALF64, _PI64 = _bits(0.5, "F"), _bits(3.14159265, "F")
_BYTES = "!vm.buffer"
_TEXT = b"The quick brown fox jumps over the lazy dog."


def _case(
    name: str,
    convention: str,
    *body: tuple[object, ...],
    calls: tuple[tuple[int, ...], ...] = ((),),
) -> Case:
    function = Function(name=name, convention=convention, body=(("block", "start"), *body))
    return Case(function=function, arguments=calls)


def _globals() -> Iterator[Case]:
    yield _case(
        "global_i32",
        "0i_i",
        ("global.store.i32", 8, 0),
        ("global.load.i32", 8, 1),
        ("return", [1]),
        calls=((5,), (-6,)),
    )
    yield _case(
        "global_i64",
        "0I_I",
        ("global.store.i64", 16, 0),
        ("global.load.i64", 16, 2),
        ("return", [2]),
        calls=((1 << 40,), (-7,)),
    )
    yield _case(
        "global_indirect_i32",
        "0ii_i",
        ("global.store.indirect.i32", 0, 1),
        ("global.load.indirect.i32", 0, 2),
        ("return", [2]),
        calls=((0, 5), (60, 6)),
    )
    yield _case(
        "global_indirect_i64",
        "0iI_I",
        ("global.store.indirect.i64", 0, 2),
        ("global.load.indirect.i64", 0, 4),
        ("return", [4]),
        calls=((0, 5), (56, -6)),
    )
    for letter, name, one, two in (("i", "f32", 0, 1), ("I", "f64", 2, 4)):
        yield _case(
            f"global_{name}",
            f"0{letter}_{letter}",
            (f"global.store.{name}", 24, 0),
            (f"global.load.{name}", 24, two),
            ("return", [two]),
            calls=((_PI,), (_HALF,)),
        )
        yield _case(
            f"global_indirect_{name}",
            f"0i{letter}_{letter}",
            (f"global.store.indirect.{name}", 0, one or 1),
            (f"global.load.indirect.{name}", 0, 8),
            ("return", [8]),
            calls=((32, _PI), (40, _HALF)),
        )
    yield _case(
        "global_ref",
        "0v_ii",
        ("const.ref.rodata", _TEXT, ref(0)),
        ("global.store.ref", 1, _BYTES, ref(0)),
        ("global.load.ref", 1, _BYTES, ref(1)),
        ("cmp.eq.ref", ref(0), ref(1), 0),
        ("global.store.ref", 1, _BYTES, moved(1)),
        ("cmp.nz.ref", ref(1), 1),
        ("discard.refs", [ref(0)]),
        ("return", [0, 1]),
    )
    yield _case(
        "global_ref_stolen",
        "0v_iii",
        ("const.ref.rodata", _TEXT, ref(0)),
        ("global.store.ref", 2, _BYTES, moved(0)),
        ("global.load.ref", 2, _BYTES, moved(1)),
        ("global.load.ref", 2, _BYTES, ref(2)),
        ("cmp.nz.ref", ref(0), 0),
        ("cmp.nz.ref", ref(1), 1),
        ("cmp.nz.ref", ref(2), 2),
        ("discard.refs", [ref(1)]),
        ("return", [0, 1, 2]),
    )
    yield _case(
        "global_indirect_ref",
        "0i_i",
        ("const.ref.rodata", _TEXT, ref(0)),
        ("global.store.indirect.ref", 0, _BYTES, moved(0)),
        ("global.load.indirect.ref", 0, _BYTES, ref(1)),
        ("cmp.nz.ref", ref(1), 1),
        ("discard.refs", [ref(1)]),
        ("return", [1]),
        calls=((0,), (3,)),
    )


def _constants() -> Iterator[Case]:
    yield _case(
        "constants",
        "0v_iIiIiI",
        ("const.i32", -5, 0),
        ("const.i64", -(1 << 50), 2),
        ("const.i32.zero", 4),
        ("const.i64.zero", 6),
        ("const.f32", _PI, 8),
        ("const.f64", _PI64, 10),
        ("return", [0, 2, 4, 6, 8, 10]),
    )
    yield _case(
        "float_zeros",
        "0iI_iI",
        ("const.f32.zero", 0),
        ("const.f64.zero", 2),
        ("return", [0, 2]),
        calls=((7, 8),),
    )
    yield _case(
        "const_ref",
        "0v_ii",
        ("const.ref.rodata", _TEXT, ref(0)),
        ("const.ref.zero", ref(1)),
        ("cmp.nz.ref", ref(0), 0),
        ("cmp.ne.ref", ref(0), ref(1), 1),
        ("discard.refs", [ref(0)]),
        ("return", [0, 1]),
    )


def _lists() -> Iterator[Case]:
    start = (("const.i32", 3, 10), ("const.i32", 1, 11))
    for letter, name, registers in (
        ("i", "i32", (0, 1)),
        ("I", "i64", (0, 2)),
        ("i", "f32", (0, 1)),
        ("I", "f64", (0, 2)),
    ):
        for kind in (name, "!vm.opaque"):
            yield _case(
                f"list_{name}_in_{kind.strip('!')}",
                f"0{letter}_{letter}i",
                *start,
                ("list.alloc", kind, 10, ref(0)),
                ("list.reserve", ref(0), 10),
                ("list.resize", ref(0), 10),
                (f"list.set.{name}", ref(0), 11, registers[0]),
                (f"list.get.{name}", ref(0), 11, registers[1]),
                ("list.size", ref(0), 8),
                ("discard.refs", [ref(0)]),
                ("return", [registers[1], 8]),
                calls=((_PI,), (_HALF,), (-3,)),
            )
    for stored in ("i8", "i16", "i32", "i64", "f32", "f64"):
        yield _case(
            f"list_converts_{stored}",
            "0iI_iIiIiI",
            *start,
            ("list.alloc", stored, 10, ref(0)),
            ("list.resize", ref(0), 10),
            ("list.set.i32", ref(0), 11, 0),
            ("list.get.i32", ref(0), 11, 4),
            ("list.get.i64", ref(0), 11, 6),
            ("list.set.i64", ref(0), 11, 2),
            ("list.get.i32", ref(0), 11, 12),
            ("list.get.i64", ref(0), 11, 14),
            ("list.set.f32", ref(0), 11, 0),
            ("list.get.f32", ref(0), 11, 16),
            ("list.set.f64", ref(0), 11, 2),
            ("list.get.f64", ref(0), 11, 18),
            ("discard.refs", [ref(0)]),
            ("return", [4, 6, 12, 14, 16, 18]),
            calls=((300, 1 << 40), (_PI, _PI64), (-1, -(1 << 35))),
        )
    yield _case(
        "list_refs",
        "0v_iiii",
        *start,
        ("const.ref.rodata", _TEXT, ref(0)),
        ("list.alloc", _BYTES, 10, ref(1)),
        ("list.resize", ref(1), 10),
        ("list.set.ref", ref(1), 11, ref(0)),
        ("list.get.ref", ref(1), 11, _BYTES, ref(2)),
        ("cmp.eq.ref", ref(0), ref(2), 0),
        ("list.get.ref", ref(1), 11, _BYTES, moved(3)),
        ("cmp.nz.ref", ref(3), 1),
        ("list.get.ref", ref(1), 11, _BYTES, ref(4)),
        ("cmp.nz.ref", ref(4), 2),
        ("list.set.ref", ref(1), 11, moved(0)),
        ("cmp.nz.ref", ref(0), 3),
        ("discard.refs", [ref(1), ref(2), ref(3), ref(4)]),
        ("return", [0, 1, 2, 3]),
    )
    yield _case(
        "list_of_another_type",
        "0v_i",
        *start,
        ("list.alloc", "!vm.opaque", 10, ref(1)),
        ("list.resize", ref(1), 10),
        ("const.ref.rodata", _TEXT, ref(0)),
        ("list.set.ref", ref(1), 11, moved(0)),
        ("list.get.ref", ref(1), 11, "!vm.list<i32>", ref(2)),
        ("cmp.nz.ref", ref(2), 0),
        ("discard.refs", [ref(1)]),
        ("return", [0]),
    )


def _choices() -> Iterator[Case]:
    yield _case(
        "select_ref",
        "0i_ii",
        ("const.ref.rodata", _TEXT, ref(0)),
        ("const.ref.zero", ref(1)),
        ("select.ref", 0, _BYTES, ref(0), ref(1), ref(2)),
        ("cmp.nz.ref", ref(2), 1),
        ("select.ref", 0, _BYTES, moved(1), moved(0), ref(3)),
        ("cmp.nz.ref", ref(3), 2),
        ("discard.refs", [ref(2), ref(3)]),
        ("return", [1, 2]),
        calls=((0,), (1,), (2,)),
    )
    indices = tuple((index, 50, 60, 70) for index in (0, 1, 2, 3, -1, 1 << 20))
    for letter, name, registers in (
        ("i", "i32", (1, 2, 3)),
        ("i", "f32", (1, 2, 3)),
        ("I", "i64", (2, 4, 6)),
        ("I", "f64", (2, 4, 6)),
    ):
        yield _case(
            f"switch_{name}",
            f"0i{letter * 3}_{letter}",
            (f"switch.{name}", 0, registers[0], [registers[1], registers[2]], 10),
            ("return", [10]),
            calls=indices,
        )
    yield _case(
        "switch_ref",
        "0i_ii",
        ("const.ref.rodata", _TEXT, ref(0)),
        ("const.ref.zero", ref(1)),
        ("switch.ref", 0, _BYTES, ref(1), [ref(1), ref(0)], ref(2)),
        ("cmp.nz.ref", ref(2), 1),
        ("cmp.eq.ref", ref(0), ref(2), 2),
        ("discard.refs", [ref(0), ref(2)]),
        ("return", [1, 2]),
        calls=((0,), (1,), (2,), (-1,)),
    )


def _control() -> Iterator[Case]:
    yield _case(
        "loop",
        "0I_I",
        ("const.i64", 1, 4),
        ("const.i64", 0, 6),
        ("br", "head", [(0, 10), (1, 11), (6, 8), (7, 9)]),
        ("block", "head"),
        ("cmp.nz.i64", 10, 12),
        ("cond_br", 12, "body", [], "end", [(8, 0), (9, 1)]),
        ("block", "body"),
        ("add.i64", 8, 10, 8),
        ("sub.i64", 10, 4, 10),
        ("br", "head", []),
        ("block", "end"),
        ("return", [0]),
        calls=((0,), (1,), (10,)),
    )
    yield _case(
        "swap_in_order",
        "0ii_ii",
        ("br", "end", [(0, 1), (1, 0)]),
        ("block", "end"),
        ("return", [0, 1]),
        calls=((1, 2),),
    )
    yield _case(
        "table",
        "0i_i",
        ("const.i32", 10, 1),
        ("const.i32", 20, 2),
        ("const.i32", 30, 3),
        ("br_table", 0, "end", [(1, 4)], [("end", [(2, 4)]), ("other", [(3, 4)])]),
        ("block", "end"),
        ("return", [4]),
        ("block", "other"),
        ("add.i32", 4, 4, 4),
        ("br", "end", []),
        calls=((0,), (1,), (2,), (-1,)),
    )
    yield _case(
        "refs_through_blocks",
        "0v_ii",
        ("const.ref.rodata", _TEXT, ref(0)),
        ("br", "next", [(ref(0), ref(1))]),
        ("block", "next"),
        ("br", "end", [(moved(0), ref(2))]),
        ("block", "end"),
        ("cmp.nz.ref", ref(1), 0),
        ("cmp.nz.ref", ref(2), 1),
        ("discard.refs", [ref(1), ref(2)]),
        ("return", [0, 1]),
    )
    yield _case(
        "assign_and_cast",
        "0v_iii",
        ("const.ref.rodata", _TEXT, ref(0)),
        ("assign.ref", ref(0), ref(1)),
        ("assign.ref", moved(0), ref(2)),
        ("cast.any.ref", moved(1), _BYTES, ref(3)),
        ("cmp.eq.ref", ref(2), ref(3), 0),
        ("cmp.nz.ref", ref(0), 1),
        ("cmp.nz.ref", ref(1), 2),
        ("discard.refs", [ref(2), ref(3)]),
        ("return", [0, 1, 2]),
    )
    yield _case(
        "trace_and_print",
        "0i_i",
        ("const.ref.rodata", _TEXT, ref(0)),
        ("trace", "odd", [0, ref(0)]),
        ("print", "even", [0, moved(0)]),
        ("cmp.nz.ref", ref(0), 1),
        ("return", [1]),
        calls=((1,),),
    )


def _bytes() -> Iterator[Case]:
    for name, width, letter, load, registers in (
        ("i8", 1, "i", "i8.u", (2, 3)),
        ("i8", 1, "i", "i8.s", (2, 3)),
        ("i16", 2, "i", "i16.u", (2, 3)),
        ("i16", 2, "i", "i16.s", (2, 3)),
        ("i32", 4, "i", "i32", (2, 3)),
        ("i64", 8, "I", "i64", (2, 4)),
        ("f32", 4, "i", "f32", (2, 3)),
        ("f64", 8, "I", "f64", (2, 4)),
    ):
        yield _case(
            f"bytes_{load}",
            f"0I{letter}_{letter}{letter}II",
            ("const.i64", 6 * width, 8),
            ("const.i32", 16, 10),
            ("const.i64", 1, 12),
            ("const.i64", 4, 14),
            ("buffer.alloc", 8, 10, ref(0)),
            (f"buffer.fill.{name}", ref(0), 12, 14, registers[0]),
            (f"buffer.load.{load}", ref(0), 0, registers[1]),
            (f"buffer.store.{name}", ref(0), 0, registers[0]),
            (f"buffer.load.{load}", ref(0), 0, 6),
            ("buffer.length", ref(0), 16),
            ("const.i64.zero", 18),
            ("buffer.hash", ref(0), 18, 8, 20),
            ("discard.refs", [ref(0)]),
            ("return", [registers[1], 6, 16, 20]),
            calls=((0, 0x81828384), (1, -2), (5, _PI)),
        )
    yield _case(
        "bytes_clone_copy_compare",
        "0II_iiI",
        ("const.ref.rodata", _TEXT, ref(0)),
        ("const.i32", 16, 4),
        ("const.i64", 10, 6),
        ("buffer.clone", ref(0), 0, 6, 4, ref(1)),
        ("buffer.compare", ref(0), 0, ref(1), 2, 6, 8),
        ("const.i64", 4, 10),
        ("buffer.copy", ref(0), 2, ref(1), 10, 10),
        ("const.i64.zero", 12),
        ("buffer.compare", ref(0), 2, ref(1), 10, 10, 9),
        ("buffer.hash", ref(1), 12, 6, 14),
        ("discard.refs", [ref(0), ref(1)]),
        ("return", [8, 9, 14]),
        calls=((0, 0), (5, 0), (34, 0)),
    )
    for length in (0, 1, 7, 8, 9, 44):
        yield _case(
            f"hash_{length}",
            "0v_I",
            ("const.ref.rodata", _TEXT, ref(0)),
            ("const.i64.zero", 0),
            ("const.i64", length, 2),
            ("buffer.hash", ref(0), 0, 2, 4),
            ("discard.refs", [ref(0)]),
            ("return", [4]),
        )


HAND_MADE: tuple[Case, ...] = tuple(
    itertools.chain(_globals(), _constants(), _lists(), _choices(), _control(), _bytes())
)
"""Cases for what pure instructions are not."""
