"""Devices by URI: one per spelling, and a reason where there is none."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgec.runtime import (
    ALIGNMENT,
    Device,
    DType,
    aligned_empty,
    devices,
    foreign_code,
    iree_drivers,
    load,
)
from edgec.runtime.drivers import DRIVERS, find_driver
from edgec.runtime.errors import DeviceMissing, InputError, UsageError
from edgec.runtime.foreign_code import refuse_clash

Make = Callable[..., Path]


def test_one_uri_is_one_device() -> None:
    assert Device.open("local-task") is Device.open("local-task")
    assert Device.open("cpu") is Device.open("edgert")
    assert Device.open("cpu?threads=2") is Device.open("edgert://cpu?threads=2")
    assert Device.open("local-sync") is not Device.open("local-task")
    device = Device.open("local-sync")
    assert Device.open(device) is device


def test_threads_are_an_option_of_local_task() -> None:
    code = """
from pathlib import Path
from edgec.runtime import Device
counts = []
for uri in ("local-task?threads=1", "local-task?threads=6"):
    Device.open(uri)
    counts.append(len(list(Path("/proc/self/task").iterdir())))
assert Device.open("local-task?threads=1") is not Device.open("local-task?threads=6")
assert Device.open("local-task?threads=6") is Device.open("local-task?threads=6")
print(counts[1] - counts[0])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert int(done.stdout) in (6, 7), done.stderr  # six workers, and what waits for them


@pytest.mark.parametrize(
    ("uri", "error", "message"),
    [
        ("local-task?threads=0", UsageError, "1 to 1024"),
        ("local-task?threads=many", UsageError, "1 to 1024"),
        ("local-sync?threads=2", UsageError, "option that does not exist"),
        ("local-task?speed=2", UsageError, "option that does not exist"),
        ("local-task://7", DeviceMissing, "has one device"),
        ("abacus", DeviceMissing, "knows no such driver"),
        ("", DeviceMissing, "knows no such driver"),
        ("vulkan://99", DeviceMissing, "vulkan://99 is not here"),
    ],
)
def test_a_uri_that_cannot_be_opened_says_why(
    uri: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        Device.open(uri)


def test_every_driver_is_listed_usable_or_with_a_reason() -> None:
    found = devices()
    assert {status.driver for status in found} == set(DRIVERS)
    for status in found:
        assert status.usable or (status.reason and status.hint)
        assert json.loads(json.dumps(status.to_json()))["uri"] == status.uri
    assert all(s.usable for s in found if s.driver.startswith("local-"))


def test_usable_means_that_it_opens() -> None:
    for status in devices():
        if status.usable:
            assert Device.open(status.uri).name == status.name
        else:
            with pytest.raises(DeviceMissing):
                Device.open(status.uri)


def test_a_driver_outside_this_build_refuses_like_any_other() -> None:
    metal = find_driver("metal")
    if sys.platform == "darwin":
        pytest.skip("metal is in this build")
    (status,) = metal.probe()
    assert "not in this build" in status.reason
    with pytest.raises(DeviceMissing, match="not in this build"):
        Device.open("metal")


def test_vulkan_without_a_driver_is_told_from_vulkan_without_a_loader(tmp_path: Path) -> None:
    environment = os.environ | {"VK_ICD_FILENAMES": "/none.json", "VK_DRIVER_FILES": "/none.json"}
    done = subprocess.run(
        [sys.executable, "-m", "edgec.runtime.probe", "vulkan"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    (finding,) = map(json.loads, done.stdout.splitlines())
    assert not finding["usable"]
    assert "no driver" in finding["reason"] or "not installed" in finding["reason"]
    assert "apt install" in finding["hint"]


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("import os; os.kill(os.getpid(), 11)", "crashed while it was asked (signal 11)"),
        ("import time; time.sleep(60)", "did not answer within"),
        ("raise SystemExit('no such thing')", "could not be asked: no such thing"),
    ],
)
def test_a_probe_that_dies_is_a_reason(
    script: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "python"
    fake.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{script}"\n')
    fake.chmod(0o755)
    monkeypatch.setattr(foreign_code.sys, "executable", str(fake))
    monkeypatch.setattr(foreign_code, "_PROBE_SECONDS", 2.0)
    (status,) = iree_drivers.GpuDriver(name="vulkan").probe()
    assert not status.usable
    assert reason in status.reason


def test_software_vulkan_beside_tensorflow_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from edgec.runtime.errors import DeviceError

    monkeypatch.setitem(sys.modules, "tensorflow", sys)
    with pytest.raises(DeviceError, match="cannot work in one process"):
        refuse_clash("llvmpipe (LLVM 15.0.6, 256 bits)")
    refuse_clash("NVIDIA H200")


def test_memory_is_shared_where_it_can_be() -> None:
    device = Device.open("local-sync")
    host = aligned_empty((3, 5), DType.F32)
    assert host.ctypes.data % ALIGNMENT == 0
    host[:] = 1
    assert np.shares_memory(device.put(host, copy=None).numpy(), host)
    assert np.shares_memory(device.put(host, copy=False).numpy(), host)
    assert not np.shares_memory(device.put(host).numpy(), host)
    for array in (host.T, host[:, 1:], host[1:]):
        copied = device.put(array, copy=None)
        assert not np.shares_memory(copied.numpy(), host)
        assert (copied.numpy() == array).all()
        with pytest.raises(InputError, match="cannot share"):
            device.put(array, copy=False)


def test_shared_memory_lives_as_long_as_the_device_array() -> None:
    device = Device.open("local-sync")
    host = aligned_empty((1000,), DType.I32)
    host[:] = np.arange(1000)
    array = device.put(host, copy=None)
    del host
    junk = [np.full(1000, -1, np.int32) for _ in range(100)]
    assert (array.numpy() == np.arange(1000)).all()
    del junk


def test_shared_memory_lives_as_long_as_a_result_that_is_the_argument(mixed_module: Make) -> None:
    with load(mixed_module(), device="local-sync") as module:
        host = aligned_empty((16,), DType.F32)
        host[:] = 3
        result = module.same.on_device(module.device.put(host, copy=None))
        assert np.shares_memory(result.numpy(), host)
        del host
        junk = [np.full(16 + ALIGNMENT, -1, np.float32) for _ in range(100)]
        assert (result.numpy() == 3).all()
        del junk


def test_types_without_a_counterpart_are_refused() -> None:
    with pytest.raises(InputError, match="has no edgec counterpart"):
        Device.open("local-sync").put(np.array(["text"]))
    with pytest.raises(InputError, match="no DLPack interface"):
        Device.open("local-sync").from_dlpack([1, 2])
