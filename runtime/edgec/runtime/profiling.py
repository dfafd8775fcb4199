"""Which of a function's dispatches take the time, measured by the runtime's own profiler.

`iree-benchmark-module` and `iree-profile` ship inside iree-base-runtime. They run in processes of
their own, so what they measure is not disturbed by Python.
"""

import importlib.util
import json
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgec.runtime.benchmark import example_inputs
from edgec.runtime.device import Device, device_choices, parse_uri
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import DeviceError, InputError, MissingExtra, UsageError
from edgec.runtime.fitness import check_fits, default_device
from edgec.runtime.module import Module
from edgec.runtime.parameters import weights_path
from edgec.runtime.signature import Signature

__all__ = ["Dispatch", "Profile", "profile"]

_TIMEOUT = 600.0
# What to record: CPU drivers time each dispatch on the host, GPU drivers on the device.
_HOST_MODE, _DEVICE_MODE = "host-execution,queue-events", "queue-events,dispatch-events"
# Element types that IREE's command line spells in another way than edgec.
_SPELLINGS = {DType.BOOL: "i1"}


@dataclass(frozen=True, kw_only=True)
class Dispatch:
    """One kernel: how often it ran in all, and for how long, in seconds."""

    name: str
    count: int
    total: float
    mean: float
    minimum: float
    maximum: float


@dataclass(frozen=True, kw_only=True)
class Profile:
    """A function's dispatches, the longest in total first.

    Attributes:
        function: what was called.
        device: the URI.
        calls: how often.
        dispatches: a kernel each; none for a function that runs no kernels.
    """

    function: str
    device: str
    calls: int
    dispatches: tuple[Dispatch, ...]

    @property
    def total(self) -> float:
        """Seconds in all dispatches of all calls."""
        return sum(dispatch.total for dispatch in self.dispatches)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types; times in seconds."""
        return {
            "function": self.function,
            "device": self.device,
            "calls": self.calls,
            "total": self.total,
            "dispatches": [
                {
                    "name": d.name,
                    "count": d.count,
                    "total": d.total,
                    "mean": d.mean,
                    "minimum": d.minimum,
                    "maximum": d.maximum,
                }
                for d in self.dispatches
            ],
        }


def profile(
    path: Path | str | Module,
    *,
    function: str | None = None,
    inputs: Sequence[np.ndarray] | None = None,
    device: str | Device | None = None,
    weights: Path | str | None = None,
    calls: int = 10,
) -> Profile:
    """Call one function `calls` times and say how long each of its dispatches took.

    Arguments are those of `bench`. The profiler is IREE's: for edgert's devices its own are
    measured, `local-task` for the CPU, which run the same code; `Profile.device` says which.

    Raises:
        UsageError: fewer than one call.
        DeviceError: the profiler failed.
        EdgecError: the module does not fit the device.
    """
    if calls < 1:
        raise UsageError("a profile needs at least one call")
    module = path if isinstance(path, Module) else Module.read(path)
    wanted = default_device(module) if device is None else device
    chosen = Device.open(wanted if isinstance(wanted, Device) else device_choices(wanted)[-1])
    chosen = _with_profiler(chosen)
    check_fits(module, chosen)
    signature = _choose(module, function)
    arrays = example_inputs(signature) if inputs is None else list(inputs)
    if len(arrays) != len(signature.inputs):
        raise InputError(
            f"{signature.name}() takes {len(signature.inputs)} inputs and got {len(arrays)}",
            hint=f"call it as {signature}",
        )
    file = weights_path(module, weights)
    scope = module.facts.weights.scope if module.facts.weights is not None else "model"
    local = chosen.maps_memory
    with tempfile.TemporaryDirectory(prefix="edgec-") as folder:
        bundle = Path(folder, "profile.ireeprof")
        command = [
            _tool("iree-benchmark-module"),
            f"--module={module.path}",
            f"--device={chosen.native_uri}",
            f"--function={signature.name}",
            f"--benchmark_min_time={calls}x",
            f"--device_profiling_mode={_HOST_MODE if local else _DEVICE_MODE}",
            f"--device_profiling_output={bundle}",
            *(f"--input={_input(Path(folder), i, a)}" for i, a in enumerate(arrays)),
            *([f"--parameters={scope}={file}"] if file is not None else []),
            *chosen.native_flags,
        ]
        _run(command)
        report = ""
        if bundle.exists():
            report = _run([_tool("iree-profile"), "dispatch", "--format=jsonl", str(bundle)])
    return Profile(
        function=signature.name,
        device=chosen.uri,
        calls=calls,
        dispatches=_dispatches(report),
    )


def _with_profiler(device: Device) -> Device:
    """The device, or for edgert's the one of IREE's runtime that runs the same code on it."""
    if device.native_uri:
        return device
    _, path, threads = parse_uri(device.uri)
    kind, _, number = path.partition("/")
    if kind == "vulkan":
        return Device.open(f"vulkan://{number or 0}")
    return Device.open("local-task" if threads is None else f"local-task?threads={threads}")


def _choose(module: Module, name: str | None) -> Signature:
    if name is None:
        name = next(iter(module.signatures), "")
    if name not in module.signatures:
        raise InputError(
            f"{module.path} has no function {name!r}",
            hint=f"it has {', '.join(module.signatures) or 'none'}",
        )
    return module.signatures[name]


def _input(folder: Path, index: int, array: np.ndarray) -> str:
    """An array as a file and the argument that reads it."""
    dtype = DType.of(array.dtype)
    if dtype.numpy.kind == "c":  # IREE's command line has no word for these
        file = folder / f"{index}.npy"
        np.save(file, array)
        return f"@{file}"
    file = folder / f"{index}.bin"
    file.write_bytes(np.ascontiguousarray(array).tobytes())
    kind = _SPELLINGS.get(dtype, dtype.value.replace("u", "ui"))
    return "x".join([*map(str, array.shape), kind]) + f"=@{file}"


def _tool(name: str) -> str:
    """A program that ships inside iree-base-runtime.

    Raises:
        MissingExtra: it is not there.
    """
    spec = importlib.util.find_spec("iree._runtime_libs")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        for file in (Path(folder, name), Path(folder, f"{name}.exe")):
            if file.exists():
                return str(file)
    raise MissingExtra(f"{name} is not installed", hint="pip install iree-base-runtime")


def _run(command: Sequence[str]) -> str:
    tool = Path(command[0]).name
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise DeviceError(f"{tool} did not end within {_TIMEOUT:.0f} s") from error
    except OSError as error:
        raise DeviceError(f"{tool} does not start: {error.strerror}") from error
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise DeviceError(
            f"{tool} ended with {done.returncode}: {(lines or ['no message'])[0][:300]}",
            hint="run the module first, to see whether it works",
        )
    return done.stdout


def _dispatches(report: str) -> tuple[Dispatch, ...]:
    found: list[Dispatch] = []
    for line in report.splitlines():
        row = json.loads(line) if line.startswith("{") else {}
        timed = row.get("time_ns_available", True) and row.get("valid", 0)
        if row.get("type") not in ("host_dispatch_group", "dispatch_group") or not timed:
            continue
        found.append(
            Dispatch(
                name=str(row["key"]),
                count=int(row["count"]),
                total=row["total_ns"] * 1e-9,
                mean=row["avg_ns"] * 1e-9,
                minimum=row["min_ns"] * 1e-9,
                maximum=row["max_ns"] * 1e-9,
            )
        )
    return tuple(sorted(found, key=lambda dispatch: -dispatch.total))
