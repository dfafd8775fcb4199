"""IREE's drivers: what each one finds here, and how it opens a device."""

from dataclasses import dataclass
from functools import cache
from typing import Any

from edgec.runtime.cuda_context import CudaContext
from edgec.runtime.driver import DeviceStatus, Opened
from edgec.runtime.errors import DeviceError, DeviceMissing
from edgec.runtime.foreign_code import probe_in_child, refuse_clash
from edgec.runtime.iree_backend import IreeBackend
from edgec.runtime.native import iree_runtime, native_errors

__all__ = ["LOCAL", "GpuDriver", "LocalDriver", "create_driver", "is_built", "keep_memory"]

LOCAL = {
    "local-task": "this machine's CPU, on all cores",
    "local-sync": "this machine's CPU, on the calling thread",
}
"""What the drivers of CPUs call their device."""


@dataclass(frozen=True, kw_only=True)
class LocalDriver:
    """The CPU; always here."""

    name: str

    def probe(self) -> tuple[DeviceStatus, ...]:
        """The one device."""
        return (
            DeviceStatus(
                uri=self.name,
                driver=self.name,
                name=LOCAL[self.name],
                usable=True,
                runtime=iree_runtime(),
            ),
        )

    def open(self, uri: str, path: str, threads: int | None) -> Opened:
        """The device; worker threads belong to the driver, so `threads` makes a driver anew."""
        if path not in ("", "0"):
            raise DeviceMissing(
                f"{uri} is not here: {self.name} has one device", hint=f"use {self.name}"
            )
        # One worker would only be woken for each kernel by the thread that waits for it: an LSTM of
        # 600 small ones takes 2.7 ms without workers and 8.5 with one.
        native = "local-sync" if threads == 1 else self.name
        with native_errors(f"cannot open {uri}", DeviceError):
            if threads is None or threads == 1:
                from iree.runtime import flags, get_driver

                flags.parse_flags(_STACK)
                hal = get_driver(native).create_default_device()
                return self._opened(hal, uri, native)
            hal, flag = _with_threads(self.name, threads)
        return self._opened(hal, uri, self.name, flag)

    def _opened(self, hal: Any, uri: str, native: str, *flags: str) -> Opened:
        _quiet_exit()
        return Opened(
            backend=IreeBackend(hal=hal, uri=uri, maps_memory=True),
            name=LOCAL[self.name],
            runtime=iree_runtime(),
            native_uri=native,
            native_flags=flags,
        )


def _quiet_exit() -> None:
    """Devices live to the end of the process; IREE's bindings would report them as leaks."""
    from iree.runtime._binding import disable_leak_checker

    disable_leak_checker()


def _with_threads(name: str, threads: int) -> tuple[Any, str]:
    """A device with so many workers, and the flag that did it; being the process's, it is put back.

    Callers hold the lock of `Device.open`.
    """
    from iree.runtime import flags
    from iree.runtime._binding import create_hal_driver

    flag = f"--task_topology_group_count={threads}"
    flags.parse_flags(flag, _STACK)
    try:
        return create_hal_driver(name).create_default_device(), flag
    finally:
        flags.parse_flags("--task_topology_group_count=0")


# Kernels keep up to 256 KiB on the stack (the targets' limit); IREE's default for workers is 128.
_STACK = "--task_worker_stack_size=1048576"


@dataclass(frozen=True, kw_only=True)
class GpuDriver:
    """A driver that loads a vendor's library; it is probed in a child process."""

    name: str

    def probe(self) -> tuple[DeviceStatus, ...]:
        """Every device that a child process found, usable or not."""
        found, failure = probe_in_child(self.name)
        statuses = [
            DeviceStatus(
                uri=f"{self.name}://{finding['index']}" if "index" in finding else self.name,
                driver=self.name,
                name=str(finding["name"]),
                usable=bool(finding["usable"]),
                runtime=iree_runtime(),
                reason=str(finding["reason"]),
                hint=str(finding["hint"]),
            )
            for finding in found
        ]
        if failure or not statuses:
            statuses.append(
                DeviceStatus(
                    uri=self.name,
                    driver=self.name,
                    name="",
                    usable=False,
                    reason=failure or "nothing was found",
                    hint="update the GPU's driver",
                )
            )
        return tuple(statuses)

    def open(self, uri: str, path: str, threads: int | None) -> Opened:
        """The device with this index or path; the first one without."""
        try:
            kept = self.name in _KEEPING
            native = create_driver(self.name, keeps_memory=kept)
            devices = native.query_available_devices()
        except (RuntimeError, ValueError) as error:
            raise self._missing(uri) from error
        if not devices:
            raise self._missing(uri)
        wanted = path or "0"
        chosen = [(i, d) for i, d in enumerate(devices) if wanted in (str(i), d["path"])]
        if not chosen:
            known = ", ".join(f"{self.name}://{i} ({d['name']})" for i, d in enumerate(devices))
            raise DeviceMissing(f"{uri} is not here", hint=f"use one of {known}")
        ordinal, found = chosen[0]
        refuse_clash(found["name"])
        with native_errors(f"cannot open {uri}", DeviceError, "see `edgec devices`"):
            allocators = ["caching"] if kept else None
            hal = native.create_device(found["device_id"], None, allocators)
        _quiet_exit()
        context = CudaContext(ordinal) if self.name == "cuda" else None
        return Opened(
            backend=IreeBackend(hal=hal, uri=uri, maps_memory=False, context=context),
            name=found["name"],
            runtime=iree_runtime(),
            native_uri=f"{self.name}://{found['path']}",
            native_flags=_FLAGS.get(self.name, ()),
        )

    def _missing(self, uri: str) -> DeviceMissing:
        """Why it is missing, as a probe tells it."""
        status = next((s for s in self.probe() if not s.usable), None)
        reason = status.reason if status else "the driver finds no device"
        return DeviceMissing(
            f"{uri} is not here: {reason}", hint=status.hint if status else "see `edgec devices`"
        )


# Flags without which a driver gives wrong answers. The Vulkan driver of IREE 3.13 keeps recorded
# command buffers for replay and replays them with the buffers of an earlier call: a function that
# stores two states and returns nothing stores the values of the call before.
_FLAGS = {"vulkan": ("--vulkan_cached_bda_replay_instances=0",)}


_POOLS = {"cuda": "--cuda_async_allocations"}
"""By which flag a driver takes memory from the vendor's pools, where nothing keeps it."""
_KEEPING: set[str] = set()
"""Drivers whose devices, when they are opened, keep the memory that a call gives back."""


def keep_memory(driver: str) -> None:
    """Let devices of a driver that are opened from now on keep what memory they have had.

    IREE's CUDA driver gives it back to NVIDIA's at the end of every call, and asks for it again. In
    a block of a transformer on two H100s that is 0.4 of 3.05 ms. Memory that is kept is that of the
    sizes that were needed, so it is for programs of fixed sizes.
    """
    _KEEPING.add(driver)


@cache
def create_driver(name: str, *, keeps_memory: bool = False) -> Any:
    """IREE's driver of this name, made once with the flags it needs; IREE's own cache has others.

    Raises:
        RuntimeError, ValueError: IREE's own, when the driver does not start.
    """
    from iree.runtime import flags
    from iree.runtime._binding import create_hal_driver

    flags.parse_flags(*_FLAGS.get(name, ()))
    if not (keeps_memory and name in _POOLS):
        return create_hal_driver(name)
    flags.parse_flags(f"{_POOLS[name]}=false")
    try:
        return create_hal_driver(name)
    finally:
        flags.parse_flags(f"{_POOLS[name]}=true")


def is_built(name: str) -> bool:
    """Whether this build of IREE's runtime has the driver."""
    from iree.runtime import HalDriver

    return name in HalDriver.query()
