"""How long a module takes on a device: to load, at the first call, and steadily."""

import contextlib
import gc
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgec.runtime.device import Device
from edgec.runtime.errors import DeviceError, InputError, UsageError
from edgec.runtime.loaded import Function, LoadedModule, load
from edgec.runtime.module import Module
from edgec.runtime.signature import Signature, TensorSpec

__all__ = ["BenchResult", "bench", "example_inputs"]


@dataclass(frozen=True, kw_only=True)
class BenchResult:
    """Times are in seconds, memory in bytes.

    Attributes:
        path: the module file.
        function: what was called.
        device: the URI, and `device_name` what the driver calls it.
        runtime: the runtime that ran it, such as `edgert`.
        load: reading, checking and loading the file, once.
        first: the first call; GPU drivers build their pipelines here.
        calls: how many calls were timed, over all threads.
        p50, p90, p99, mean, minimum: of the steady calls, inputs and results on the device.
        throughput: calls a second over all threads together.
        peak_rss: the most memory the process ever had, its libraries included; 0 on Windows.
        threads: how many callers there were, each with a load of its own.
    """

    path: Path
    function: str
    device: str
    device_name: str
    runtime: str
    load: float
    first: float
    calls: int
    p50: float
    p90: float
    p99: float
    mean: float
    minimum: float
    throughput: float
    peak_rss: int
    threads: int

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types; times in seconds."""
        return {
            "path": str(self.path),
            "function": self.function,
            "device": self.device,
            "device_name": self.device_name,
            "runtime": self.runtime,
            "load": self.load,
            "first": self.first,
            "calls": self.calls,
            "p50": self.p50,
            "p90": self.p90,
            "p99": self.p99,
            "mean": self.mean,
            "minimum": self.minimum,
            "throughput": self.throughput,
            "peak_rss": self.peak_rss,
            "threads": self.threads,
        }


def bench(
    path: Path | str | Module,
    *,
    function: str | None = None,
    inputs: Sequence[Any] | None = None,
    device: str | Device | None = None,
    weights: Path | str | None = None,
    seconds: float = 2.0,
    max_calls: int = 100_000,
    warmup: int = 3,
    threads: int = 1,
) -> BenchResult:
    """Load a module and call one function over and over.

    Args:
        path: the module.
        function: its name; the first function without.
        inputs: flat inputs in the signature's order; `example_inputs` without.
        device: as in `load`.
        weights: as in `load`.
        seconds: how long to measure steady calls, at least three calls a thread.
        max_calls: the most calls a thread.
        warmup: calls between the first and the steady ones, not timed.
        threads: callers at the same time, each with a module of its own on the one device.

    Raises:
        UsageError: a count or time makes no sense.
        EdgecError: the module does not load or run.
    """
    if seconds <= 0 or max_calls < 1 or warmup < 0 or not 1 <= threads <= 1024:
        raise UsageError("a benchmark needs a time above 0, calls, and 1 to 1024 threads")
    start = time.perf_counter()
    first_module = load(path, device=device, weights=weights)
    load_time = time.perf_counter() - start
    modules = [first_module]
    try:
        called = _choose(first_module, function)
        leaves = example_inputs(called.signature) if inputs is None else list(inputs)
        start = time.perf_counter()
        called.call_flat(leaves)
        first_call = time.perf_counter() - start
        for _ in range(threads - 1):
            modules.append(load(first_module.module, device=first_module.device, weights=weights))
        callers = [
            _Caller(
                function=module[called.name],
                leaves=_resident(module.device, leaves),
                warmup=warmup,
                seconds=seconds,
                max_calls=max_calls,
            )
            for module in modules
        ]
        elapsed = _run_all(callers)
    finally:
        for module in modules:
            module.close()
    times = np.sort(np.concatenate([caller.times for caller in callers]))
    p50, p90, p99 = (float(np.quantile(times, q)) for q in (0.5, 0.9, 0.99))
    return BenchResult(
        path=first_module.module.path,
        function=called.name,
        device=first_module.device.uri,
        device_name=first_module.device.name,
        runtime=first_module.device.runtime,
        load=load_time,
        first=first_call,
        calls=len(times),
        p50=p50,
        p90=p90,
        p99=p99,
        mean=float(times.mean()),
        minimum=float(times[0]),
        throughput=len(times) / elapsed,
        peak_rss=_peak_rss(),
        threads=threads,
    )


def example_inputs(signature: Signature, seed: int = 0) -> list[np.ndarray]:
    """Inputs to measure with: floats normal, integers 0 or 1 (safe as indices), named sizes least.

    A named dimension is its minimum, and at least 1.
    """
    random = np.random.default_rng(seed)
    return [_example(spec, random) for spec in signature.inputs]


def _example(spec: TensorSpec, random: np.random.Generator) -> np.ndarray:
    shape = tuple(d if isinstance(d, int) else max(1, d.minimum) for d in spec.shape)
    if spec.dtype.is_float:
        return np.asarray(random.standard_normal(shape)).astype(spec.dtype.numpy)
    return np.asarray(random.integers(0, 2, shape)).astype(spec.dtype.numpy)


class _Caller:
    """One thread's calls: all callers warm up, start together and measure as long."""

    def __init__(
        self,
        *,
        function: Function,
        leaves: Sequence[Any],
        warmup: int,
        seconds: float,
        max_calls: int,
    ) -> None:
        self._function = function
        self._leaves = leaves
        self._warmup = warmup
        self._seconds = seconds
        self._max_calls = max_calls
        self.times = np.zeros(0)
        self.started = self.ended = 0.0
        self.error: Exception | None = None

    def run(self, ready: threading.Barrier) -> None:
        try:
            for _ in range(self._warmup):
                self._function.call_flat(self._leaves)
            ready.wait()
            self.times = self._measure()
        except threading.BrokenBarrierError:
            return
        except Exception as error:  # noqa: BLE001 - raised again in the thread that asked
            self.error = error
            ready.abort()

    def _measure(self) -> np.ndarray:
        times: list[float] = []
        self.started = now = time.perf_counter()
        end = now + self._seconds
        while len(times) < self._max_calls and (now < end or len(times) < 3):
            self._function.call_flat(self._leaves)
            later = time.perf_counter()
            times.append(later - now)
            now = later
        self.ended = now
        return np.asarray(times)


def _run_all(callers: Sequence[_Caller]) -> float:
    """Run the callers at the same time; seconds from the first start to the last end.

    The callers note their own starts: the thread that waits for them may be woken long after.
    """
    gc.collect()
    ready = threading.Barrier(len(callers) + 1)
    workers = [threading.Thread(target=c.run, args=(ready,), daemon=True) for c in callers]
    for worker in workers:
        worker.start()
    with contextlib.suppress(threading.BrokenBarrierError):
        ready.wait()
    for worker in workers:
        worker.join()
    for caller in callers:
        if caller.error is not None:
            raise caller.error
    if not all(len(caller.times) for caller in callers):
        raise DeviceError("the benchmark's threads could not start together")
    return max(c.ended for c in callers) - min(c.started for c in callers)


def _choose(module: LoadedModule, name: str | None) -> Function:
    if name is not None:
        return module[name]
    if not module.signatures:
        raise InputError(f"{module.module.path} has no function that can be called")
    return module[next(iter(module.signatures))]


def _resident(device: Device, leaves: Sequence[Any]) -> list[Any]:
    return [device.put(leaf) if isinstance(leaf, np.ndarray) else leaf for leaf in leaves]


def _peak_rss() -> int:
    if sys.platform == "win32":
        return 0  # it does not say
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
