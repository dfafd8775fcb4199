"""A function's dispatches, timed by edgert itself: each kernel alone, on all its threads."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from edgec.runtime.device import Device, parse_uri
from edgec.runtime.dispatch_times import Dispatch, Profile
from edgec.runtime.driver import Opened
from edgec.runtime.edgert import EdgertDevice, Ran
from edgec.runtime.edgert_backend import EdgertBackend
from edgec.runtime.loaded import load
from edgec.runtime.module import Module
from edgec.runtime.signature import Signature

__all__ = ["profile_by_edgert", "timed_device"]


def profile_by_edgert(
    module: Module,
    signature: Signature,
    inputs: Sequence[np.ndarray],
    *,
    device: Device,
    weights: Path | None,
    calls: int,
) -> Profile:
    """Call one function `calls` times on an edgert device, after a call that is not counted.

    Raises:
        EdgecError: the module does not load or run.
    """
    ran: dict[str, list[Ran]] = {}
    with load(
        module, device=timed_device(device, lambda one: _note(ran, one)), weights=weights
    ) as loaded:
        function = loaded[signature.name]
        leaves = [loaded.device.put(array) for array in inputs]
        function.call_flat(leaves)  # the first one learns which kernels are worth a second thread
        ran.clear()
        start = time.perf_counter()
        for _ in range(calls):
            function.call_flat(leaves)
        elapsed = time.perf_counter() - start
    found = [_dispatch(times) for times in ran.values()]
    return Profile(
        function=signature.name,
        device=device.uri,
        calls=calls,
        dispatches=tuple(sorted(found, key=lambda dispatch: -dispatch.total)),
        elapsed=elapsed,
        idle=sum(one.idle for times in ran.values() for one in times),
    )


def _note(ran: dict[str, list[Ran]], one: Ran) -> None:
    ran.setdefault(one.kernel, []).append(one)


def timed_device(device: Device, note: Callable[[Ran], None]) -> Device:
    """The device as one of its own, which tells `note` of each kernel that ran on it."""
    _, path, threads = parse_uri(device.uri)
    kind, _, number = path.partition("/")
    own = EdgertDevice(kind or "cpu", threads=threads or 0, index=int(number or 0), timed=note)
    backend = EdgertBackend(device=own, uri=device.uri)
    opened = Opened(backend=backend, name=device.name, runtime=device.runtime, runs=device.runs)
    return Device(uri=device.uri, driver=device.driver, opened=opened)


def _dispatch(ran: Sequence[Ran]) -> Dispatch:
    seconds = [one.seconds for one in ran]
    return Dispatch(
        name=ran[0].kernel,
        where=ran[0].where,
        count=len(ran),
        total=sum(seconds),
        mean=sum(seconds) / len(ran),
        minimum=min(seconds),
        maximum=max(seconds),
    )
