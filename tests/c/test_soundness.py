"""Whatever a file holds and whenever memory runs out: a status, no crash, nothing leaked."""

import re
import signal
import struct
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgec.runtime.edgert import EdgertDevice, EdgertModule, EdgertSession
from edgec.runtime.errors import DeviceError, DeviceMissing, InputError, ModuleError, ModuleMismatch
from tests.c.bytecode import Function, Program, ref
from tests.c.conftest import SOURCE, run
from tests.c.programs import PROGRAMS
from tests.c.vm_programs import HAND_MADE, pure_cases

HERE = Path(__file__).parent
TORTURE = HERE / "torture.c"


OVERWRITING = """
func.func @main(%p: tensor<8x4xf32>, %q: tensor<8x4xf32>, %row: tensor<1x4xf32>)
    -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %at = stablehlo.constant dense<2> : tensor<i32>
  %r = stablehlo.dynamic_update_slice %p, %row, %at, %at
    : (tensor<8x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<8x4xf32>
  %s = stablehlo.subtract %q, %p : tensor<8x4xf32>
  return %r, %s : tensor<8x4xf32>, tensor<8x4xf32>
}
"""
"""Both results lie where arguments do."""


@pytest.fixture(scope="session")
def torture(build: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program `torture.c`, with AddressSanitizer and UndefinedBehaviorSanitizer."""
    folder = build("vulkan")
    program = tmp_path_factory.mktemp("torture") / "torture"
    run(
        *("cc", "-std=c11", "-g", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror"),
        *("-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
        *(f"-I{SOURCE / 'include'}", TORTURE, folder / "libedgert.a", "-lm", "-lpthread"),
        *("-o", program),
    )
    return program


@pytest.fixture(scope="session")
def modules(
    compile_text: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """Modules of every kind: compiled ones, and hand-made byte code of all instructions."""
    folder = tmp_path_factory.mktemp("victims")
    found = {
        program.name: compile_text(program.text)
        for program in PROGRAMS
        if program.name in ("control", "state")
    }
    found["overwriting"] = compile_text(OVERWRITING, donated={0: 0, 1: 1})
    for name, cases in (("hand", HAND_MADE), ("pure", tuple(pure_cases()))):
        found[name] = folder / f"{name}.vmfb"
        found[name].write_bytes(Program(functions=[case.function for case in cases]).build())
    return found


NAMES = ["control", "state", "overwriting", "hand", "pure"]


@pytest.mark.parametrize("name", NAMES)
def test_every_allocation_may_fail(name: str, torture: Path, modules: dict[str, Path]) -> None:
    print(run(torture, "allocations", modules[name]))


@pytest.mark.parametrize("name", NAMES)
def test_a_file_may_end_anywhere(name: str, torture: Path, modules: dict[str, Path]) -> None:
    print(run(torture, "truncations", modules[name]))


@pytest.mark.parametrize("name", NAMES)
def test_any_bytes_may_be_wrong(name: str, torture: Path, modules: dict[str, Path]) -> None:
    print(run(torture, "flips", modules[name], "10000"))


@pytest.fixture
def load(library: object) -> Callable[[bytes], EdgertModule]:
    return lambda data: EdgertModule(data, library=library)


def _program(*body: tuple[object, ...], convention: str = "0v_v", **changes: object) -> bytes:
    function = Function(name="f", convention=convention, body=body)
    for name in ("words", "refs"):
        if name in changes:
            setattr(function, name, changes.pop(name))
    return Program(functions=[function], **changes).build()


BLOCK = ("block", "start")
END = ("return", [])


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ([BLOCK, ("bytes", b"\x9f"), END], "no such instruction"),
        ([BLOCK, ("bytes", b"\xe0\x7f"), END], "no such instruction"),
        ([BLOCK, ("bytes", b"\xe0")], "cut short"),
        ([BLOCK, ("const.i32.zero", 32), END], "register does not exist"),
        ([BLOCK, ("const.i64.zero", 31), END], "register does not exist"),
        ([BLOCK, ("const.i64.zero", 3), END], "pair is odd"),
        ([BLOCK, ("const.i32.zero", ref(0)), END], "register does not exist"),
        ([BLOCK, ("const.ref.zero", 0), END], "reference register"),
        ([BLOCK, ("const.ref.zero", ref(8)), END], "reference register"),
        ([BLOCK, ("global.load.i32", 61, 0), END], "global lies outside"),
        ([BLOCK, ("global.load.i64", 57, 0), END], "global lies outside"),
        ([BLOCK, ("global.load.ref", 4, 0, ref(0)), END], "global reference"),
        ([BLOCK, ("const.ref.rodata", 5, ref(0)), END], "constant does not exist"),
        ([BLOCK, ("cast.any.ref", ref(0), 9, ref(0)), END], "type does not exist"),
        ([BLOCK, ("call", 7, [], []), END], "does not exist"),
        ([BLOCK, ("call", 0x80000000, [], []), END], "does not exist"),
        ([BLOCK, ("call", "f", [0], []), END], "does not fit"),
        ([BLOCK, ("call", "f", [], [0]), END], "does not fit"),
        ([BLOCK, ("call.variadic", "f", [], [], []), END], "does not fit"),
        ([BLOCK, ("return", [0])], "does not fit"),
        ([BLOCK, ("br", 1, [])], "no block"),
        ([BLOCK, ("br", 1000, [])], "no block"),
        ([BLOCK, ("br", "start", [(0, 32)])], "register does not exist"),
        ([BLOCK, ("br", "start", [(ref(0), ref(9))])], "reference register"),
        ([BLOCK, ("br_table", 0, "start", [], [(3, [])])], "no block"),
        ([BLOCK, ("const.i32.zero", 0)], "does not end"),
        ([BLOCK, ("block", "next"), END], "block does not end"),
        ([BLOCK, END, END], "in no block"),
        ([END], "counts are impossible"),
        ([BLOCK, ("discard.refs", [0]), END], "reference register"),
        ([BLOCK, ("trace", "", [0x7FFF]), END], "register does not exist"),
        ([BLOCK, ("bytes", b"\x5e\xff\xff"), END], "cut short"),
    ],
)
def test_byte_code_is_verified(body: list, reason: str, load: Callable) -> None:
    with pytest.raises(ModuleError, match=reason):
        load(_program(*body))


def test_a_function_has_room_for_its_arguments(load: Callable) -> None:
    with pytest.raises(ModuleError, match="fewer registers"):
        load(_program(BLOCK, END, convention="0iI_v", words=3))
    with pytest.raises(ModuleError, match="fewer registers"):
        load(_program(BLOCK, END, convention="0rr_v", refs=1))


def test_another_version_is_refused(load: Callable) -> None:
    for version in (16 << 16, 18 << 16, 17 << 16 | 1):
        with pytest.raises(ModuleError, match="byte code"):
            load(_program(BLOCK, END, version=version))


def test_what_is_no_module_is_refused(load: Callable, tmp_path: Path, library: object) -> None:
    for data in (b"", b"PK\3\4", b"\0" * 100, b"hello" * 50):
        with pytest.raises(ModuleError, match=r"no module|cut short"):
            load(data)
    (tmp_path / "empty").touch()
    for path in (tmp_path, tmp_path / "missing", tmp_path / "empty"):
        with pytest.raises(ModuleError):
            EdgertModule(path, library=library)


def test_wrong_arguments_are_refused(library: object, compile_text: Callable[..., Path]) -> None:
    program = next(program for program in PROGRAMS if program.name == "control")
    module = EdgertModule(compile_text(program.text), library=library)
    session = EdgertSession(module, EdgertDevice(threads=1, library=library))
    good = np.zeros(16, np.float32)
    with pytest.raises(DeviceError, match="takes 1 arguments"):
        session.call("pair", [])
    with pytest.raises(DeviceError, match="takes 1 arguments"):
        session.call("pair", [good, good])
    with pytest.raises(DeviceError, match="takes 16xf32 and was given 15xf32"):
        session.call("pair", [good[:15]])
    with pytest.raises(DeviceError, match="takes 16xf32 and was given 16xf64"):
        session.call("pair", [good.astype(np.float64)])
    with pytest.raises(DeviceError, match="takes 16xf32 and was given 4x4xf32"):
        session.call("pair", [good.reshape(4, 4)])
    with pytest.raises(InputError):
        session.call("pair", [1.0])
    with pytest.raises(KeyError):
        session.call("other", [good])
    np.testing.assert_array_equal(session.call("pair", [good])[0], good)


def test_signals_are_left_to_the_apps_threads(library: object) -> None:
    """But for those that say what a thread itself did wrong, and a profiler's."""
    before = {*Path("/proc/self/task").iterdir()}
    device = EdgertDevice(threads=3, library=library)
    started = {*Path("/proc/self/task").iterdir()} - before
    assert len(started) == 2
    own = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP}
    own |= {signal.SIGABRT, signal.SIGSYS, signal.SIGPROF, signal.SIGKILL, signal.SIGSTOP}
    expected, end = {*range(1, 32)} - own, time.monotonic() + 10
    while {_blocked(task) == expected for task in started} != {True}:
        assert time.monotonic() < end, [_blocked(task) for task in started]
        time.sleep(0.01)  # glibc blocks all of them while a thread begins
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()
    device.close()


def _blocked(task: Path) -> set[int]:
    (line,) = re.findall(r"^SigBlk:\s*(\w+)$", (task / "status").read_text(), re.MULTILINE)
    return {number for number in range(1, 32) if int(line, 16) >> (number - 1) & 1}


COUNTED = """
#include "../../runtime/c/src/object.h"
#include "edgert/edgert.h"

static void *watched;
static int destroyed;
static edgert_allocator whole;
static void *allocate(void *user, size_t size, size_t alignment) {
  return whole.allocate(user, size, alignment);
}
static void release(void *user, void *memory) {
  destroyed += memory == watched;
  whole.release(user, memory);
}

int main(void) {
  edgert_device *device;
  if (edgert_device_create("null", 0, &device, 0) != EDGERT_OK) return 1;
  whole = ((edgert_object *)device)->allocator;
  const edgert_allocator counting = {whole.user, allocate, release};
  void *object;
  if (edgert_object_create(&counting, EDGERT_KIND_FENCE, sizeof(edgert_object), &object, 0))
    return 2;
  watched = object;
  ((edgert_object *)object)->references = UINT32_MAX; /* as if retained so often */
  edgert_retain(object);
  edgert_retain(object);
  edgert_release(object);
  if (destroyed) return 3;
  ((edgert_object *)object)->references = 1;
  edgert_release(object);
  edgert_device_release(device);
  return destroyed == 1 ? 0 : 4;
}
"""


def test_an_object_that_is_held_four_billion_times_stays(
    build: Callable[[str], Path], tmp_path: Path
) -> None:
    (tmp_path / "counted.c").write_text(COUNTED.replace("../..", str(SOURCE.parents[1])))
    run(
        *("cc", "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{SOURCE / 'include'}"),
        *("-fsanitize=address,undefined", tmp_path / "counted.c"),
        *(build("vulkan") / "libedgert.a", "-lm", "-lpthread", "-o", tmp_path / "counted"),
    )
    run(tmp_path / "counted")


def test_a_device_must_exist(library: object) -> None:
    with pytest.raises(DeviceMissing, match="no driver 'tpu'"):
        EdgertDevice("tpu", library=library)


@pytest.mark.parametrize(
    ("target", "holds"), [("cpu:arm64", "embedded-elf-arm_64"), ("vulkan", "vulkan")]
)
def test_a_module_for_another_machine_is_refused(
    target: str, holds: str, library: object, compile_text: Callable[..., Path]
) -> None:
    """As unsupported, not as a program that failed: by what it holds and what this machine is."""
    program = next(program for program in PROGRAMS if program.name == "state")
    module = EdgertModule(compile_text(program.text, target), library=library)
    sentence = f"'{holds}.*', and this machine .* runs 'embedded-elf-x86_64'"
    with pytest.raises(ModuleMismatch, match=sentence):
        EdgertSession(module, EdgertDevice(library=library))


def test_a_module_for_a_better_processor_is_refused(
    library: object, compile_text: Callable[..., Path]
) -> None:
    """The list of features in the module is what counts, so one that nobody has is put there."""
    program = next(program for program in PROGRAMS if program.name == "state")
    data = compile_text(program.text, "cpu:x86-64-v2").read_bytes()
    assert data.count(b'"ssse3"') == 1
    EdgertSession(EdgertModule(data, library=library), EdgertDevice(library=library))
    better = data.replace(b'"ssse3"', b'"fma4" ')
    with pytest.raises(ModuleError, match="a processor with fma4"):
        EdgertSession(EdgertModule(better, library=library), EdgertDevice(library=library))


def test_an_executable_is_checked_before_it_runs(
    library: object, compile_text: Callable[..., Path]
) -> None:
    program = next(program for program in PROGRAMS if program.name == "state")
    data = bytearray(compile_text(program.text).read_bytes())
    start = data.find(b"\x7fELF")
    assert start > 0
    device = EdgertDevice(library=library)

    def with_change(offset: int, value: bytes) -> EdgertSession:
        changed = bytearray(data)
        changed[start + offset : start + offset + len(value)] = value
        return EdgertSession(EdgertModule(bytes(changed), library=library), device)

    for offset, value in (
        (4, b"\1"),  # another class
        (18, struct.pack("<H", 40)),  # another machine
        (16, struct.pack("<H", 2)),  # no shared object
        (32, struct.pack("<Q", 1 << 40)),  # segments outside
        (54, struct.pack("<H", 8)),  # segments of another size
        (56, struct.pack("<H", 0xFFFF)),  # too many of them
    ):
        with pytest.raises(ModuleError, match="executable"):
            with_change(offset, value)
