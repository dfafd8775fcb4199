"""Modules of PyTorch's networks and a GPU to figures: edgert, IREE, plain IREE, CUDA and ncnn.

Run on the machine with the GPU: `python benchmarks/vulkan/networks.py FOLDER [STEMS] --json FILE`.
The folder holds what `benchmarks/cuda/torch_modules.py`, `plain_networks.py` and `ncnn_networks.py`
made. CUDA is edgec's modules on edgert's driver for it. Needs
`edgec-runtime` with edgert's Vulkan, `iree-base-runtime`, PyTorch, `transformers` and `timm`.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "cuda"))
sys.path.insert(0, str(Path(__file__).parents[2]))

from loaded import Loaded
from turns import CALLS, seconds

from benchmarks.zoo.kinds.torch_models import declare_torchvision

ROUNDS = 5
ENGINES = {
    "edgert": ("edgert://vulkan", "vulkan-spirv"),
    "iree": ("vulkan://0", "vulkan-spirv"),
    "cuda": ("edgert://cuda", "cuda"),
}
"""Each engine's device, and whose modules it runs."""
EVERY = (*ENGINES, "plain", "ncnn")
PROFILED = 20
"""Calls."""
_LONGEST = 40
_SLOW = 0.05
"""Seconds of a call from which on one engine has fewer calls than others."""
_FEW = 5
_WARM = 0.5
"""Seconds of calls before those that are timed: a GPU that was idle begins at a slow clock."""


class Module:
    """A module on a device, called with what lies there; see `seconds`.

    Attributes:
        first: seconds from the file to the first answer.
    """

    def __init__(self, path: Path, device: str, weights: Path, inputs: Sequence[np.ndarray]):
        from edgec import runtime

        start = time.perf_counter()
        self._loaded = runtime.load(path, device=device, weights=weights)
        self._function = self._loaded.main
        self._inputs = [self._loaded.device.put(each) for each in inputs]
        self.answer = np.asarray(self()[0].numpy(), np.float64)
        self.first = time.perf_counter() - start

    def __call__(self) -> Any:
        """One call, waited for; its result stays where it is."""
        return self._function.call_flat(self._inputs)


class Ncnn:
    """A network of ncnn's with weights of zeros on the GPU, its inputs and results on the host."""

    def __init__(self, path: Path, kind: str, inputs: Sequence[np.ndarray]) -> None:
        import ncnn

        start = time.perf_counter()
        net = ncnn.Net()
        net.opt.use_vulkan_compute = True
        for option in ("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic"):
            setattr(net.opt, option, kind == "f16")
        if net.load_param(str(path)) or net.load_model(ncnn.DataReaderFromEmpty()):
            raise RuntimeError("ncnn does not load it")
        self._net = net
        self._given = [
            ncnn.Mat(each[0].astype(np.float32 if each.dtype.kind == "f" else np.int32))
            for each in inputs
        ]
        self()
        self.first = time.perf_counter() - start

    def __call__(self) -> Any:
        """One call."""
        extractor = self._net.create_extractor()
        for name, value in zip(self._net.input_names(), self._given, strict=True):
            extractor.input(name, value)
        status, result = extractor.extract(self._net.output_names()[0])
        if status:
            raise RuntimeError(f"ncnn ended with {status}")
        return result


def _dispatches(path: Path, weights: Path, inputs: Sequence[np.ndarray]) -> dict[str, Any]:
    """Microseconds of one call's dispatches on the GPU, by edgert's time stamps."""
    from edgec.runtime.profiling import profile

    device, _ = ENGINES["edgert"]
    found = profile(path, inputs=list(inputs), device=device, weights=weights, calls=PROFILED)
    rows = [(d.name, d.count / PROFILED, d.total * 1e6 / PROFILED) for d in found.dispatches]
    return {
        "device": found.device,
        "count": sum(count for _, count, _ in rows),
        "busy_us": round(sum(us for *_, us in rows), 1),
        "idle_us": round(found.idle * 1e6 / PROFILED, 1),
        "longest": [[name, count, round(us, 1)] for name, count, us in rows[:_LONGEST]],
    }


def measure(
    stem: str,
    folder: Path,
    *,
    profiled: bool,
    rounds: int = ROUNDS,
    count: int = CALLS,
    engines: Collection[str] = EVERY,
) -> dict[str, Any]:
    """One network in one type: milliseconds, seconds to the first answer and errors by engine."""
    import torch
    from safetensors.numpy import save_file
    from torch_models import build
    from torch_run import weights_of

    name, _, kind = stem.rpartition("-")
    model, inputs = build(name, kind)
    with torch.no_grad():
        exact = model.double()(*(v.double() if v.is_floating_point() else v for v in inputs))
        truth = exact.numpy()
    model, inputs = build(name, kind)
    given = [value.numpy() for value in inputs]
    row: dict[str, Any] = {"name": stem, "first_s": {}, "error": {}, "failed": {}}
    calls: dict[str, Callable[[], Any]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for engine, (device, backend) in ENGINES.items():
            path = folder / f"{stem}.{backend}.edgec.vmfb"
            weights = Path(scratch, f"{backend}.safetensors")
            if engine not in engines or not path.exists():
                continue
            if not weights.exists():
                lifted = folder / f"{stem}.{backend}.npz"
                tensors = weights_of(model, lifted)
                save_file({n: np.ascontiguousarray(v) for n, v in tensors.items()}, weights)
            try:
                module = Module(path, device, weights, given)
            except Exception as error:  # noqa: BLE001 - a driver's refusal is one cell of the row
                said = str(error).partition("\n")[0].replace(f"{folder}/", "")
                row["failed"][engine] = said[:300]
                continue
            calls[engine] = module
            row["first_s"][engine] = round(module.first, 2)
            size = np.linalg.norm(truth)
            off = np.linalg.norm(module.answer.reshape(truth.shape) - truth) / size
            row["error"][engine] = float(f"{off:.2g}")
        if "plain" in engines:
            _add_plain(stem, folder, model, given, truth, row, calls)
        layers = folder / f"{name}.ncnn.param"
        if "ncnn" in engines and layers.exists():
            try:
                calls["ncnn"] = network = Ncnn(layers, kind, given)
                row["first_s"]["ncnn"] = round(network.first, 2)
            except (RuntimeError, ImportError) as error:
                row["failed"]["ncnn"] = str(error)[:300]
        _warm(calls)
        slow = {e: call for e, call in calls.items() if _once(call) > _SLOW}
        if len(slow) == len(calls):
            slow = {}  # No engine holds the others up: all take turns.
        for engine in slow:
            del calls[engine]
        found = {**seconds(calls, rounds, count), **seconds(slow, 1, _FEW)}
        row["ms"] = {e: round(1e3 * s, 4) for e, s in found.items()}
        path = folder / f"{stem}.vulkan-spirv.edgec.vmfb"
        if profiled and "edgert" in calls:
            row["dispatches"] = _dispatches(path, Path(scratch, "vulkan-spirv.safetensors"), given)
    return row


def _add_plain(
    stem: str,
    folder: Path,
    model: Any,
    given: Sequence[np.ndarray],
    truth: np.ndarray,
    row: dict[str, Any],
    calls: dict[str, Callable[[], Any]],
) -> None:
    """What plain `iree-compile` made of the network on IREE's driver, or what it said."""
    from torch_run import weights_of

    path = folder / f"{stem}.vulkan-spirv.plain.vmfb"
    said = path.with_suffix(".json")
    if not said.exists():
        return
    refused = json.loads(said.read_text()).get("refused")
    if refused is not None:
        row["failed"]["plain"] = f"iree-compile: {refused}"
        return
    try:
        weights = weights_of(model, folder / f"{stem}.vulkan-spirv.npz")
        calls["plain"] = module = Loaded(path, "vulkan", weights, given)
        answer = module.answer({"f16": np.float16, "f32": np.float32}[stem.rpartition("-")[2]])
    except (RuntimeError, ValueError) as error:
        calls.pop("plain", None)
        row["failed"]["plain"] = f"IREE's driver: {str(error).strip().splitlines()[0][:200]}"
        return
    row["first_s"]["plain"] = round(module.first, 2)
    off = np.linalg.norm(answer.reshape(truth.shape) - truth) / np.linalg.norm(truth)
    row["error"]["plain"] = float(f"{off:.2g}")


def _once(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _warm(calls: dict[str, Callable[[], Any]]) -> None:
    """Each for a while."""
    for call in calls.values():
        end = time.perf_counter() + _WARM
        while time.perf_counter() < end:
            call()


def _again(stem: str, folder: Path, limit: int) -> float:
    """Seconds to edgert's first answer in a process of its own, which finds kernels compiled."""
    words = [sys.executable, __file__, str(folder), stem, "--first"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=limit, check=True)
    return float(done.stdout)


def _first(stem: str, folder: Path) -> float:
    """The same here, where the module is the first thing that is run."""
    from safetensors.numpy import save_file
    from torch_models import build
    from torch_run import weights_of

    model, inputs = build(*stem.rpartition("-")[::2])
    device, backend = ENGINES["edgert"]
    path = folder / f"{stem}.{backend}.edgec.vmfb"
    with tempfile.TemporaryDirectory() as scratch:
        weights = Path(scratch, "weights.safetensors")
        tensors = weights_of(model, folder / f"{stem}.{backend}.npz")
        save_file({n: np.ascontiguousarray(v) for n, v in tensors.items()}, weights)
        return Module(path, device, weights, [value.numpy() for value in inputs]).first


def _apart(stem: str, options: argparse.Namespace) -> dict[str, Any]:
    """`measure` in a process of its own: what one network does wrong costs one row."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "row.json"
        command = [sys.executable, __file__, str(options.folder), stem, "--json", str(path)]
        command += ["--profile"] if options.profile else []
        command += [f"--rounds={options.rounds}", f"--calls={options.calls}"]
        command += ["--engines", *options.engines]
        limit = options.limit
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=limit, check=False
            )
        except subprocess.TimeoutExpired:
            return {"name": stem, "ms": {}, "failed": {"all": f"took longer than {limit} s"}}
        if done.returncode or not path.exists():
            told = (done.stderr.strip().splitlines() or ["no message"])[-1]
            return {"name": stem, "ms": {}, "failed": {"all": f"{done.returncode}: {told[:300]}"}}
        row: dict[str, Any] = json.loads(path.read_text())["rows"][0]
        if "edgert" in row["first_s"]:
            row["again_s"] = round(_again(stem, options.folder, limit), 2)
        return row


def _prepare() -> None:
    """Where PyTorch has no CUDA, torchvision's operators do not load; `timm` imports it."""
    import torch

    if torch.version.cuda is None:
        declare_torchvision()


def _device() -> str:
    """What edgert's Vulkan runs on, with a GPU's driver as NVIDIA's tool names it."""
    command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    if shutil.which(command[0]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        name, _, driver = done.stdout.strip().partition(", ")
        if driver:
            return f"{name} (driver {driver})"
    from edgec import runtime

    return runtime.Device.open(ENGINES["edgert"][0]).name


def _circumstances(options: argparse.Namespace) -> dict[str, Any]:
    """How often each was called, and what else the machine did."""
    return {
        "rounds": options.rounds,
        "calls": options.calls,
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("stems", nargs="*", help="such as convnext-t-f16")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--profile", action="store_true", help="the time of each kernel, too")
    parser.add_argument("--first", action="store_true", help="print seconds to the first answer")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--calls", type=int, default=CALLS, help="of each engine in a round")
    parser.add_argument("--engines", nargs="+", default=EVERY)
    parser.add_argument("--limit", type=int, default=120, help="seconds for one network")
    options = parser.parse_args()
    _prepare()
    if options.first:
        print(_first(options.stems[0], options.folder))
        return
    made = sorted({path.name.split(".")[0] for path in options.folder.glob("*.vmfb")})
    stems = options.stems or made
    rows = []
    for stem in stems:
        rows.append(
            measure(
                stem,
                options.folder,
                profiled=options.profile,
                rounds=options.rounds,
                count=options.calls,
                engines=options.engines,
            )
            if len(options.stems) == 1
            else _apart(stem, options)
        )
        print(json.dumps({k: v for k, v in rows[-1].items() if k != "dispatches"}), flush=True)
        if options.json:
            found = {"device": _device(), "rows": rows, **_circumstances(options)}
            options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
