"""`cpu` is edgert; what edgert does not take runs on IREE's runtime, and that is said."""

import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgec.runtime import Device, bench, devices, load
from edgec.runtime.device import device_choices
from edgec.runtime.errors import DeviceMissing, ModuleMismatch
from edgec.runtime.lite import Interpreter
from edgec.toolchain.process import compiler_path

Make = Callable[..., Path]

DOUBLE = """
func.func @double(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %x, %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
X = np.arange(4, dtype=np.float32)


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A module for CPUs whose kernels are byte code: IREE's runtime runs it, edgert does not."""
    folder = tmp_path_factory.mktemp("foreign")
    (folder / "double.mlir").write_text(DOUBLE)
    device = ("--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=vmvx")
    tool = compiler_path()
    command = [tool, *device, folder / "double.mlir", "-o", folder / "double.vmfb"]
    subprocess.run(command, check=True, timeout=120)
    return folder / "double.vmfb"


@pytest.mark.parametrize("device", [None, "cpu", "cpu?threads=2"])
def test_a_module_for_cpus_runs_on_edgert(compile_mlir: Make, device: str | None) -> None:
    with load(compile_mlir(DOUBLE), device=device) as module:
        assert module.device.driver == "edgert"
        assert (module.device.runtime, module.note) == ("edgert", "")
        np.testing.assert_array_equal(module.double(X), X + X)


def test_iree_is_there_by_its_uri(compile_mlir: Make) -> None:
    for uri in ("local-task", "local-sync"):
        with load(compile_mlir(DOUBLE), device=uri) as module:
            assert module.device.uri == uri
            assert module.device.runtime.startswith("IREE 3.")
            np.testing.assert_array_equal(module.double(X), X + X)


def test_what_edgert_does_not_take_runs_on_iree_with_a_reason(
    foreign: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "edgec.runtime"), load(foreign) as module:
        assert module.device.uri == "local-task"
        np.testing.assert_array_equal(module.double(X), X + X)
    assert caplog.messages == [module.note]
    assert "runs on IREE 3." in module.note
    assert "cannot run on edgert://cpu" in module.note
    assert bench(foreign, seconds=0.01).runtime.startswith("IREE")


def test_the_number_of_threads_falls_back_with_it(foreign: Path) -> None:
    with load(foreign, device="cpu?threads=1") as module:
        assert module.device.uri == "local-task?threads=1"


def test_memory_that_nothing_has_written_can_be_seen(compile_mlir: Make) -> None:
    text = """
    func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
      %nothing = flow.tensor.empty : tensor<4xf32>
      %twice = arith.addf %x, %x : tensor<4xf32>
      return %nothing, %twice : tensor<4xf32>, tensor<4xf32>
    }
    """
    x = np.ones(4, np.float32)
    for device, is_written in (("edgert://cpu", True), ("edgert://cpu/unwritten?threads=2", False)):
        with load(compile_mlir(text), device=device) as loaded:
            for _ in range(3):  # memory that is used again, too
                nothing, twice = (np.array(a.numpy()) for a in loaded["main"].call_flat([x]))
                np.testing.assert_array_equal(twice, 2 * x)
                np.testing.assert_array_equal(np.isnan(nothing), not is_written)


def test_a_runtime_named_by_its_own_uri_takes_a_module_or_refuses(foreign: Path) -> None:
    with pytest.raises(ModuleMismatch, match="cannot run on edgert://cpu"):
        load(foreign, device="edgert://cpu")
    with pytest.raises(ModuleMismatch, match="cannot run on edgert://cpu"):
        load(foreign, device=Device.open("cpu"))


def test_without_edgerts_library_the_cpu_is_irees(compile_mlir: Make) -> None:
    code = f"""
import numpy as np
from edgec.runtime import Device, load
with load({str(compile_mlir(DOUBLE))!r}) as module:
    print(module.device.uri, module.double(np.ones(4, np.float32))[0], Device.open("cpu").uri)
"""
    environment = os.environ | {"EDGERT_LIBRARY": "/nowhere/libedgert.so"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "local-task 2.0 local-task\n", done.stderr
    assert done.stderr.count("which is no file") == 1


def test_the_interpreter_computes_on_as_many_threads_as_it_is_told(compile_mlir: Make) -> None:
    interpreter = Interpreter(str(compile_mlir(DOUBLE)), num_threads=2)
    assert interpreter._module.device.uri == "edgert://cpu?threads=2"


def test_the_list_of_devices_begins_with_edgert() -> None:
    first, *_ = devices(["edgert", "local-task"])
    assert (first.uri, first.runtime, first.usable) == ("edgert://cpu", "edgert", True)


def test_a_forked_child_ends_although_it_has_no_threads() -> None:
    code = """
import os, sys
import numpy as np
from edgec.runtime import Device
Device.open("cpu?threads=3").put(np.arange(4))
child = os.fork()
if child == 0:
    sys.exit(3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout == "3\n", done.stderr


def test_there_is_one_cpu() -> None:
    assert device_choices("cpu://0") == ("edgert://cpu", "local-task")
    assert device_choices("vulkan://1") == ("vulkan://1",)
    assert device_choices("gpu") == ("edgert://vulkan/0", "vulkan://0")
    assert device_choices("gpu://1") == ("edgert://vulkan/1", "vulkan://1")
    assert device_choices("cuda") == ("edgert://cuda", "cuda://0")
    assert device_choices("cuda://0") == ("cuda://0",)
    with pytest.raises(DeviceMissing, match="there is one cpu"):
        Device.open("cpu://1")
