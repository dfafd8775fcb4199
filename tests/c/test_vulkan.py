"""edgert's Vulkan driver: the bits of IREE's, transfers of every kind, failures of every kind.

All runs on Mesa's software device. What GPUs with memory of their own do is compiled to be done
on it, too, and a library between edgert and Vulkan makes older devices and failures of it.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from edgec import runtime
from edgec.runtime.dtypes import DType
from edgec.runtime.edgert import (
    EdgertDevice,
    EdgertTensor,
    Ran,
    device_names,
    open_library,
)
from edgec.runtime.errors import DeviceError, DeviceMissing, ModuleError, ModuleMismatch
from edgec.toolchain.spirv_words import operations
from tests.c.conftest import SOURCE, run
from tests.c.on_device import bare, opened, refusals
from tests.c.programs import PROGRAMS, Program
from tests.c.shim import behind, built
from tests.c.transfers import TRANSFERS, all_transfers, leaves_and_finds
from tests.c.unruly import keeps_and_asks, keeps_refused_commands

HERE = Path(__file__).parent
API = SOURCE / "src" / "drivers" / "vulkan" / "api.h"
STRICT = ("-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror")

pytestmark = pytest.mark.vulkan


@pytest.fixture(scope="session")
def far_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """edgert that takes every device's memory for its own, unseen by the host."""
    folder = tmp_path_factory.mktemp("far")
    run(sys.executable, SOURCE / "amalgamate.py", folder)
    run(
        *("cc", "-O1", *STRICT, "-shared", "-fPIC", "-DEDGERT_BUILDING", "-DEDGERT_SHARED"),
        *("-DEDGERT_WITH_VULKAN=1", "-DEDGERT_WITH_PLACES=1"),
        *("-DVULKAN_MAY_SHARE=0", folder / "edgert.c"),
        *("-lm", "-lpthread", "-ldl", "-o", folder / "libedgert.so"),
    )
    return folder / "libedgert.so"


@pytest.fixture(scope="session")
def far_library(far_path: Path) -> object:
    """The same, opened."""
    return open_library(far_path)


@pytest.fixture(params=["shared", "far"])
def gpu(request: pytest.FixtureRequest, library: object, far_library: object) -> EdgertDevice:
    """The first Vulkan device: its memory is the host's, or it is taken for its own."""
    try:
        return EdgertDevice("vulkan", library=library if request.param == "shared" else far_library)
    except DeviceMissing as error:
        if os.environ.get("CI"):
            pytest.fail(error.what)
        pytest.skip(error.what)


# --- answers --------------------------------------------------------------------------------------

# Programs that IREE's driver runs, too: it refuses kernels on empty tensors.
COMPARED = [
    program for program in PROGRAMS if program.name in ("softmax", "layers", "rows", "state")
]


@pytest.mark.sweep(fast=3)
@pytest.mark.parametrize("program", COMPARED, ids=lambda program: program.name)
def test_the_bits_are_those_of_the_reference(
    program: Program,
    gpu: EdgertDevice,
    compile_text: Callable[..., Path],
    same_bits: Callable[[np.ndarray, np.ndarray], bool],
) -> None:
    path = compile_text(program.text, "vulkan")
    session = opened(gpu, path)
    with runtime.load(path, device="vulkan") as loaded:
        for call in program.calls:
            outputs = loaded[call.function].call_flat(call.arguments)
            # Again and again, with results that are held: other memory, and commands replayed.
            kept = [session.call(call.function, call.arguments)]
            if program.name != "state":
                kept += [session.call(call.function, call.arguments) for _ in range(3)]
            for found in kept:
                for actual, output in zip(found, outputs, strict=True):
                    assert same_bits(actual, np.array(output.numpy()))


def test_control_flow_and_empty_tensors_are_as_on_the_cpu(
    gpu: EdgertDevice, library: object, compile_text: Callable[..., Path]
) -> None:
    program = next(program for program in PROGRAMS if program.name == "control")
    there = opened(gpu, compile_text(program.text, "vulkan"))
    here = opened(EdgertDevice(library=library), compile_text(program.text))
    for call in program.calls:
        found = there.call(call.function, call.arguments)
        expected = here.call(call.function, call.arguments)
        for actual, wanted in zip(found, expected, strict=True):
            np.testing.assert_allclose(actual, wanted, rtol=1e-5, atol=1e-6)


# --- transfers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("driver", ["null", "gpu"])
def test_transfers_reach_every_byte_and_no_other(
    driver: str, library: object, gpu: EdgertDevice
) -> None:
    module = all_transfers()
    device = gpu if driver == "gpu" else EdgertDevice("null", library=library)
    session = opened(device, module)
    for index, case in enumerate(TRANSFERS):
        assert session.call(f"f{index}") == case.expected(), case


def test_large_arrays_go_in_pieces(gpu: EdgertDevice, compile_text: Callable[..., Path]) -> None:
    """More than what is carried through the host's memory at once."""
    text = """
    func.func @main(%x: tensor<5000001xi32>) -> tensor<5000001xi32> {
      %one = stablehlo.constant dense<1> : tensor<5000001xi32>
      %r = stablehlo.add %x, %one : tensor<5000001xi32>
      return %r : tensor<5000001xi32>
    }
    """
    x = np.arange(5000001, dtype=np.int32)
    session = opened(gpu, compile_text(text, "vulkan"))
    np.testing.assert_array_equal(session.call("main", [x])[0], x + 1)


def test_memory_that_another_session_left_holds_zeros(gpu: EdgertDevice) -> None:
    module = leaves_and_finds()
    one, other = opened(gpu, module), opened(gpu, module)
    for _ in range(3):
        one.call("leave")
        assert other.call("find") == [0]


# --- refusals -------------------------------------------------------------------------------------

PLAIN = """
func.func @main(%x: tensor<64x128xf32>) -> tensor<64x128xf32> {
  %y = stablehlo.tanh %x : tensor<64x128xf32>
  return %y : tensor<64x128xf32>
}
"""
MAGIC = bytes.fromhex("03022307")
SHADER = bytes.fromhex("1100020001000000")  # OpCapability Shader


@pytest.fixture(scope="module")
def plain(compile_text: Callable[..., Path]) -> Path:
    return compile_text(PLAIN, "vulkan")


@pytest.mark.parametrize(
    ("old", "new", "error", "reason"),
    [
        (SHADER, bytes.fromhex("110002004b110000"), ModuleMismatch, "SPIR-V's capability 4427"),
        (
            bytes.fromhex("0302230700000100"),
            bytes.fromhex("0302230700070100"),
            ModuleMismatch,
            "1.7",
        ),
        (MAGIC, b"none", ModuleError, "is no SPIR-V"),
        (b"VKE1\0\0\0\0", b"VKE1\1\0\0\0", ModuleMismatch, "another version"),
        (b"VKE1\0\0\0\0", b"VKE2\0\0\0\0", ModuleMismatch, "another version"),
    ],
)
def test_kernels_that_the_device_cannot_run_are_refused(
    old: bytes, new: bytes, error: type[Exception], reason: str, gpu: EdgertDevice, plain: Path
) -> None:
    data = bare(plain)
    assert data.count(old) == 1
    opened(gpu, data)
    with pytest.raises(error, match=reason):
        opened(gpu, data.replace(old, new))


def test_a_damaged_executable_is_a_status(gpu: EdgertDevice, plain: Path) -> None:
    """Its tables: the SPIR-V in them is code, which is trusted as machine code is."""
    data = bare(plain)
    start = data.index(b"VKE1") + 64
    spirv = data.index(MAGIC)
    length = int.from_bytes(data[spirv - 4 : spirv], "little") * 4
    end = start - 64 + 64 + int.from_bytes(data[start - 56 : start - 48], "little")
    places = [*range(start, spirv - 4), *range(spirv + length, end)]
    assert refusals(gpu, data, places) > len(places) / 4


def test_a_cpu_module_is_refused_by_what_it_holds(
    gpu: EdgertDevice, compile_text: Callable[..., Path]
) -> None:
    with pytest.raises(ModuleMismatch, match=r"kernels for .* runs 'vulkan-spirv-fb'"):
        opened(gpu, compile_text(PLAIN))


def test_devices_are_listed(gpu: EdgertDevice) -> None:
    names = device_names("vulkan", library=gpu.library)
    assert names[0] == gpu.name
    with pytest.raises(DeviceMissing, match=f"has {len(names)} devices here"):
        EdgertDevice("vulkan", index=len(names), library=gpu.library)


def test_compiled_kernels_are_kept_in_a_file(
    plain: Path, gpu: EdgertDevice, tmp_path: Path
) -> None:
    kept = tmp_path / "kernels"
    x = np.full((64, 128), 0.5, np.float32)
    for damage in (lambda _: b"", lambda _: b"edgeVK1\0" * 20, lambda held: held[:-1], bytes):
        if kept.is_file():
            kept.write_bytes(damage(kept.read_bytes()))
        device = EdgertDevice("vulkan", cache_file=kept, library=gpu.library)
        session = opened(device, plain)
        np.testing.assert_allclose(session.call("main", [x])[0], np.tanh(x), rtol=1e-5)
        session.close()
        device.close()
        assert kept.read_bytes().startswith(b"edgeVK1\0")
        assert [file.name for file in tmp_path.iterdir()] == ["kernels"]


def test_the_app_is_told_what_each_kernel_takes(
    gpu: EdgertDevice, compile_text: Callable[..., Path]
) -> None:
    program = next(program for program in PROGRAMS if program.name == "layers")
    path = compile_text(program.text, "vulkan")
    (call,) = program.calls[:1]
    plain = opened(gpu, path).call(call.function, call.arguments)
    ran: list[Ran] = []
    session = opened(EdgertDevice("vulkan", library=gpu.library, timed=ran.append), path)
    counts = []
    for _ in range(3):
        ran.clear()
        begin = time.perf_counter()
        told = session.call(call.function, call.arguments)
        elapsed = time.perf_counter() - begin
        counts.append([each.kernel for each in ran])
        assert all(0 <= each.seconds <= elapsed for each in ran)
        assert 0 < sum(each.seconds + each.idle for each in ran) <= elapsed
        assert ran[0].idle == 0
        assert all(each.idle >= 0 for each in ran)
        for one, other in zip(plain, told, strict=True):
            np.testing.assert_array_equal(one, other)
    assert counts[0]
    assert all("dispatch" in name or name in ("copy", "fill", "update") for name in counts[0])
    assert counts[1] == counts[2] == counts[0]


# --- limits ---------------------------------------------------------------------------------------

LONG = """
func.func @main(%x: tensor<1024x1024xf32>) -> tensor<1024x1024xf32> {
  %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
    : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %1 = stablehlo.dot_general %0, %x, contracting_dims = [1] x [0]
    : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  return %1 : tensor<1024x1024xf32>
}
"""


def test_a_dispatch_that_was_refused_does_not_run_later(gpu: EdgertDevice, plain: Path) -> None:
    data = bare(plain)
    start = data.index(b"VKE1")
    size = int.from_bytes(data[start + 8 : start + 16], "little")
    executable = data[start : start + 64 + size]
    session = opened(gpu, keeps_refused_commands(b"vulkan-spirv-fb", executable))
    for _ in range(2):
        with pytest.raises(DeviceError, match="there is no kernel 1048576"):
            session.call("record")
    assert session.call("replay") == []


def test_a_session_holds_no_more_than_it_may(gpu: EdgertDevice) -> None:
    session = opened(gpu, keeps_and_asks(4096, 1 << 20), max_memory=1 << 20)
    session.call("drop")  # the interpreter's stack stays
    before, _ = session.memory()
    session.call("keep")
    assert 4096 <= session.memory()[0] - before < 8192
    session.call("drop")
    assert session.memory()[0] == before
    with pytest.raises(DeviceError, match="beyond the session's 1048576"):
        session.call("ask")
    session.call("keep")


@pytest.mark.parametrize(
    "gpu", ["shared", pytest.param("far", marks=pytest.mark.slow)], indirect=True
)
def test_a_call_that_takes_too_long_ends_and_so_does_one_that_is_interrupted(
    gpu: EdgertDevice, compile_text: Callable[..., Path]
) -> None:
    """What the GPU has begun goes on; the next call waits for it, and is right."""
    path = compile_text(LONG, "vulkan")
    x = np.eye(1024, dtype=np.float32)
    limited, free = opened(gpu, path, max_milliseconds=20), opened(gpu, path)
    with pytest.raises(DeviceError, match="limit reached: the call took longer"):
        limited.call("main", [x])
    call = free.begin("main", [EdgertTensor.copy(gpu, x, DType.F32)])
    with pytest.raises(DeviceError, match="timed out"):
        call.wait(0.02)
    free.interrupt()
    with pytest.raises(DeviceError, match="cancelled: the call was interrupted"):
        call.wait(60)
    np.testing.assert_array_equal(free.call("main", [x])[0], x)


# --- older devices, and failures ------------------------------------------------------------------


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a `libvulkan.so.1` that stands before the real one."""
    return built(tmp_path_factory.mktemp("shim"))


INPUT = ("--input=0.5", "--times=2")


def _behind(shim: Path, build: Callable[[str], Path], plain: Path, **settings: str) -> str:
    """What the command says, run on Vulkan as the shim gives it."""
    done = subprocess.run(
        [str(build("vulkan") / "edgert"), "run", str(plain), "--device=vulkan", *INPUT],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        # Mesa leaves a little behind, in code that is gone by the end.
        env=behind(shim, **settings) | {"ASAN_OPTIONS": "detect_leaks=0"},
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    "settings", [{}, {"version": "1.1"}, {"memory": "0"}, {"features": "0"}], ids=str
)
def test_older_and_plainer_devices_do(
    settings: dict[str, str], shim: Path, build: Callable[[str], Path], plain: Path
) -> None:
    assert "0.462117" in _behind(shim, build, plain, **settings)


NARROWED = """
import sys
import numpy as np
from edgec.runtime.edgert import EdgertDevice, open_library
from tests.c.on_device import opened
from tests.c.programs import PROGRAMS

library, module, name, out = sys.argv[1:]
program = next(program for program in PROGRAMS if program.name == name)
session = opened(EdgertDevice("vulkan", library=open_library(library)), module)
found = []
for call in program.calls:
    for _ in range(2):
        kept = session.call(call.function, call.arguments)
    found += kept
np.savez(out, *found)
"""


@pytest.mark.parametrize(
    "program", [one for one in COMPARED if one.name != "state"], ids=lambda program: program.name
)
def test_bindings_that_begin_where_a_device_lets_none_begin_are_copied(
    program: Program,
    shim: Path,
    far_path: Path,
    tmp_path: Path,
    compile_text: Callable[..., Path],
    same_bits: Callable[[np.ndarray, np.ndarray], bool],
) -> None:
    """Slices lie between multiples of 256 bytes; IREE's driver reaches them by addresses."""
    path = compile_text(program.text, "vulkan")
    out = tmp_path / "found.npz"
    done = subprocess.run(
        [sys.executable, "-c", NARROWED, str(far_path), str(path), program.name, str(out)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=behind(shim, alignment="256"),
    )
    assert done.returncode == 0, done.stderr
    with runtime.load(path, device="vulkan") as loaded:
        expected = [
            np.array(output.numpy())
            for call in program.calls
            for output in loaded[call.function].call_flat(call.arguments)
        ]
    with np.load(out) as found:
        for name, wanted in zip(found.files, expected, strict=True):
            assert same_bits(found[name], wanted)


def test_a_feature_that_is_missing_is_said(
    shim: Path, build: Callable[[str], Path], compile_text: Callable[..., Path]
) -> None:
    half = compile_text(PLAIN.replace("f32", "f16"), "vulkan")
    assert "capability" in _behind(shim, build, half, features="0")


@pytest.mark.parametrize(
    ("function", "after", "result", "said"),
    [
        ("vkQueueSubmit", (0, 1), -4, "was lost"),
        ("vkWaitForFences", (0, 1), -4, "was lost"),
        ("vkCreateBuffer", (0,), -2, "no memory"),
        ("vkCreateFence", (0,), -1, "no memory"),
        ("vkCreateCommandPool", (0,), -2, "no memory"),
        ("vkCreateDescriptorPool", (0,), -2, "no memory"),
        ("vkAllocateDescriptorSets", (0,), -1000069000, "no memory"),
        ("vkCreateShaderModule", (0,), -1, "no memory"),
        ("vkCreateComputePipelines", (0,), -2, "no memory"),
        ("vkEndCommandBuffer", (0,), -3, "failed with -3"),
    ],
)
def test_a_failure_of_vulkans_is_a_status(
    function: str,
    after: Sequence[int],
    result: int,
    said: str,
    shim: Path,
    build: Callable[[str], Path],
    plain: Path,
) -> None:
    for calls in after:
        text = _behind(shim, build, plain, fail=function, after=str(calls), result=str(result))
        assert said in text, calls


AFTERWARDS = """
import sys
import numpy as np
from edgec.runtime.edgert import EdgertDevice, EdgertModule, EdgertSession, open_library
from edgec.runtime.errors import EdgecError

library = open_library(sys.argv[1])

def begin():
    device = EdgertDevice("vulkan", library=library)
    session = EdgertSession(EdgertModule(sys.argv[2], library=library), device)
    return lambda: session.call("main", [np.full((64, 128), 0.5, np.float32)])[0][-1].tolist()

call = begin()
for _ in range(4):
    try:
        print("gave", call())
    except EdgecError as error:
        print("failed:", error.what)
call = begin()
print("again", call())
"""


@pytest.mark.parametrize(
    ("function", "result", "said", "goes_on"),
    [
        ("vkQueueSubmit", -4, "was lost", False),
        ("vkQueueSubmit", -1, "no memory", True),
        ("vkEndCommandBuffer", -2, "no memory", True),
    ],
)
def test_after_a_failure_in_a_call_a_new_session_works_in_the_same_process(
    function: str,
    result: int,
    said: str,
    goes_on: bool,
    shim: Path,
    far_path: Path,
    plain: Path,
) -> None:
    """A device that is lost stays so; one that had no memory goes on."""
    words = [sys.executable, "-c", AFTERWARDS, str(far_path), str(plain)]
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=behind(shim, fail=function, after="5", result=str(result)),
    )
    assert done.returncode == 0, done.stderr
    *before, after = done.stdout.splitlines()
    failed = [line.startswith("failed:") for line in before]
    first = failed.index(True)
    assert 0 < first < 3, before
    assert said in before[first]
    assert failed[first + 1 :] == [not goes_on] * (3 - first), before
    assert after == before[0].replace("gave", "again")


def test_less_memory_at_once_is_asked_for_before_giving_up(
    shim: Path, build: Callable[[str], Path], plain: Path
) -> None:
    text = _behind(shim, build, plain, fail="vkAllocateMemory", after="0", result="-2")
    assert "0.462117" in text


def test_what_is_declared_of_vulkan_is_what_khronos_declares(shim: Path, tmp_path: Path) -> None:
    """Every structure's size and fields, and every number, from both headers."""
    text = API.read_text()
    own = {"VkFeatures", "VkFlagsCreateInfo"}
    lines = []
    for name, body in re.findall(r"typedef struct (Vk\w+) \{(.*?)\} \1;", text, re.S):
        if name in own:
            continue
        lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
        for field in re.findall(r"(\w+)(?:\[\w+\])?;", body):
            if re.search(r"_\d$", field) or field in ("graphics", "others", "sparse"):
                continue
            lines.append(f'printf("{name}.{field} %zu\\n", offsetof({name}, {field}));')
    # Debian's headers are older than the last of them.
    numbers = set(re.findall(r"^  (VK_\w+) =", text, re.M)) - {
        "VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR"
    }
    lines += [f'printf("{name} %lld\\n", (long long){name});' for name in sorted(numbers)]
    said = []
    for header in (API, "/usr/include/vulkan/vulkan_core.h"):
        source = tmp_path / "say.c"
        source.write_text(
            "#include <stddef.h>\n#include <stdio.h>\n"
            f'#include "{header}"\nint main(void) {{\n{chr(10).join(lines)}\nreturn 0;\n}}\n'
        )
        run("cc", source, "-o", tmp_path / "say")
        said.append(run(tmp_path / "say"))
    assert said[0] == said[1]
    assert len(said[0].splitlines()) > 250


@pytest.mark.parametrize("floats", ["1", "0"])
def test_kernels_keep_nan_where_a_device_knows_how(
    floats: str, shim: Path, far_path: Path, tmp_path: Path, compile_text: Callable[..., Path]
) -> None:
    """A driver's compiler is told for each kernel that NaN may be there, if it has heard of it."""
    path = compile_text(COMPARED[0].text, "vulkan")
    done = subprocess.run(
        [sys.executable, "-c", NARROWED, far_path, path, COMPARED[0].name, tmp_path / "found.npz"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=behind(shim, kernels=str(tmp_path), floats=floats),
    )
    assert done.returncode == 0, done.stderr
    kernels = [kernel.read_bytes() for kernel in tmp_path.glob("*.spv")]
    assert kernels
    for kernel in kernels:
        found = list(operations(kernel))
        entries = {words[1] for op, words in found if op == 15}
        modes = {(words[0], words[2]) for op, words in found if op == 16 and words[1] == 4461}
        assert modes == ({(entry, 32) for entry in entries} if floats == "1" else set())
        assert ((17, (4466,)) in found) == (floats == "1")
        assert (b"SPV_KHR_float_controls" in kernel) == (floats == "1")
