"""Modules of PyTorch's networks and a GPU to figures: edgert, IREE, plain IREE, CUDA and ncnn.

Run on the machine with the GPU: `python benchmarks/vulkan/networks.py FOLDER [STEMS] --json FILE`.
The folder holds what `benchmarks/cuda/torch_modules.py`, `plain_networks.py` and `ncnn_networks.py`
made. CUDA is edgec's modules on edgert's driver for it. Engines have processes of their own
(`engines.py`), with caches of their own, and take turns. Needs `edgec-runtime` with edgert's
Vulkan, `iree-base-runtime`, PyTorch, `transformers` and `timm`.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "cuda"))
sys.path.insert(0, str(Path(__file__).parents[2]))

from engines import DEVICES, EVERY
from turns import CALLS

from benchmarks.nvidia import gpu
from benchmarks.zoo.kinds.torch_models import declare_torchvision
from edgec.runtime.cache_folder import CACHE_VARIABLE
from edgec.runtime.edgert_library import EDGERT_VARIABLE, find_library

ROUNDS = 5
_CACHES = (
    CACHE_VARIABLE,
    "CUDA_CACHE_PATH",
    "MESA_SHADER_CACHE_DIR",
    "XDG_CACHE_HOME",
    "__GL_SHADER_DISK_CACHE_PATH",
)
"""What names the folders where engines and drivers keep compiled kernels."""
_ENGINES = Path(__file__).with_name("engines.py")


class Refused(Exception):
    """An engine does not run a network, with what it said."""


class Engine:
    """A process with one engine and one network; it is stopped but for its turns.

    Attributes:
        pid: of the process.
        ready: what it said of its first call.
    """

    def __init__(self, name: str, path: Path, scratch: Path, limit: float) -> None:
        caches = scratch / f"caches-{name}"
        caches.mkdir(exist_ok=True)
        self._limit = limit
        self._process: Any = subprocess.Popen(
            [sys.executable, str(_ENGINES), name, str(path), str(scratch)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ
            | {EDGERT_VARIABLE: str(find_library())}
            | dict.fromkeys(_CACHES, str(caches)),
        )
        self.pid = self._process.pid
        self._said: list[str] = []
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self.ready = self._answer()
        self._process.send_signal(signal.SIGSTOP)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._end()

    def ask(self, **asked: Any) -> dict[str, Any]:
        """What it answers, while it alone runs.

        Raises:
            Refused: it ended, or took too long.
        """
        self._process.send_signal(signal.SIGCONT)
        print(json.dumps(asked), file=self._process.stdin, flush=True)
        answer = self._answer()
        self._process.send_signal(signal.SIGSTOP)
        return answer

    def _answer(self) -> dict[str, Any]:
        late = threading.Timer(self._limit, self._process.kill)
        late.start()
        line = self._process.stdout.readline()
        in_time = late.is_alive()
        late.cancel()
        if line:
            answer: dict[str, Any] = json.loads(line)
            if "failed" not in answer:
                return answer
            self._end()
            raise Refused(answer["failed"])
        status = self._end()
        if not in_time:
            raise Refused(f"took longer than {self._limit:g} s")
        told = (self._said or ["no message"])[-1].strip()
        raise Refused(f"{status}: {told[:300]}")

    def _end(self) -> int:
        """Its status, when it has ended."""
        status = self._process.wait()
        self._listener.join()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        return status

    def _listen(self) -> None:
        """Keep the last line of what it complains of."""
        for line in self._process.stderr:
            self._said.append(line)
            del self._said[:-1]


def _modules(stem: str, folder: Path, engines: Collection[str]) -> Iterator[tuple[str, Path]]:
    """What each engine loads of a network, where it was made."""
    name = stem.rpartition("-")[0]
    for engine in EVERY:
        if engine == "ncnn":
            path = folder / f"{name}.ncnn.param"
        elif engine == "plain":
            path = folder / f"{stem}.vulkan-spirv.plain.vmfb"
        else:
            path = folder / f"{stem}.{DEVICES[engine][1]}.edgec.vmfb"
        if engine in engines and path.exists():
            yield engine, path


def _lay(stem: str, folder: Path, scratch: Path) -> None:
    """Inputs, weights and the answer in f64 of a network, for engines to read."""
    import torch
    from safetensors.numpy import save_file
    from torch_models import build
    from torch_run import weights_of

    name, _, kind = stem.rpartition("-")
    model, inputs = build(name, kind)
    with torch.no_grad():
        exact = model.double()(*(v.double() if v.is_floating_point() else v for v in inputs))
    np.save(scratch / "truth.npy", exact.numpy())
    model, inputs = build(name, kind)
    np.savez(scratch / "inputs.npz", *(value.numpy() for value in inputs))
    for backend in {backend for _, backend in DEVICES.values()}:
        tensors = weights_of(model, folder / f"{stem}.{backend}.npz")
        arrays = {name: np.ascontiguousarray(value) for name, value in tensors.items()}
        save_file(arrays, scratch / f"{backend}.safetensors")
    if kind == "f16":
        (scratch / "half").touch()


def measure(stem: str, options: argparse.Namespace) -> dict[str, Any]:
    """One network in one type: milliseconds, seconds to the first answer and errors by engine."""
    row: dict[str, Any] = {"name": stem, "first_s": {}, "error": {}, "failed": {}, "ms": {}}
    refused = options.folder / f"{stem}.vulkan-spirv.plain.json"
    if "plain" in options.engines and refused.exists():
        said = json.loads(refused.read_text()).get("refused")
        row["failed"] |= {} if said is None else {"plain": f"iree-compile: {said}"}
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as stack:
        scratch = Path(place)
        _lay(stem, options.folder, scratch)
        modules = dict(_modules(stem, options.folder, options.engines))
        running: dict[str, Engine] = {}
        for name, path in modules.items():
            try:
                engine = stack.enter_context(Engine(name, path, scratch, options.limit))
            except Refused as error:
                row["failed"][name] = ("IREE's driver: " if name == "plain" else "") + str(error)
                continue
            running[name] = engine
            for what, value in engine.ready.items():
                row[what][name] = value
        times: dict[str, list[float]] = {}
        for _ in range(options.rounds):
            for name in list(running):
                try:
                    times.setdefault(name, []).append(running[name].ask(calls=options.calls)["s"])
                except Refused as error:
                    row["failed"][name] = str(error)
                    del running[name], times[name]
        row["ms"] = {name: round(1e3 * min(found), 4) for name, found in times.items()}
        if "edgert" in running:
            try:
                if options.profile:
                    row["dispatches"] = running["edgert"].ask(profile=True)
                stack.close()
                with Engine("edgert", modules["edgert"], scratch, options.limit) as again:
                    row["again_s"] = again.ready["first_s"]
            except Refused as error:  # What was measured before stands.
                row["failed"]["edgert"] = str(error)
    return row


def _prepare() -> None:
    """Where PyTorch has no CUDA, torchvision's operators do not load; `timm` imports it."""
    import torch

    if torch.version.cuda is None:
        declare_torchvision()


def _device() -> str:
    """What edgert's Vulkan runs on, with a GPU's driver as NVIDIA's tool names it."""
    found = gpu()
    if found is not None:
        return found
    from edgec import runtime

    return runtime.Device.open(DEVICES["edgert"][0]).name


def _circumstances(options: argparse.Namespace) -> dict[str, Any]:
    """How often each was called, and what else the machine did."""
    return {
        "rounds": options.rounds,
        "calls": options.calls,
        "apart": True,
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("stems", nargs="*", help="such as convnext-t-f16")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--profile", action="store_true", help="the time of each kernel, too")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--calls", type=int, default=CALLS, help="of each engine in a round")
    parser.add_argument("--engines", nargs="+", default=EVERY)
    parser.add_argument("--limit", type=int, default=120, help="seconds for an engine's answer")
    options = parser.parse_args()
    _prepare()
    made = sorted({path.name.split(".")[0] for path in options.folder.glob("*.vmfb")})
    rows = []
    for stem in options.stems or made:
        rows.append(measure(stem, options))
        print(json.dumps({k: v for k, v in rows[-1].items() if k != "dispatches"}), flush=True)
        if options.json:
            found = {"device": _device(), "rows": rows, **_circumstances(options)}
            options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
