"""A function's dispatches, timed by the profiler of IREE's runtime.

`iree-benchmark-module` and `iree-profile` ship inside iree-base-runtime. They run in processes of
their own, so what they measure is not disturbed by Python.
"""

import importlib.util
import json
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from edgec.runtime.device import Device
from edgec.runtime.dispatch_times import Dispatch, Profile
from edgec.runtime.dtypes import DType
from edgec.runtime.errors import DeviceError, MissingExtra
from edgec.runtime.module import Module
from edgec.runtime.signature import Signature

__all__ = ["profile_by_iree"]

_TIMEOUT = 600.0
# What to record: CPU drivers time each dispatch on the host, GPU drivers on the device.
_HOST_MODE, _DEVICE_MODE = "host-execution,queue-events", "queue-events,dispatch-events"
# Element types that IREE's command line spells in another way than edgec.
_SPELLINGS = {DType.BOOL: "i1"}


def profile_by_iree(
    module: Module,
    signature: Signature,
    inputs: Sequence[np.ndarray],
    *,
    device: Device,
    weights: Path | None,
    calls: int,
) -> Profile:
    """Call one function `calls` times on a device of IREE's.

    Raises:
        DeviceError: the profiler failed.
        MissingExtra: it is not installed.
    """
    scope = module.facts.weights.scope if module.facts.weights is not None else "model"
    mode = _HOST_MODE if device.maps_memory else _DEVICE_MODE
    with tempfile.TemporaryDirectory(prefix="edgec-") as folder:
        bundle = Path(folder, "profile.ireeprof")
        command = [
            _tool("iree-benchmark-module"),
            f"--module={module.path}",
            f"--device={device.native_uri}",
            f"--function={signature.name}",
            f"--benchmark_min_time={calls}x",
            f"--device_profiling_mode={mode}",
            f"--device_profiling_output={bundle}",
            *(f"--input={_input(Path(folder), i, a)}" for i, a in enumerate(inputs)),
            *([f"--parameters={scope}={weights}"] if weights is not None else []),
            *device.native_flags,
        ]
        _run(command)
        report = ""
        if bundle.exists():
            report = _run([_tool("iree-profile"), "dispatch", "--format=jsonl", str(bundle)])
    return Profile(
        function=signature.name,
        device=device.uri,
        calls=calls,
        dispatches=_dispatches(report),
    )


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
