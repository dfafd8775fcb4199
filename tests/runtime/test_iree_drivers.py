"""How IREE's devices are opened, seen by a driver that stands for CUDA's."""

from typing import Any

import pytest

from edgec.runtime import iree_drivers
from edgec.runtime.iree_drivers import GpuDriver, create_driver, keep_memory


class _Opened(Exception):
    """A device was asked for; with which allocators, and by a driver made with which flags."""


class _Driver:
    def __init__(self, flags: list[str]) -> None:
        self.flags = flags

    def query_available_devices(self) -> list[dict[str, Any]]:
        return [{"path": "GPU-0", "name": "a GPU", "device_id": 1}]

    def create_device(self, number: int, params: object, allocators: list[str] | None) -> object:
        raise _Opened(number, allocators, self.flags)


def test_memory_is_kept_by_devices_of_a_mesh_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr("iree.runtime.flags.parse_flags", lambda *flags: said.extend(flags))
    monkeypatch.setattr(
        "iree.runtime._binding.create_hal_driver", lambda name: _Driver(said[-1:] if said else [])
    )
    monkeypatch.setattr(iree_drivers, "_KEEPING", set())
    create_driver.cache_clear()
    try:
        with pytest.raises(_Opened) as plain:
            GpuDriver(name="cuda").open("cuda://0", "0", None)
        assert plain.value.args == (1, None, [])
        keep_memory("cuda")
        with pytest.raises(_Opened) as kept:
            GpuDriver(name="cuda").open("cuda://0", "0", None)
        assert kept.value.args == (1, ["caching"], ["--cuda_async_allocations=false"])
        # Whoever makes a driver later has the pools again.
        assert said[-1] == "--cuda_async_allocations=true"
    finally:
        create_driver.cache_clear()


def test_irees_own_runtime_knows_the_flag() -> None:
    from iree.runtime import flags

    flags.parse_flags("--cuda_async_allocations=true")
