"""Modules of PyTorch's networks and a GPU to a table: edgec beside torch.compile, in one run.

Run on the machine with the GPU: `python benchmarks/cuda/torch_run.py FOLDER [--json FILE]`. The
folder holds what `torch_modules.py` compiled. Needs `iree-base-runtime`, PyTorch with CUDA,
`transformers` and `timm`; edgec itself is not needed.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from staging import bytes_of
from torch_models import build
from turns import seconds

ROUNDS = 5
DRIVERS = {"cuda": "cuda", "vulkan-spirv": "vulkan"}


class Loaded:
    """A module on the GPU with the weights of a model, by name, and its inputs there, too."""

    def __init__(self, path: Path, driver: str, model: Any, inputs: tuple[Any, ...]) -> None:
        import iree.runtime as rt

        start = time.perf_counter()
        config = rt.Config(driver)
        index = rt.ParameterIndex()
        for name, tensor in {
            **dict(model.named_parameters()),
            **dict(model.named_buffers()),
        }.items():
            _add(index, name, tensor.detach().cpu().contiguous().numpy())
        lifted = path.with_name(path.name.replace(".edgec.vmfb", ".npz"))
        for name, data in np.load(lifted).items() if lifted.exists() else ():
            _add(index, name, data)
        provider = index.create_provider("model")
        parameters = rt.create_io_parameters_module(config.vm_instance, provider)
        self._rt = rt
        self._module = rt.VmModule.mmap(config.vm_instance, str(path))
        self._context = rt.SystemContext(vm_modules=[parameters, self._module], config=config)
        self._function = self._module.lookup_function("main")
        self._device = config.device
        self._inputs = [rt.asdevicearray(config.device, v.cpu().numpy()) for v in inputs]
        self._list = rt.VmVariantList(len(inputs))
        for value in self._inputs:
            self._list.push_ref(value._buffer_view)
        self()
        self.first = time.perf_counter() - start

    def __call__(self) -> Any:
        """One call, waited for; its result stays on the GPU."""
        results = self._rt.VmVariantList(1)
        self._context.vm_context.invoke(self._function, self._list, results)
        return results

    def answer(self, dtype: Any) -> np.ndarray:
        """The result as f32."""
        return bytes_of(self._device, self()).view(dtype).astype(np.float32)


def _add(index: Any, name: str, data: np.ndarray) -> None:
    index.add_buffer(name, np.atleast_1d(np.ascontiguousarray(data)).reshape(-1).view(np.uint8))


def measure(stem: str, folder: Path) -> dict[str, Any]:
    """One network: milliseconds and relative errors by engine."""
    name, _, kind = stem.partition(".")[0].rpartition("-")
    driver = DRIVERS[stem.partition(".")[2]]
    model, inputs = build(name, kind)
    with torch.no_grad():
        exact = model.double()(*(v.double() if v.is_floating_point() else v for v in inputs))
        truth = exact.numpy().astype(np.float32)
        model, inputs = build(name, kind)
        there = tuple(v.cuda() for v in inputs)
        loaded = Loaded(folder / f"{stem}.edgec.vmfb", driver, model, inputs)
        dtype = {"f16": np.float16, "f32": np.float32}[kind]
        answers = {"edgec": loaded.answer(dtype)}
        quick = torch.compile(model.cuda(), mode="reduce-overhead")

        def compiled() -> Any:
            with torch.no_grad():
                result = quick(*there)
            torch.cuda.synchronize()
            return result

        for _ in range(5):
            answers["torch"] = compiled().float().cpu().numpy()
        calls: dict[str, Callable[[], Any]] = {"edgec": loaded, "torch.compile": compiled}
        found = seconds(calls, ROUNDS)
    size = float(np.linalg.norm(truth))
    return {
        "name": stem,
        "ms": {engine: round(1e3 * s, 4) for engine, s in found.items()},
        "ratio": round(found["torch.compile"] / found["edgec"], 3),
        "first_s": round(loaded.first, 2),
        "error": {
            engine: float(f"{np.linalg.norm(answer.reshape(truth.shape) - truth) / size:.2g}")
            for engine, answer in answers.items()
        },
    }


def table(rows: list[dict[str, Any]]) -> str:
    """The rows in Markdown."""
    lines = [
        "| network | edgec, ms | torch.compile, ms | torch.compile / edgec "
        "| error of edgec, torch |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        if "failed" in row:
            lines.append(f"| {row['name']} | failed: {row['failed']} | - | - | - |")
            continue
        ms, error = row["ms"], row["error"]
        lines.append(
            f"| {row['name']} | {ms['edgec']:.3f} | {ms['torch.compile']:.3f} | {row['ratio']:.2f} "
            f"| {error['edgec']}, {error['torch']} |"
        )
    return "\n".join(lines)


def _apart(stem: str, folder: Path) -> dict[str, Any]:
    """`measure` in a process of its own: what one network does wrong costs one row."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "row.json"
        command = [sys.executable, __file__, str(folder), stem, "--json", str(path)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
        except subprocess.TimeoutExpired:
            return {"name": stem, "failed": "took longer than 150 s"}
        if done.returncode or not path.exists():
            lines = done.stderr.strip().splitlines() or ["no message"]
            told = next((line for line in reversed(lines) if "Error" in line), lines[-1])
            return {"name": stem, "failed": f"exit code {done.returncode}: {told[:300]}"}
        row: dict[str, Any] = json.loads(path.read_text())[0]
        return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("stems", nargs="*")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = sorted(path.name.removesuffix(".edgec.vmfb") for path in options.folder.glob("*.vmfb"))
    stems = options.stems or found
    rows = []
    for stem in stems:
        alone = len(options.stems) == 1
        rows.append(measure(stem, options.folder) if alone else _apart(stem, options.folder))
        print(json.dumps(rows[-1]), flush=True)
        if options.json:
            options.json.write_text(json.dumps(rows, indent=1) + "\n")
    print(table(rows))


if __name__ == "__main__":
    main()
