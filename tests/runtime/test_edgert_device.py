"""edgert as a device: its URI, where its library comes from, and what is said where it is not."""

import ctypes
import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgec.runtime import (
    Device,
    DType,
    aligned_empty,
    bench,
    devices,
    edgert_library,
    load,
    native_build,
)
from edgec.runtime.drivers import find_driver
from edgec.runtime.edgert import EdgertTensor, handle, native
from edgec.runtime.errors import (
    DeviceError,
    DeviceMissing,
    EdgecError,
    FileError,
    ModuleError,
    ModuleMismatch,
    UsageError,
)

Make = Callable[..., Path]
HAS_COMPILER = any(shutil.which(name) for name in ("cc", "gcc", "clang"))
needs_compiler = pytest.mark.skipif(not HAS_COMPILER, reason="no C compiler: run scripts/setup")


def test_one_uri_is_one_device() -> None:
    device = Device.open("edgert://cpu")
    assert Device.open("edgert") is device
    assert device.uri == "edgert://cpu"
    assert device.driver == "edgert"
    assert device.hal is None
    two = Device.open("edgert://cpu?threads=2")
    assert two is not device
    assert two.uri == "edgert://cpu?threads=2"
    assert Device.open("edgert?threads=2") is two


def test_what_is_left_at_the_end_of_python_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    class Library:
        given: list[int]

        def give(self, pointer: int) -> None:
            self.given = [pointer]

    class Kept(handle.Handle):
        _release = "give"

    library = Library()
    kept = Kept(library, 7)
    monkeypatch.setattr(handle, "os", None)  # as Python leaves modules when it ends
    kept.close()
    assert library.given == [7]


def test_threads_are_the_callers_and_workers() -> None:
    code = """
from pathlib import Path
from edgec.runtime import Device
counts = []
for uri in ("edgert://cpu?threads=1", "edgert://cpu?threads=5"):
    before = len(list(Path("/proc/self/task").iterdir()))
    Device.open(uri)
    counts.append(len(list(Path("/proc/self/task").iterdir())) - before)
print(counts)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert json.loads(done.stdout) == [0, 4], done.stderr


@pytest.mark.parametrize(
    ("uri", "error", "message"),
    [
        ("edgert://gpu", DeviceMissing, "edgert://gpu is not here"),
        ("edgert://cpu/1", DeviceMissing, "edgert://cpu/1 is not here"),
        ("edgert://vulkan?threads=2", UsageError, "no threads to choose"),
        ("edgert://cpu?threads=0", UsageError, "1 to 1024"),
        ("edgert://cpu?workers=2", UsageError, "option that does not exist"),
    ],
)
def test_a_uri_that_cannot_be_opened_says_why(
    uri: str, error: type[EdgecError], message: str
) -> None:
    with pytest.raises(error, match=message):
        Device.open(uri)


def test_it_is_listed() -> None:
    cpu, *gpus = devices(["edgert"])
    assert cpu.usable
    assert cpu.uri == "edgert://cpu"
    uris = ["edgert://vulkan", *(f"edgert://vulkan/{number}" for number in range(1, len(gpus)))]
    assert [gpu.uri for gpu in gpus] == uris[: len(gpus)]


def test_a_module_for_vulkan_runs_on_edgert_where_none_is_named(mixed_module: Make) -> None:
    gpu = next((status for status in devices(["edgert"])[1:] if status.usable), None)
    if gpu is None:
        pytest.skip("no Vulkan device is here")
    with load(mixed_module("vulkan")) as module:
        assert module.device.uri == "edgert://vulkan"
        assert module.device is Device.open("gpu")
        assert not module.note
        x = np.arange(16, dtype=np.float32)
        np.testing.assert_array_equal(module.same(x), x)


def test_both_runtimes_agree_on_every_bit(mixed_module: Make) -> None:
    random = np.random.default_rng(3)
    a = random.standard_normal((37, 8), dtype=np.float32)
    b = random.standard_normal((8, 5), dtype=np.float32)
    answers = []
    for device in ("local-sync", "edgert://cpu?threads=1", "edgert://cpu?threads=3"):
        with load(mixed_module(), device=device) as module:
            answers.append(module.product(a, b).tobytes())
    assert answers[1:] == answers[:-1]


def test_a_benchmark_runs_on_it(stateful_module: Make) -> None:
    result = bench(stateful_module(), device="edgert://cpu?threads=2", seconds=0.05, threads=2)
    assert result.device == "edgert://cpu?threads=2"
    assert result.calls >= 6


def test_memory_is_shared_where_it_can_be() -> None:
    device = Device.open("edgert://cpu")
    host = aligned_empty((3, 5), DType.F32)
    host[:] = 1
    shared = device.put(host, copy=False)
    assert isinstance(shared.view, EdgertTensor)
    assert np.shares_memory(shared.numpy(), host)
    assert not np.shares_memory(device.put(host).numpy(), host)
    view = shared.numpy()
    del host, shared
    assert (view == 1).all()


def test_a_damaged_module_is_refused(stateful_module: Make, tmp_path: Path) -> None:
    whole = stateful_module().read_bytes()
    cut = tmp_path / "cut.vmfb"
    cut.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ModuleError):
        load(cut, device="edgert://cpu")


def test_a_module_for_another_device_is_refused(compile_mlir: Make) -> None:
    text = "func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> { "
    text += "%y = stablehlo.add %x, %x : tensor<4xf32> return %y : tensor<4xf32> }"
    with pytest.raises(ModuleMismatch, match="cannot run on edgert://cpu"):
        load(compile_mlir(text, "vulkan"), device="edgert://cpu")


def test_edgert_needs_nothing_of_iree(stateful_module: Make) -> None:
    code = f"""
import sys
import numpy as np
from edgec.runtime import load
with load({str(stateful_module())!r}, device="edgert://cpu") as module:
    print(module.step(np.arange(4, dtype=np.float32))["counter"])
print(sorted(name for name in sys.modules if name.startswith("iree")))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines() == ["1", "[]"], done.stderr


# Where the library comes from. `find_library` remembers, so these ask the function beneath.


@pytest.fixture
def find(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], Path]:
    """`find_library` with nothing named, in an empty cache."""
    monkeypatch.delenv(edgert_library.EDGERT_VARIABLE, raising=False)
    monkeypatch.setenv("EDGEC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("CC", raising=False)
    return edgert_library.find_library.__wrapped__


@needs_compiler
def test_a_library_that_lacks_what_python_calls_is_refused(tmp_path: Path) -> None:
    known = ctypes.CDLL(str(edgert_library.find_library()))
    source, library = tmp_path / "old.c", tmp_path / "libedgert.so"
    source.write_text(f"unsigned edgert_abi(void) {{ return {known.edgert_abi()}; }}")
    subprocess.run(["cc", "-shared", "-fPIC", source, "-o", library], check=True)
    with pytest.raises(DeviceMissing, match="was built without edgert_"):
        native.open_library(library)


def test_the_variable_names_a_library(
    find: Callable[[], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "libedgert.so"
    monkeypatch.setenv(edgert_library.EDGERT_VARIABLE, str(file))
    with pytest.raises(DeviceMissing, match=r"\$EDGERT_LIBRARY names .* which is no file"):
        find()
    file.touch()
    assert find() == file


def test_a_packaged_library_is_taken(
    find: Callable[[], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "libedgert.so"
    file.touch()
    monkeypatch.setattr(edgert_library, "_PACKAGED", file)
    assert find() == file


def test_an_installation_without_a_library_says_what_to_install(
    find: Callable[[], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(edgert_library, "_CHECKOUT", tmp_path / "c")
    with pytest.raises(DeviceMissing, match="holds no edgert") as caught:
        find()
    assert "edgec-runtime" in (caught.value.hint or "")


def test_without_a_compiler_it_says_what_to_install(
    find: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(native_build.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DeviceMissing, match="no C compiler") as caught:
        find()
    assert "apt install gcc" in (caught.value.hint or "")


def test_a_full_cache_is_said_before_anything_is_built(
    find: Callable[[], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(**given: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    monkeypatch.setattr(subprocess, "run", None)
    with pytest.raises(FileError, match=r"no space is left in .*cache") as caught:
        find()
    assert "EDGEC_CACHE_DIR" in (caught.value.hint or "")


def test_a_missing_library_is_a_reason_in_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "from edgec.runtime import devices; print(devices(['edgert'])[0].to_json())"
    environment = os.environ | {"EDGERT_LIBRARY": "/nowhere/libedgert.so"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60
    )
    assert "'usable': False" in done.stdout, done.stderr
    assert "which is no file" in done.stdout
    assert "unset $EDGERT_LIBRARY" in done.stdout


def test_a_gguf_file_is_refused_by_name(compile_mlir: Make, tmp_path: Path) -> None:
    text = """
module @outside {
  util.global private @b = #flow.parameter.named<"model"::"b"> : tensor<4xf32>
  func.func @main() -> tensor<4xf32> {
    %b = util.global.load @b : tensor<4xf32>
    return %b : tensor<4xf32>
  }
}
"""
    file = tmp_path / "w.gguf"
    header = b"GGUF" + (3).to_bytes(4, "little") + (1).to_bytes(8, "little") + bytes(8)
    name = (1).to_bytes(8, "little") + b"b"
    shape = (1).to_bytes(4, "little") + (4).to_bytes(8, "little")
    tensor = header + name + shape + (0).to_bytes(4, "little") + (0).to_bytes(8, "little")
    values = np.arange(4, dtype=np.float32).tobytes()
    file.write_bytes(tensor + bytes(-len(tensor) % 32) + values)
    path = compile_mlir(text)
    with load(path, device="local-sync", weights=file) as module:
        np.testing.assert_array_equal(module.main(), np.arange(4))
    with pytest.raises(ModuleMismatch, match=r"weights file .*gguf: .* \.safetensors and \.irpa"):
        load(path, device="edgert://cpu", weights=file)
    with load(path, weights=file) as module:
        assert module.device.driver == "local-task"
        assert "w.gguf" in module.note
        np.testing.assert_array_equal(module.main(), np.arange(4))


def test_a_file_that_is_no_library_is_refused(tmp_path: Path) -> None:
    from edgec.runtime.edgert import open_library

    file = tmp_path / "libedgert.so"
    file.write_bytes(b"\x7fELF, and then nothing")
    with pytest.raises(DeviceMissing, match="cannot load edgert from"):
        open_library(file)


@needs_compiler
def test_what_a_compiler_says_is_passed_on(
    find: Callable[[], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sources = tmp_path / "c"
    (sources / "src").mkdir(parents=True)
    (sources / "src" / "broken.c").write_text("int main(void) { return missing; }\n")
    monkeypatch.setattr(edgert_library, "_CHECKOUT", sources)
    with pytest.raises(DeviceError, match=r"could not be built by .*missing"):
        find()


@needs_compiler
def test_it_is_built_once_for_each_state_of_the_sources(
    find: Callable[[], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sources = tmp_path / "c"
    (sources / "src").mkdir(parents=True)
    source = sources / "src" / "abi.c"
    source.write_text("int edgert_abi(void) { return 1; }\n")
    monkeypatch.setattr(edgert_library, "_CHECKOUT", sources)
    first = find()
    made = first.stat().st_mtime_ns
    assert find() == first
    assert first.stat().st_mtime_ns == made
    source.write_text("int edgert_abi(void) { return 2; }\n")
    assert find() != first
    assert sorted(file.name for file in first.parent.iterdir()) == [first.name]


def test_a_cache_that_cannot_be_written_is_named(
    find: Callable[[], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("EDGEC_CACHE_DIR", str(file))
    monkeypatch.setattr(native_build, "_compiler", lambda recipe: ("cc",))
    with pytest.raises(DeviceError, match="could not be built in") as caught:
        find()
    assert "EDGEC_CACHE_DIR" in (caught.value.hint or "")


def test_the_sources_are_here() -> None:
    assert (edgert_library._CHECKOUT / "include" / "edgert" / "edgert.h").is_file()
    assert find_driver("edgert").probe()[0].driver == "edgert"


@pytest.mark.parametrize(
    ("uri", "how"),
    [("cpu", "all cores"), ("cpu?threads=1", "1 thread"), ("edgert://cpu?threads=2", "2 threads")],
)
def test_the_name_of_the_cpu_says_how_much_of_it_computes(uri: str, how: str) -> None:
    assert Device.open(uri).name == f"this machine's CPU, on {how}"
