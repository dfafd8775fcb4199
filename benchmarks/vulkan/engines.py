"""One engine with one network, in a process of its own that calls it when it is told to.

IREE's driver has two threads that wait for semaphores, which Mesa's lavapipe does by asking for the
time without a pause: on two cores they take half of what is there from all in their process, so
engines are only comparable apart. `networks.py` starts `python engines.py ENGINE MODULE FOLDER`,
where the folder holds `inputs.npz`, `truth.npy`, the weights by backend, if they are not in the
module, and a file `half` for a network in f16; it stops a process while another one's turn is.
Needs what the engine needs, and NumPy.
"""

import importlib
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "cuda"))
sys.path.insert(0, str(Path(__file__).parents[2]))

__all__ = ["DEVICES", "EVERY", "turn"]

DEVICES = {
    "edgert": ("edgert://vulkan", "vulkan-spirv"),
    "iree": ("vulkan://0", "vulkan-spirv"),
    "cuda": ("edgert://cuda", "cuda"),
}
"""Each engine's device that runs edgec's modules, and whose modules it runs."""
EVERY = (*DEVICES, "plain", "ncnn")
_IMPORTS = {"ncnn": "ncnn", "plain": "loaded"}
_PROFILED = 20
"""Calls."""
_LONGEST = 40
_WARM = 0.5
"""Seconds of calls before those that are timed: a GPU that was idle begins at a slow clock."""
_TURN = 10.0
"""Seconds after which no further call of a turn begins."""


class Module:
    """edgec's module on a device, called with what lies there.

    Attributes:
        answer: of the first call, flat.
    """

    def __init__(
        self, path: Path, device: str, weights: Path | None, inputs: Sequence[np.ndarray]
    ) -> None:
        from edgec import runtime

        self._loaded = runtime.load(path, device=device, weights=weights)
        self._function = self._loaded.main
        self._inputs = [self._loaded.device.put(each) for each in inputs]
        self.answer = np.asarray(self()[0].numpy(), np.float64).ravel()

    def __call__(self) -> Any:
        """One call, waited for; its result stays where it is."""
        return self._function.call_flat(self._inputs)


class Ncnn:
    """A network of ncnn's with weights of zeros on the GPU, its inputs and results on the host."""

    answer = None

    def __init__(self, path: Path, *, half: bool, inputs: Sequence[np.ndarray]) -> None:
        import ncnn

        net = ncnn.Net()
        net.opt.use_vulkan_compute = True
        for option in ("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic"):
            setattr(net.opt, option, half)
        if net.load_param(str(path)) or net.load_model(ncnn.DataReaderFromEmpty()):
            raise RuntimeError("ncnn does not load it")
        self._net = net
        self._given = [
            ncnn.Mat(each[0].astype(np.float32 if each.dtype.kind == "f" else np.int32))
            for each in inputs
        ]
        self()

    def __call__(self) -> Any:
        """One call."""
        extractor = self._net.create_extractor()
        for name, value in zip(self._net.input_names(), self._given, strict=True):
            extractor.input(name, value)
        status, result = extractor.extract(self._net.output_names()[0])
        if status:
            raise RuntimeError(f"ncnn ended with {status}")
        return result


def _open(engine: str, path: Path, folder: Path, inputs: Sequence[np.ndarray]) -> Any:
    """A network, called once."""
    half = (folder / "half").exists()
    if engine == "ncnn":
        return Ncnn(path, half=half, inputs=inputs)
    if engine == "plain":
        from loaded import Loaded
        from safetensors.numpy import load_file

        module = Loaded(path, "vulkan", load_file(folder / "vulkan-spirv.safetensors"), inputs)
        module.answer = module.answer(np.float16 if half else np.float32).ravel()
        return module
    device, backend = DEVICES[engine]
    weights = folder / f"{backend}.safetensors"
    return Module(path, device, weights if weights.exists() else None, inputs)


def turn(call: Callable[[], Any], count: int) -> float:
    """The median of so many calls' seconds, or of those that begin within some seconds."""
    end = time.perf_counter() + _WARM
    while time.perf_counter() < end:
        call()
    times: list[float] = []
    end = time.perf_counter() + _TURN
    while len(times) < count and (not times or time.perf_counter() < end):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def _dispatches(path: Path, weights: Path | None, inputs: Sequence[np.ndarray]) -> dict[str, Any]:
    """Microseconds of one call's dispatches on the GPU, by edgert's time stamps."""
    from edgec.runtime.profiling import profile

    device, _ = DEVICES["edgert"]
    found = profile(path, inputs=list(inputs), device=device, weights=weights, calls=_PROFILED)
    rows = [(d.name, d.count / _PROFILED, d.total * 1e6 / _PROFILED) for d in found.dispatches]
    return {
        "device": found.device,
        "count": sum(count for _, count, _ in rows),
        "busy_us": round(sum(us for *_, us in rows), 1),
        "idle_us": round(found.idle * 1e6 / _PROFILED, 1),
        "longest": [[name, count, round(us, 1)] for name, count, us in rows[:_LONGEST]],
    }


def _serve(engine: str, path: Path, folder: Path, told: TextIO) -> None:
    """Load and say how that went; then a turn, or a profile, for every line that comes."""

    def tell(said: dict[str, Any]) -> None:
        print(json.dumps(said), file=told, flush=True)

    inputs = list(np.load(folder / "inputs.npz").values())
    importlib.import_module(_IMPORTS.get(engine, "edgec.runtime"))
    start = time.perf_counter()
    try:
        network = _open(engine, path, folder, inputs)
    except Exception as error:  # noqa: BLE001 - a driver's refusal is one cell of the row
        said = (str(error).strip() or type(error).__name__).splitlines()[0]
        tell({"failed": said.replace(f"{path.parent}/", "")[:300]})
        return
    ready = {"first_s": round(time.perf_counter() - start, 2)}
    if network.answer is not None:
        truth = np.load(folder / "truth.npy").ravel()
        off = np.linalg.norm(network.answer - truth) / np.linalg.norm(truth)
        ready["error"] = float(f"{off:.2g}")
    tell(ready)
    for line in sys.stdin:
        asked = json.loads(line)
        if "profile" in asked:
            weights = folder / f"{DEVICES[engine][1]}.safetensors"
            tell(_dispatches(path, weights if weights.exists() else None, inputs))
        else:
            tell({"s": turn(network, asked["calls"])})


def main() -> None:
    # What libraries print must not come between what is told.
    told = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    engine, path, folder = sys.argv[1:]
    _serve(engine, Path(path), Path(folder), told)


if __name__ == "__main__":
    main()
