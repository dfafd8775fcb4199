"""A call of a network on edgert's Vulkan to its parts: before the GPU, on it, and behind it.

Run where the device is: `python benchmarks/vulkan/call_parts.py FOLDER [STEMS]`; the folder holds
what `benchmarks/cuda/torch_modules.py` made. A library between edgert and Vulkan (`call_parts.c`,
compiled on first use, or in advance by `--library`) notes when a call submits and waits, and has
the GPU write a time stamp before and behind each submission, which its driver tells on the host's
clock. Prints medians in microseconds; `--json` keeps them.
"""

import argparse
import ctypes
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "cuda"))

SOURCE = Path(__file__).with_suffix(".c")
CALLS = 100
_WARM = 0.5
"""Seconds of calls before those that count: a GPU that was idle begins at a slow clock."""
_FIELDS = (
    *("submit_begin", "submit_end", "submit_time", "wait_end", "wait_time"),
    *("gpu_begin", "gpu_end", "gpu_time"),
    *("submissions", "waits", "recordings", "allocations"),
)


class _Noted(ctypes.Structure):
    """`parts_call` in `call_parts.c`."""

    _fields_ = [(name, ctypes.c_double) for name in _FIELDS]


def compile_library(folder: Path) -> Path:
    """The library between edgert and Vulkan, made by this machine's C compiler."""
    library = folder / "libvulkan.so.1"
    words = ("cc", "-std=c11", "-O2", "-shared", "-fPIC", SOURCE, "-ldl", "-o", library)
    subprocess.run(words, check=True)
    return library


def _real() -> str:
    """Where Vulkan's own library is."""
    told = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"libvulkan\.so\.1 .*=> (\S+)", told)
    if not found:
        raise SystemExit("there is no libvulkan.so.1 here")
    return found[1]


def _begin_again(library: Path) -> None:
    """This script with that library before Vulkan's own, which only a new process takes."""
    if os.environ.get("PARTS_REAL"):
        return
    paths = [str(library.parent), os.environ.get("LD_LIBRARY_PATH", "")]
    new = {"PARTS_REAL": _real(), "LD_LIBRARY_PATH": ":".join(filter(None, paths))}
    words = [sys.executable, *sys.argv, f"--library={library}"]
    os.execve(sys.executable, words, os.environ | new)


def parts(noting: Any, call: Callable[[], Any], count: int, *, stamped: bool) -> dict[str, float]:
    """The medians of so many calls' parts in microseconds, and how often the device was asked."""
    found: dict[str, list[float]] = {}
    for _ in range(count):
        noted = _Noted()
        noting.parts_begin(int(stamped))
        begin = time.perf_counter_ns()
        call()
        end = time.perf_counter_ns()
        noting.parts_end(ctypes.byref(noted))
        row = {
            "call": end - begin,
            "before": noted.submit_begin - begin,
            "submitting": noted.submit_time,
            "waiting": noted.wait_time,
            "behind": end - noted.wait_end,
        }
        if noted.gpu_end:
            row["until the GPU begins"] = noted.gpu_begin - noted.submit_begin
            row["on the GPU"] = noted.gpu_time
            row["from its end to the answer"] = noted.wait_end - noted.gpu_end
        for name, nanoseconds in row.items():
            found.setdefault(name, []).append(nanoseconds / 1000)
        for name in ("submissions", "waits", "recordings", "allocations"):
            found.setdefault(name, []).append(getattr(noted, name))
    return {name: round(statistics.median(all_), 1) for name, all_ in found.items()}


def measure(stem: str, folder: Path, noting: Any, count: int) -> dict[str, Any]:
    """A network's parts: on inputs that lie on the device, and from the host to the host."""
    from engines import DEVICES
    from safetensors.numpy import save_file
    from torch_models import build
    from torch_run import weights_of

    from edgec import runtime

    device, backend = DEVICES["edgert"]
    model, inputs = build(*stem.rpartition("-")[::2])
    given: Sequence[np.ndarray] = [value.numpy() for value in inputs]
    with tempfile.TemporaryDirectory() as scratch:
        weights = Path(scratch, "weights.safetensors")
        tensors = weights_of(model, folder / f"{stem}.{backend}.npz")
        save_file({n: np.ascontiguousarray(v) for n, v in tensors.items()}, weights)
        path = folder / f"{stem}.{backend}.edgec.vmfb"
        loaded = runtime.load(path, device=device, weights=weights)
    there = [loaded.device.put(each) for each in given]
    ways = {
        "on the device": lambda: loaded.main.call_flat(there),
        "from the host": lambda: loaded.main(*given),
    }
    row: dict[str, Any] = {"name": stem}
    for way, call in ways.items():
        end = time.perf_counter() + _WARM
        while time.perf_counter() < end:
            call()
        row[way] = {
            "plain": parts(noting, call, count, stamped=False),
            "stamped": parts(noting, call, count, stamped=True),
        }
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("stems", nargs="*", help="such as convnext-t-f16")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--library", type=Path, help="compiled from call_parts.c")
    parser.add_argument("--calls", type=int, default=CALLS)
    options = parser.parse_args()
    library = options.library or compile_library(Path(tempfile.mkdtemp()))
    _begin_again(library)
    # From here to the end, or the real one, which has the same name, would be taken next time.
    noting = ctypes.CDLL(str(library.resolve()))
    made = sorted({path.name.split(".")[0] for path in options.folder.glob("*spirv*.vmfb")})
    if not options.stems and not made:
        parser.error(f"no module for Vulkan in {options.folder}")
    rows = []
    for stem in options.stems or made:
        rows.append(measure(stem, options.folder, noting, options.calls))
        print(json.dumps(rows[-1]), flush=True)
    if options.json:
        options.json.write_text(json.dumps({"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
