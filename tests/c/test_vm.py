"""Every instruction gives what the reference runtime gives."""

import struct
from collections.abc import Sequence

import numpy as np
import pytest
from iree.runtime import VmContext, VmInstance, VmModule, VmVariantList

from edgec.runtime.edgert import EdgertDevice, EdgertModule, EdgertSession
from edgec.runtime.errors import DeviceError, ModuleError
from tests.c.bytecode import OPCODES, Function, Import, Program, moved, ref
from tests.c.hal_imports import AWAIT, DEVICE, FENCE, JOIN, SIGNAL
from tests.c.vm_programs import HAND_MADE, Case, agree, pure_cases

PURE = tuple(pure_cases())
# What the C library approximates: in 32 bits edgert gives the 64-bit answer rounded, which the
# reference runtime, by other functions, misses by a unit in the last place at most.
APPROXIMATED = ("atan", "cos", "sin", "exp", "log", "pow", "tanh", "erf")


class Reference:
    """IREE's own virtual machine; what it gives is in 64 bits, cut to the width of each result."""

    def __init__(self, module: bytes) -> None:
        instance = VmInstance()
        self.module = VmModule.copy_buffer(instance, module)
        self.context = VmContext(instance, [self.module])

    def call(self, function: Function, arguments: Sequence[int]) -> list[int]:
        given = VmVariantList(len(arguments))
        for argument in arguments:
            given.push_int(argument)
        kinds = function.convention.partition("_")[2].replace("v", "")
        results = VmVariantList(len(kinds))
        self.context.invoke(self.module.lookup_function(function.name), given, results)
        return [wrap(results.get_variant(position), kind) for position, kind in enumerate(kinds)]


def wrap(value: int, kind: str) -> int:
    """A number in the two's complement of its kind."""
    bits = 32 if kind == "i" else 64
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


@pytest.fixture(scope="module")
def session_of(library: object):
    device = EdgertDevice("null", library=library)
    return lambda data, **options: EdgertSession(
        EdgertModule(data, library=library), device, **options
    )


@pytest.mark.parametrize("case", HAND_MADE, ids=lambda case: case.function.name)
def test_an_instruction_does_what_the_reference_does(case: Case, session_of) -> None:
    module = Program(functions=[case.function]).build()
    session, reference = session_of(module), Reference(module)
    for arguments in case.arguments:
        actual = session.call(case.function.name, arguments)
        expected = reference.call(case.function, arguments)
        assert agree(case, actual, expected), f"{arguments}: {actual} is not {expected}"


def _widen(bits: Sequence[int]) -> list[int]:
    floats = struct.unpack(f"<{len(bits)}f", struct.pack(f"<{len(bits)}i", *bits))
    return list(struct.unpack(f"<{len(bits)}q", struct.pack(f"<{len(bits)}d", *floats)))


def _narrow(bits: int) -> int:
    with np.errstate(over="ignore"):
        return int(np.array(bits, np.int64).view(np.float64).astype(np.float32).view(np.int32))


def test_pure_instructions_compute_what_the_reference_computes(session_of) -> None:
    assert len(PURE) > 150
    module = Program(functions=[case.function for case in PURE]).build()
    session, reference = session_of(module), Reference(module)
    wide = {case.function.name: case.function for case in PURE}
    wrong = []
    for case in PURE:
        name = case.function.name
        is_near = name.startswith(APPROXIMATED) and name.endswith(".f32")
        for arguments in case.arguments:
            actual = session.call(name, arguments)
            expected = reference.call(case.function, arguments)
            if is_near:
                twin = wide[name.replace("f32", "f64")]
                near, expected = expected, [_narrow(*reference.call(twin, _widen(arguments)))]
                assert agree(case, near, expected) or abs(near[0] - expected[0]) == 1, name
            if not agree(case, actual, expected):
                wrong.append(f"{name}{arguments}: {actual} is not {expected}")
    assert not wrong, "\n".join(wrong[:20])


# Calls, and what the reference runtime does not survive or does not do alone.


def test_division_that_c_leaves_undefined_is_a_failure_or_wraps(session_of) -> None:
    names = ["div.i32.s", "div.i32.u", "rem.i32.s", "rem.i32.u"]
    names += [name.replace("32", "64") for name in names]
    cases = [case for case in PURE if case.function.name in names]
    assert len(cases) == 8
    session = session_of(Program(functions=[case.function for case in cases]).build())
    for name in names:
        with pytest.raises(DeviceError, match="divides by zero"):
            session.call(name, (5, 0))
    assert session.call("div.i32.s", (-(1 << 31), -1)) == [-(1 << 31)]
    assert session.call("rem.i32.s", (-(1 << 31), -1)) == [0]
    assert session.call("div.i64.s", (-(1 << 63), -1)) == [-(1 << 63)]
    assert session.call("rem.i64.s", (-(1 << 63), -1)) == [0]


CALLS = [
    Function(
        name="outer",
        convention="0iII_IiI",
        body=[
            ("block", "start"),
            ("const.ref.rodata", b"12345", ref(0)),
            ("call", "inner", [0, 2, ref(0), 4], [6, 8, 10]),
            ("call.yieldable", "inner", [0, 2, ref(0), 4], "after", [6, 8, 10]),
            ("block", "after"),
            ("discard.refs", [ref(0)]),
            ("return", [6, 8, 10]),
        ],
    ),
    Function(
        name="inner",
        convention="0iIrI_IiI",
        body=[
            ("block", "start"),
            ("add.i64", 2, 4, 6),
            ("buffer.length", ref(0), 8),
            ("discard.refs", [ref(0)]),
            ("return", [6, 0, 8]),
        ],
    ),
]


def test_calls_put_arguments_where_their_widths_say(session_of) -> None:
    module = Program(functions=CALLS).build()
    case = Case(function=CALLS[0])
    for arguments in ((1, 1 << 40, 2), (-1, -5, -(1 << 50))):
        actual = session_of(module).call("outer", arguments)
        assert actual == [arguments[1] + arguments[2], arguments[0], 5]
        assert agree(case, actual, Reference(module).call(CALLS[0], arguments))


def test_a_reference_that_a_jump_marks_as_moved_can_be_read_again(session_of) -> None:
    """As iree-compile 3.13 writes it where a jump gives a value three times, once in its place."""
    function = Function(
        name="f",
        convention="0v_III",
        body=[
            ("block", "start"),
            ("const.ref.rodata", b"12345", ref(0)),
            ("br", "next", [(ref(0), ref(1)), (moved(0), ref(2))]),
            ("block", "next"),
            *(("buffer.length", ref(place), 2 * place) for place in range(3)),
            ("discard.refs", [ref(place) for place in range(3)]),
            ("return", [0, 2, 4]),
        ],
    )
    session = session_of(Program(functions=[function]).build())
    assert session.call("f", ()) == [5, 5, 5]


def test_waiting_and_breaking_go_on_at_their_target(session_of) -> None:
    for jump in (("yield",), ("break",), ("cond_break", 0)):
        function = Function(
            name="f",
            convention="0i_i",
            body=[
                ("block", "start"),
                (*jump, "end", [(0, 1)]),
                ("block", "end"),
                ("add.i32", 1, 1, 1),
                ("return", [1]),
            ],
        )
        assert session_of(Program(functions=[function]).build()).call("f", (21,)) == [42]


def test_an_optional_import_may_be_missing(session_of) -> None:
    here = Import(name="hal.devices.count", convention="0v_i", optional=True)
    gone = Import(name="hal.devices.forget", convention="0v_i", optional=True)
    function = Function(
        name="f",
        convention="0v_ii",
        body=[
            ("block", "start"),
            ("import.resolved", here, 0),
            ("import.resolved", gone, 1),
            ("return", [0, 1]),
        ],
    )
    assert session_of(Program(functions=[function]).build()).call("f") == [1, 0]
    calls = Function(
        name="g",
        convention="0v_i",
        body=[("block", "start"), ("call", gone, [], [0]), ("return", [0])],
    )
    session = session_of(Program(functions=[calls]).build())
    with pytest.raises(DeviceError, match=r"hal\.devices\.forget"):
        session.call("g")


def test_a_required_import_must_be_there(session_of) -> None:
    for name, reason in (("other.thing", "does not have"), ("hal.devices.count", "version")):
        missing = Import(name=name, convention="0I_i")
        function = Function(
            name="f",
            convention="0v_i",
            body=[("block", "start"), ("call", missing, [0], [0]), ("return", [0])],
        )
        with pytest.raises(ModuleError, match=reason):
            session_of(Program(functions=[function]).build())


def test_variadic_calls_gather_their_spans(session_of) -> None:
    """Fences are joined by a call with a span, and awaited by one that may yield."""
    plain = 0xFFFF
    function = Function(
        name="f",
        convention="0i_i",
        body=[
            ("block", "start"),
            ("const.i32.zero", 1),
            ("const.i64.zero", 2),
            ("call", DEVICE, [1], [ref(0)]),
            ("call", FENCE, [ref(0), 2], [ref(1)]),
            ("call", FENCE, [ref(0), 2], [ref(2)]),
            ("call", SIGNAL, [ref(1)], []),
            ("cond_br", 0, "both", [], "join", []),
            ("block", "both"),
            ("call", SIGNAL, [ref(2)], []),
            ("br", "join", []),
            ("block", "join"),
            ("call.variadic", JOIN, [plain, 2], [2, ref(1), ref(2)], [ref(3)]),
            (
                *("call.variadic.yieldable", AWAIT, [plain, plain, 1]),
                *([1, 2, ref(3)], "end", [4]),
            ),
            ("block", "end"),
            ("discard.refs", [ref(0), ref(1), ref(2), ref(3)]),
            ("return", [4]),
        ],
    )
    session = session_of(Program(functions=[function]).build())
    assert session.call("f", (1,)) == [0]
    assert session.call("f", (0,)) == [4]  # the deadline has passed


def test_a_failure_says_what_the_program_says(session_of) -> None:
    function = Function(
        name="f",
        convention="0i_v",
        body=[("block", "start"), ("fail", 0, "out of cheese"), ("block", "end"), ("return", [])],
    )
    session = session_of(Program(functions=[function]).build())
    assert session.call("f", (0,)) == []
    with pytest.raises(DeviceError, match="code 3: out of cheese"):
        session.call("f", (3,))


def test_every_instruction_was_reached() -> None:
    reached = {name for case in (*PURE, *HAND_MADE) for name in case.opcodes}
    reached |= {instruction[0] for function in CALLS for instruction in function.body}
    # In the tests above.
    reached |= {"yield", "break", "cond_break", "import.resolved", "call.variadic"}
    reached |= {"call.variadic.yieldable", "fail"}
    assert set(OPCODES) - reached == set()


# Limits: what a program may do wrong without harm.


@pytest.mark.parametrize(
    ("convention", "body", "arguments", "reason"),
    [
        ("0i_i", [("global.load.indirect.i32", 0, 0), ("return", [0])], (61,), "no global"),
        ("0i_i", [("global.load.indirect.i32", 0, 0), ("return", [0])], (-4,), "no global"),
        (
            "0i_v",
            [("global.load.indirect.ref", 0, "!vm.buffer", ref(0)), ("return", [])],
            (4,),
            "no global",
        ),
        (
            "0I_i",
            [
                ("const.ref.rodata", b"1234", ref(0)),
                ("buffer.load.i32", ref(0), 0, 2),
                ("return", [2]),
            ],
            (1,),
            "reaches",
        ),
        (
            "0I_i",
            [
                ("const.ref.rodata", b"1234", ref(0)),
                ("buffer.load.i32", ref(0), 0, 2),
                ("return", [2]),
            ],
            (1 << 62,),
            "reaches",
        ),
        (
            "0I_v",
            [
                ("const.ref.rodata", b"1234", ref(0)),
                ("buffer.store.i8", ref(0), 0, 2),
                ("return", []),
            ],
            (0,),
            "constant",
        ),
        ("0v_I", [("buffer.length", ref(0), 0), ("return", [0])], (), "null"),
        ("0v_i", [("list.size", ref(0), 0), ("return", [0])], (), "null"),
        (
            "0i_i",
            [("list.alloc", "i32", 0, ref(0)), ("list.get.i32", ref(0), 0, 0), ("return", [0])],
            (0,),
            "element 0",
        ),
        (
            "0v_v",
            [
                ("const.ref.rodata", b"1234", ref(0)),
                ("cast.any.ref", ref(0), "!vm.list<i32>", ref(1)),
                ("return", []),
            ],
            (),
            "something else",
        ),
        ("0I_v", [("buffer.alloc", 0, 2, ref(0)), ("return", [])], (-1,), "-1 bytes"),
        ("0I_v", [("buffer.alloc", 0, 2, ref(0)), ("return", [])], (1 << 62,), "memory"),
    ],
)
def test_reaching_outside_is_a_failure(convention, body, arguments, reason, session_of) -> None:
    function = Function(name="f", convention=convention, body=[("block", "start"), *body])
    session = session_of(Program(functions=[function]).build())
    with pytest.raises(DeviceError, match=reason):
        session.call("f", arguments)


def test_calls_without_end_are_a_failure(session_of) -> None:
    function = Function(
        name="f",
        convention="0v_v",
        body=[("block", "start"), ("call", "f", [], []), ("return", [])],
    )
    session = session_of(Program(functions=[function]).build())
    with pytest.raises(DeviceError, match="100 deep"):
        session.call("f")


def test_loops_without_end_can_be_stopped(session_of) -> None:
    function = Function(name="f", convention="0v_v", body=[("block", "start"), ("br", "start", [])])
    session = session_of(Program(functions=[function]).build(), max_steps=1000)
    with pytest.raises(DeviceError, match="1000 steps"):
        session.call("f")


def test_lists_within_lists_end_with_their_session(session_of) -> None:
    """A list that holds itself, and a chain far longer than the C stack is deep."""
    function = Function(
        name="f",
        convention="0i_i",
        body=[
            ("block", "start"),
            ("const.i32", 1, 1),
            ("const.i32.zero", 2),
            ("list.alloc", "!vm.opaque", 1, ref(0)),
            ("list.resize", ref(0), 1),
            ("list.set.ref", ref(0), 2, ref(0)),
            ("list.alloc", "!vm.opaque", 1, ref(1)),
            ("list.resize", ref(1), 1),
            ("br", "loop", []),
            ("block", "loop"),
            ("list.alloc", "!vm.opaque", 1, ref(2)),
            ("list.resize", ref(2), 1),
            ("list.set.ref", ref(2), 2, 0xC001),
            ("assign.ref", 0xC002, ref(1)),
            ("sub.i32", 0, 1, 0),
            ("cond_br", 0, "loop", [], "end", []),
            ("block", "end"),
            ("return", [0]),
        ],
    )
    session = session_of(Program(functions=[function]).build())
    assert session.call("f", (200_000,)) == [0]
    session.close()
