"""Devices by URI (`cpu?threads=2`, `vulkan://0`, `local-task`), opened once and shared."""

import threading
import urllib.parse
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import numpy as np

from edgec.runtime.array import DeviceArray, copy_in, dlpack_in, share_in
from edgec.runtime.driver import DeviceStatus, Opened
from edgec.runtime.drivers import DRIVERS, find_driver
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import DeviceMissing, InputError, UsageError

__all__ = ["Device", "device_choices", "devices", "parse_uri"]

_THREADED = ("cpu", "edgert", "local-task")


class Device:
    """A device of a runtime. It lives as long as anything uses it; the same URI gives the same one.

    Attributes:
        uri: how it was asked for, in full.
        driver: `edgert`, `local-task`, `local-sync`, `vulkan`, `cuda`, `hip` or `metal`.
        runs: whose modules it runs: `vulkan` for `edgert://vulkan`, `cuda` for `edgert://cuda`,
            else the driver.
        name: what the driver calls it.
        runtime: the runtime behind it and its version, such as `edgert 0.1.0`.
        identity: of device and driver version, where the runtime tells.
        backend: the runtime behind it.
        hal: IREE's `HalDevice`, for use with `iree.runtime`; None with edgert.
        native_uri: what IREE's own tools (`iree-run-module --device=`) call it; empty with edgert.
        native_flags: the flags with which they treat it as edgec does.
    """

    _open: ClassVar[dict[str, "Device"]] = {}
    _lock: ClassVar[threading.RLock] = threading.RLock()

    def __init__(self, *, uri: str, driver: str, opened: Opened) -> None:
        self.uri = uri
        self.driver = driver
        self.runs = opened.runs or driver
        self.name = opened.name
        self.runtime = opened.runtime
        self.identity = opened.identity
        self.backend = opened.backend
        self.hal: Any = getattr(opened.backend, "hal", None)
        self.native_uri = opened.native_uri
        self.native_flags = opened.native_flags

    @classmethod
    def open(cls, uri: "str | Device") -> "Device":
        """The device of a URI: `DRIVER`, `DRIVER://INDEX` or `DRIVER://ID`.

        `cpu` is `edgert://cpu`, or IREE's `local-task` where edgert's library is not here; `gpu`
        (`gpu://1`) is `edgert://vulkan`, or IREE's `vulkan`; `cuda` is `edgert://cuda`, or IREE's
        `cuda://0`.
        `cpu?threads=N` computes on N threads, the caller's included; without it on as many as
        there are processors. `local-task?threads=N` has N worker threads; without it a thread a
        physical core.

        Raises:
            DeviceMissing: it is not here; the message says why and what mends it.
            DeviceError: it is here and does not open.
            UsageError: the URI makes no sense.
        """
        if isinstance(uri, Device):
            return uri
        edgert, *iree = device_choices(uri)
        if iree:
            try:
                return cls.open(edgert)
            except DeviceMissing as missing:
                try:
                    return cls.open(iree[0])
                except DeviceMissing:
                    raise missing from None
        driver, path, threads = parse_uri(uri)
        key = _spell(driver, path, threads)
        with cls._lock:
            if key not in cls._open:
                opened = find_driver(driver).open(key, path, threads)
                cls._open[key] = cls(uri=key, driver=driver, opened=opened)
            return cls._open[key]

    @property
    def maps_memory(self) -> bool:
        """Whether its memory is the host's, so that arrays can be shared without a copy."""
        return self.backend.maps_memory

    def put(self, array: Any, *, copy: bool | None = True) -> DeviceArray:
        """A host array on this device.

        Args:
            array: a NumPy array, or what `np.asarray` takes.
            copy: True copies. None shares the memory where that is possible (a local device, a
                contiguous, writable array at a 64-byte aligned address; see `aligned_empty`), and
                the array must then not be written to. False shares or raises.

        Raises:
            InputError: an element type that devices do not have, or sharing is not possible.
            DeviceError: out of memory, or the device failed.
        """
        if isinstance(array, DeviceArray):
            array = array.numpy()
        host = np.asarray(array)
        dtype = DType.of(host.dtype)
        shared = None if copy else share_in(self, host, dtype)
        if shared is not None:
            return shared
        if copy is False:
            raise InputError(
                f"{self.uri} cannot share this array's memory",
                hint="use a local device and a contiguous array from aligned_empty(), or copy=True",
            )
        return copy_in(self, host, dtype)

    def from_dlpack(self, tensor: Any) -> DeviceArray:
        """A tensor of another framework, by DLPack; host memory is shared where it can be.

        Raises:
            InputError: it is not in host memory, or its framework does not give it out.
        """
        if not hasattr(tensor, "__dlpack__"):
            raise InputError(
                f"{type(tensor).__name__} has no DLPack interface", hint="use Device.put"
            )
        return dlpack_in(self, tensor)

    def __repr__(self) -> str:
        return f"<Device {self.uri}: {self.name}>"


def devices(drivers: Sequence[str] = DRIVERS) -> tuple[DeviceStatus, ...]:
    """Every device of these drivers, usable or not; GPUs are asked in child processes.

    A driver without devices is one status that says why, and what mends it.
    """
    with ThreadPoolExecutor(max_workers=len(drivers) or 1) as pool:
        return tuple(s for found in pool.map(_probe, drivers) for s in found)


def _probe(driver: str) -> tuple[DeviceStatus, ...]:
    return find_driver(driver).probe()


def parse_uri(uri: str) -> tuple[str, str, int | None]:
    """Driver, path and thread count of a device's URI.

    Raises:
        UsageError: it has an option that makes no sense.
    """
    rest, _, query = uri.partition("?")
    driver, _, path = rest.partition("://")
    options = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
    text = options.pop("threads", None)
    if options or (text is not None and driver not in _THREADED):
        raise UsageError(
            f"the device {uri} has an option that does not exist",
            hint="the only one is ?threads=N, of cpu, edgert://cpu and local-task",
        )
    if text is not None and not (text.isdecimal() and 1 <= int(text) <= 1024):
        raise UsageError(f"the device {uri} needs a number of threads from 1 to 1024")
    return driver, path.strip("/"), None if text is None else int(text)


def device_choices(uri: str) -> tuple[str, ...]:
    """What a URI stands for, the first choice first: edgert for `cpu`, `gpu` and `cuda`, then IREE.

    Any other URI stands for itself, `cuda://0` too.

    Raises:
        UsageError: it has an option that makes no sense.
        DeviceMissing: there is no such cpu.
    """
    driver, path, threads = parse_uri(uri)
    if uri == "cuda":
        return ("edgert://cuda", "cuda://0")
    if driver == "gpu":
        return (f"edgert://vulkan/{path or 0}", f"vulkan://{path or 0}")
    if driver != "cpu":
        return (uri,)
    if path not in ("", "0"):
        raise DeviceMissing(f"{uri} is not here: there is one cpu", hint="use cpu")
    options = "" if threads is None else f"?threads={threads}"
    return (f"edgert://cpu{options}", f"local-task{options}")


def _spell(driver: str, path: str, threads: int | None) -> str:
    """The one spelling of a device: GPUs have an index, edgert's a name first, IREE's CPU none."""
    if driver == "edgert":
        path = (path or "cpu").removesuffix("/0")
    local = driver in ("local-task", "local-sync")
    path = ("" if path == "0" else path) if local else path or "0"
    uri = f"{driver}://{path}" if path else driver
    return uri if threads is None else f"{uri}?threads={threads}"
