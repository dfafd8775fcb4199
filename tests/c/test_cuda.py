"""edgert's CUDA driver without a GPU: transfers, refusals and failures of every kind.

A library in place of NVIDIA's (`fake_cuda.c`) does the transfers and writes down the kernels.
"""

import ctypes
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgec import toolchain
from edgec.exporters import Bundle, Entry, export
from edgec.runtime.dtypes import DType
from edgec.runtime.edgert import (
    EdgertDevice,
    EdgertSession,
    EdgertTensor,
    Ran,
    device_names,
)
from edgec.runtime.errors import DeviceError, DeviceMissing, EdgecError, ModuleError, ModuleMismatch
from edgec.toolchain import CompileOptions
from tests.c.conftest import run
from tests.c.on_device import bare, opened, refusals
from tests.c.transfers import HOST_VISIBLE, TRANSFERS, all_transfers, leaves_and_finds
from tests.c.unruly import keeps_and_asks, keeps_refused_commands

HERE = Path(__file__).parent
PLAIN = """
func.func @main(%x: tensor<64x128xf32>, %y: tensor<128x32xf32>) -> tensor<64x32xf32> {
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]
    : (tensor<64x128xf32>, tensor<128x32xf32>) -> tensor<64x32xf32>
  %1 = stablehlo.exponential %0 : tensor<64x32xf32>
  return %1 : tensor<64x32xf32>
}
"""
LONG = """
func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
    : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = stablehlo.dot_general %0, %x, contracting_dims = [1] x [0]
    : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %2 = stablehlo.dot_general %1, %0, contracting_dims = [1] x [0]
    : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %3 = stablehlo.dot_general %2, %x, contracting_dims = [1] x [0]
    : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %3 : tensor<64x64xf32>
}
"""
X, Y = np.ones((64, 128), np.float32), np.ones((128, 32), np.float32)


@pytest.fixture(scope="module")
def fake(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The library, loaded, so that edgert finds it by its name."""
    path = tmp_path_factory.mktemp("fake") / "libcuda.so.1"
    run(
        *("cc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"),
        *("-Wl,-soname,libcuda.so.1", HERE / "fake_cuda.c", "-o", path),
    )
    return ctypes.CDLL(str(path))


@pytest.fixture
def say(fake: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """`say(fail=…)`: what the library is to do from now on; nothing is left in it at the end."""

    def tell(**settings: object) -> None:
        for name in ("FAIL", "AFTER", "RESULT", "BUSY", "DEVICES", "LAUNCHES", "EARLY", "GRAPHS"):
            monkeypatch.delenv(f"FAKE_{name}", raising=False)
        for name, value in settings.items():
            monkeypatch.setenv(f"FAKE_{name.upper()}", str(value))
        fake.fake_begin()

    tell()
    yield tell
    tell()
    assert fake.fake_live() == 0


@pytest.fixture
def gpu(say: Callable[..., None], library: object) -> Iterator[EdgertDevice]:
    device = EdgertDevice("cuda", library=library)
    yield device
    device.close()


@pytest.fixture(scope="module")
def plain(compile_text: Callable[..., Path]) -> Path:
    return compile_text(PLAIN, "cuda")


@pytest.fixture(scope="module")
def long(compile_text: Callable[..., Path]) -> Path:
    """A module of enough commands for a graph."""
    return compile_text(LONG, "cuda")


# --- memory ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("types", [0, HOST_VISIBLE])
def test_transfers_reach_every_byte_and_no_other(types: int, gpu: EdgertDevice) -> None:
    with closing(opened(gpu, all_transfers(types))) as session:
        for index, case in enumerate(TRANSFERS):
            assert session.call(f"f{index}") == case.expected(), case


@pytest.mark.parametrize("types", [0, HOST_VISIBLE])
def test_memory_that_another_session_left_holds_zeros(types: int, gpu: EdgertDevice) -> None:
    module = leaves_and_finds(types)
    with closing(opened(gpu, module)) as one, closing(opened(gpu, module)) as other:
        for _ in range(3):
            one.call("leave")
            assert other.call("find") == [0]


def test_large_arrays_go_in_pieces(gpu: EdgertDevice, say: Callable[..., None]) -> None:
    """More than what is carried through the host's memory at once, in and out."""
    x = np.arange(5000001, dtype=np.int32)
    say(busy=2)
    with closing(EdgertTensor.copy(gpu, x, DType.of(x.dtype))) as tensor:
        np.testing.assert_array_equal(tensor.read(DType.of(x.dtype)), x)


# --- kernels --------------------------------------------------------------------------------------


def test_kernels_get_their_bindings_and_then_their_constants(
    gpu: EdgertDevice, say: Callable[..., None], plain: Path, tmp_path: Path
) -> None:
    """What the file says of each kernel, beside what its own code declares."""
    say(launches=tmp_path / "launches")
    with closing(opened(gpu, plain)) as session:
        _call(session)
    text = plain.read_bytes().decode("latin1")
    lines = [line.split() for line in (tmp_path / "launches").read_text().splitlines()]
    assert len(lines) >= 2
    constants = []
    for name, grid, block, _, *parameters in lines:
        entry = text[text.index(f".entry {name}(") :]
        declared = re.findall(r"\.param \.\w(\d+)", entry[: entry.index(")")])
        assert ["p" if bits == "64" else "u" for bits in declared] == [
            "p" if each == "p" else "u" for each in parameters
        ]
        limits = re.search(r"\.(?:req|max)ntid (\d+)(?:, (\d+))?(?:, (\d+))?", entry)
        assert limits
        assert [int(size) for size in block.split(",")] == [int(n or 1) for n in limits.groups()]
        assert all(int(count) > 0 for count in grid.split(","))
        constants += [int(each) for each in parameters if each != "p"]
    assert {64, 128, 32} <= set(constants)


def test_the_app_is_told_what_each_kernel_takes(
    say: Callable[..., None], library: object, plain: Path, tmp_path: Path
) -> None:
    say(launches=tmp_path / "launches")
    ran: list[Ran] = []
    device = EdgertDevice("cuda", library=library, timed=ran.append)
    with closing(device), closing(opened(device, plain)) as session:
        _call(session)
    names = [line.split()[0] for line in (tmp_path / "launches").read_text().splitlines()]
    assert [each.kernel for each in ran if each.kernel not in ("copy", "fill", "update")] == names
    assert all(each.seconds == pytest.approx(1e-6) for each in ran)


@pytest.mark.parametrize(
    ("old", "new", "error", "reason"),
    [
        (rb"CDA1\0\0\0\0", b"CDA1\1\0\0\0", ModuleMismatch, "another version"),
        (rb"\.version", b"\x7fversion", ModuleError, "holds no PTX"),
        (rb"\.version", b".verison", ModuleMismatch, "error 218: ptxas fatal: no .version"),
        (rb"\.entry ", b".enter ", ModuleError, "failed with an unknown error"),
    ],
)
def test_kernels_that_the_device_cannot_run_are_refused(
    old: bytes,
    new: bytes,
    error: type[Exception],
    reason: str,
    gpu: EdgertDevice,
    plain: Path,
) -> None:
    data = bare(plain)
    changed = re.sub(old, lambda _: new, data)
    assert changed != data
    assert len(changed) == len(data)
    opened(gpu, data).close()
    with pytest.raises(error, match=reason):
        opened(gpu, changed)


def test_a_damaged_executable_is_a_status(gpu: EdgertDevice, plain: Path) -> None:
    """Its tables: the PTX in them is code, which is trusted as machine code is."""
    data = bare(plain)
    start = data.rindex(b"CDA1\0\0\0\0") + 64
    end = start + int.from_bytes(data[start - 56 : start - 48], "little")
    code = re.compile(rb"[\t\n\r -~]{400,}").search(data, start, end)
    assert code
    places = [*range(start, code.start()), *range(code.end(), end)]
    assert refusals(gpu, data, places) > len(places) / 4


# --- devices --------------------------------------------------------------------------------------


def test_devices_are_listed(gpu: EdgertDevice, say: Callable[..., None]) -> None:
    assert device_names("cuda", library=gpu.library) == ("Paper 0", "Paper 1")
    other = EdgertDevice("cuda", index=1, library=gpu.library)
    assert (gpu.name, other.name) == ("Paper 0", "Paper 1")
    assert gpu.identity != other.identity
    assert not gpu.maps_memory
    other.close()
    with pytest.raises(DeviceMissing, match="has 2 devices here"):
        EdgertDevice("cuda", index=2, library=gpu.library)
    say(devices=0)
    with pytest.raises(DeviceMissing, match="finds no GPU"):
        EdgertDevice("cuda", library=gpu.library)
    assert device_names("cuda", library=gpu.library) == ()


def test_modules_run_on_edgert_where_no_device_is_named(fake: ctypes.CDLL, plain: Path) -> None:
    """`cuda://0` is IREE's driver, which looks for CUDA under another name and finds none here."""
    told = run(
        *(sys.executable, "-c", LOADS, plain),
        env=os.environ | {"LD_LIBRARY_PATH": str(Path(fake._name).parent)},
    )
    assert told.splitlines() == ["edgert://cuda", "edgert://cuda", "edgert://cuda/1", "cuda://0 no"]


LOADS = """
import sys
from edgec import runtime
from edgec.runtime.errors import DeviceMissing
for device in (None, "cuda", "edgert://cuda/1", "cuda://0"):
    try:
        print(runtime.load(sys.argv[1], device=device).device.uri)
    except DeviceMissing:
        print(device, "no")
"""


def test_a_call_that_takes_too_long_ends(
    gpu: EdgertDevice, say: Callable[..., None], plain: Path
) -> None:
    with closing(opened(gpu, plain, max_milliseconds=20)) as session:
        say(busy=1_000_000_000)
        with pytest.raises(EdgecError, match="took longer than it may"):
            _call(session)
        say()
        _call(session)


def test_a_call_is_interrupted(gpu: EdgertDevice, say: Callable[..., None], plain: Path) -> None:
    with closing(opened(gpu, plain)) as session:
        say(busy=1_000_000_000)
        arguments = [EdgertTensor.copy(gpu, array, DType.F32) for array in (X, Y)]
        call = session.begin("main", arguments)
        with pytest.raises(DeviceError, match="timed out"):
            call.wait(0.02)
        session.interrupt()
        with pytest.raises(DeviceError, match="cancelled: the call was interrupted"):
            call.wait(60)
        say()
        for argument in arguments:
            argument.close()
        _call(session)


def test_a_dispatch_that_was_refused_does_not_run_later(
    gpu: EdgertDevice, plain: Path, tmp_path: Path, say: Callable[..., None]
) -> None:
    data = bare(plain)
    start = data.rindex(b"CDA1\0\0\0\0")
    executable = data[start : start + 64 + int.from_bytes(data[start + 8 : start + 16], "little")]
    launches = tmp_path / "launches"
    say(launches=launches)
    module = keeps_refused_commands(b"cuda-nvptx-fb", executable)
    with closing(opened(gpu, module)) as session:
        for _ in range(2):
            with pytest.raises(DeviceError, match="there is no kernel 1048576"):
                session.call("record")
        assert session.call("replay") == []
    assert not launches.exists()


def test_a_session_holds_no_more_than_it_may(gpu: EdgertDevice) -> None:
    with closing(opened(gpu, keeps_and_asks(4096, 1 << 20), max_memory=1 << 20)) as session:
        session.call("drop")  # the interpreter's stack stays
        before, _ = session.memory()
        session.call("keep")
        assert 4096 <= session.memory()[0] - before < 8192
        with pytest.raises(DeviceError, match="beyond the session's 1048576"):
            session.call("ask")
        session.call("drop")
        assert session.memory()[0] == before


def _call(session: EdgertSession) -> object:
    return session.call("main", [X, Y])


@pytest.mark.parametrize(
    ("function", "result", "said"),
    [
        ("cuLaunchKernel", 700, r"was lost with CUDA_ERROR_ILLEGAL_ADDRESS \(700\): \w+"),
        ("cuEventQuery", 719, "was lost"),
        ("cuEventRecord", 214, "was lost"),
        ("cuCtxPushCurrent_v2", 201, "was lost"),
        ("cuMemcpyAsync", 1, "failed with an unknown error"),
        ("cuMemAlloc_v2", 2, "has no memory for 32768 bytes"),
        ("cuMemHostAlloc", 2, "has no memory for 65536 bytes of the host's"),
        ("cuMemHostGetDevicePointer_v2", 2, "of the host's"),
        ("cuModuleLoadDataEx", 2, "no memory: compiling kernels"),
        ("cuModuleGetFunction", 2, "no memory"),
        ("cuFuncSetAttribute", 2, "no memory"),
        ("cuStreamCreate", 2, "no memory: making a stream"),
        ("cuEventCreate", 2, "no memory: submitting"),
        ("cuDevicePrimaryCtxRetain", 2, "no memory: opening it"),
        ("cuDeviceTotalMem_v2", 999, "does not tell of device 0"),
    ],
)
def test_a_failure_of_cudas_is_a_status_after_which_another_device_works(
    function: str,
    result: int,
    said: str,
    say: Callable[..., None],
    library: object,
    plain: Path,
) -> None:
    say(fail=function, result=result)
    with ExitStack() as held, pytest.raises(EdgecError, match=said):
        device = held.enter_context(closing(EdgertDevice("cuda", library=library)))
        _call(held.enter_context(closing(opened(device, plain))))
    say()
    with (
        closing(EdgertDevice("cuda", library=library)) as device,
        closing(opened(device, plain)) as session,
    ):
        _call(session)


def test_a_device_that_failed_once_goes_on_and_one_that_was_lost_does_not(
    gpu: EdgertDevice, say: Callable[..., None], plain: Path
) -> None:
    with closing(opened(gpu, plain)) as session:
        _call(session)
        say(fail="cuMemHostAlloc", result=2)  # what it keeps is given back, and it asks again
        large = np.ones(1 << 18, np.float32)
        EdgertTensor.copy(gpu, large, DType.of(large.dtype)).close()
        say(fail="cuMemcpyAsync", result=1)
        with pytest.raises(DeviceError, match="failed with an unknown error"):
            _call(session)
        _call(session)
        say(fail="cuLaunchKernel", result=719)
        for _ in range(3):
            with pytest.raises(DeviceError, match="was lost"):
                _call(session)
            say()


# --- graphs ---------------------------------------------------------------------------------------


class Watched:
    """What calls of a session launched, and what became of graphs meanwhile."""

    def __init__(self, session: EdgertSession, folder: Path) -> None:
        self._session, self._folder = session, folder
        self.files = {name: folder / name for name in ("launches", "graphs")}

    def call(self) -> tuple[list[str], list[str]]:
        """Of one call: kernels' lines, in order, and graphs made, changed and launched."""
        for file in self.files.values():
            file.write_text("")
        self._session.call("main", [np.ones((64, 64), np.float32)])
        launches, graphs = (file.read_text().splitlines() for file in self.files.values())
        return launches, graphs


@pytest.fixture
def watched(gpu: EdgertDevice, long: Path, tmp_path: Path) -> Iterator[Watched]:
    with closing(opened(gpu, long)) as session:
        yield Watched(session, tmp_path)


def test_commands_that_run_again_are_replayed(watched: Watched, say: Callable[..., None]) -> None:
    say(**watched.files)
    first, graphs = watched.call()
    assert len(first) == 4
    assert graphs == []
    calls = [watched.call() for _ in range(8)]
    assert [launches for launches, _ in calls] == [first] * 8
    assert calls[0][1] == ["made", "launched"]
    assert calls[-1][1] == ["launched"]


def test_results_that_are_held_have_graphs_of_their_own_and_then_share(
    gpu: EdgertDevice, long: Path, say: Callable[..., None], tmp_path: Path
) -> None:
    """Each result has another place, so that a graph is for that; the seventh takes one over."""
    say(graphs=tmp_path / "graphs", launches=tmp_path / "launches")
    x = np.ones((64, 64), np.float32)
    with ExitStack() as held, closing(opened(gpu, long)) as session:
        tensor = held.enter_context(closing(EdgertTensor.copy(gpu, x, DType.of(x.dtype))))
        for _ in range(9):
            (made,) = session.run("main", [tensor])
            held.enter_context(closing(made))
    told = (tmp_path / "graphs").read_text().split()
    assert told.count("made") == 6
    assert told.count("changed") == 2
    assert told.count("launched") == 8
    lines = (tmp_path / "launches").read_text().splitlines()
    assert lines == lines[:4] * 9


@pytest.mark.parametrize(
    ("function", "after"),
    [
        ("cuStreamCreate", 0),
        ("cuStreamBeginCapture_v2", 0),
        ("cuStreamEndCapture", 0),
        ("cuGraphInstantiateWithFlags", 0),
        *(("cuLaunchKernel", n) for n in range(4)),
    ],
)
@pytest.mark.parametrize("result", [1, 2])
def test_commands_that_no_graph_is_made_of_are_launched(
    function: str, after: int, result: int, watched: Watched, say: Callable[..., None]
) -> None:
    say(**watched.files)
    first, _ = watched.call()
    say(**watched.files, fail=function, after=after, result=result)
    for _ in range(3):
        launches, graphs = watched.call()
        assert (launches, graphs) == (first, [])


def test_a_graph_that_cannot_be_changed_is_made_anew(
    gpu: EdgertDevice, long: Path, say: Callable[..., None], tmp_path: Path
) -> None:
    say(graphs=tmp_path / "graphs", fail="cuGraphExecUpdate", result=1)
    x = np.ones((64, 64), np.float32)
    with ExitStack() as held, closing(opened(gpu, long)) as session:
        tensor = held.enter_context(closing(EdgertTensor.copy(gpu, x, DType.of(x.dtype))))
        for _ in range(8):
            (made,) = session.run("main", [tensor])
            held.enter_context(closing(made))
    assert (tmp_path / "graphs").read_text().split().count("made") == 7


@pytest.mark.parametrize(
    ("result", "said"), [(1, "failed with an unknown error.*replaying"), (719, "was lost")]
)
def test_a_graph_that_is_not_launched_is_a_failure(
    result: int, said: str, watched: Watched, say: Callable[..., None]
) -> None:
    say(**watched.files)
    watched.call()
    say(**watched.files, fail="cuGraphLaunch", result=result)
    with pytest.raises(DeviceError, match=said):
        watched.call()
    say(**watched.files)
    if result == 719:
        with pytest.raises(DeviceError, match=said):
            watched.call()
    else:
        assert watched.call()[1] == ["launched"]


def test_a_driver_without_graphs_launches(tmp_path: Path, long: Path, library: object) -> None:
    """In a process of its own: two libraries of one name are one."""
    folder = tmp_path / "old"
    folder.mkdir()
    run(
        *("cc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-DFAKE_OLD"),
        *("-Wl,-soname,libcuda.so.1", HERE / "fake_cuda.c", "-o", folder / "libcuda.so.1"),
    )
    told = run(
        *(sys.executable, "-c", CALLS, long),
        env=os.environ
        | {"LD_LIBRARY_PATH": str(folder), "FAKE_LAUNCHES": str(tmp_path / "launches")},
    )
    assert told.split() == ["edgert://cuda"]
    lines = (tmp_path / "launches").read_text().splitlines()
    assert lines == lines[:4] * 3


CALLS = """
import sys
import numpy as np
from edgec import runtime
with runtime.load(sys.argv[1], device="edgert://cuda") as module:
    print(module.device.uri)
    for _ in range(3):
        module["main"](np.ones((64, 64), np.float32))
"""


def test_a_program_that_counts_and_remembers_is_one_graph_a_call(
    gpu: EdgertDevice, say: Callable[..., None], tmp_path: Path
) -> None:
    """As a language model's token: a place that the device counts, caches, numbers kept if asked.

    Nothing of it is read back by the host, and no state goes elsewhere, so that the commands of a
    call are made once.
    """
    pytest.importorskip("triton")
    import jax
    import jax.numpy as jnp

    state = {
        "place": np.int32(0),
        "keys": np.zeros((3, 90, 16), np.float32),
        "values": np.zeros((3, 90, 16), np.float32),
        "last": np.zeros(300, np.float32),
    }

    def step(state: Any, x: Any) -> Any:
        place, write = state["place"], jax.lax.dynamic_update_slice
        keys = write(state["keys"], jnp.tanh(x), (0, place, 0))
        values = write(state["values"], jnp.exp(x), (0, place, 0))
        made = (keys + values).sum((0, 2)) @ jnp.ones((90, 300))
        fits = place < 90
        last = jnp.where(fits, made, state["last"])
        after = {"place": jnp.minimum(place + 1, 90), "keys": keys, "values": values, "last": last}
        return after, jnp.argmax(last)

    entry = Entry(step, (np.ones((3, 1, 16), np.float32),), name="step", updates_state=True)
    program = export(Bundle((entry,), state=state))
    path = tmp_path / "step.vmfb"
    toolchain.compile(program, "cuda:sm_90", CompileOptions(output=path, check=False))
    files = {name: tmp_path / name for name in ("launches", "graphs")}
    say(**files)
    found = []
    with closing(opened(gpu, path)) as session:
        for _ in range(6):
            for file in files.values():
                file.write_text("")
            session.call("step", [np.ones((3, 1, 16), np.float32)])
            found.append([file.read_text().splitlines() for file in files.values()])
    assert len(found[0][0]) > 4
    assert [launches for launches, _ in found] == [found[0][0]] * 6
    assert [graphs for _, graphs in found[2:]] == [["launched"]] * 4


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A module of kernels that wait by themselves, between others."""
    pytest.importorskip("triton")
    import jax
    import jax.numpy as jnp

    def put(cache: Any, new: Any, at: Any) -> Any:
        changed = jax.lax.dynamic_update_slice(cache, jnp.cumsum(new, 2), (0, at + 1, 0))
        return jnp.cumsum(changed, 2)

    example = (np.ones((3, 90, 16), np.float32), np.ones((3, 1, 16), np.float32), np.int32(2))
    path = tmp_path_factory.mktemp("waiting") / "put.vmfb"
    toolchain.compile(export(put, example), "cuda:sm_90", CompileOptions(output=path, check=False))
    return path


def test_kernels_that_wait_by_themselves_begin_early(
    waiting: Path,
    gpu: EdgertDevice,
    library: object,
    say: Callable[..., None],
    tmp_path: Path,
) -> None:
    """Those whose own code waits, behind other kernels; not behind a copy, or if each is timed."""
    early, launches = tmp_path / "early", tmp_path / "launches"
    say(early=early, launches=launches)
    inputs = [
        np.ones((3, 90, 16), np.float32),
        np.ones((3, 1, 16), np.float32),
        np.array(2, np.int32),
    ]
    with closing(opened(gpu, waiting)) as session:
        session.call("main", inputs)
    entries = waiting.read_bytes().decode("latin-1").split(".entry ")[1:]
    waits = {each.split("(")[0] for each in entries if "griddepcontrol.wait" in each}
    names = [line.split()[0] for line in launches.read_text().splitlines()]
    assert waits
    assert set(names) - waits
    assert early.read_text().splitlines() == [name for name in names[1:] if name in waits]
    with closing(EdgertDevice("cuda", library=library, timed=lambda _: None)) as timed:
        early.write_text("")
        with closing(opened(timed, waiting)) as session:
            session.call("main", inputs)
        assert early.read_text() == ""
