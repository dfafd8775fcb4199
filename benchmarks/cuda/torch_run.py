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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gpu_times import gpu_times
from loaded import Loaded
from torch_models import build
from turns import seconds

ROUNDS = 5
DRIVERS = {"cuda": "cuda", "vulkan-spirv": "vulkan"}


def weights_of(model: Any, lifted: Path) -> dict[str, np.ndarray]:
    """A model's weights and buffers by name, and what its code was lifted of."""
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    found = {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}
    return {**found, **(dict(np.load(lifted)) if lifted.exists() else {})}


def measure(stem: str, folder: Path, *, profiled: bool = False) -> dict[str, Any]:
    """One network: milliseconds and relative errors by engine."""
    name, _, kind = stem.partition(".")[0].rpartition("-")
    driver = DRIVERS[stem.partition(".")[2]]
    model, inputs = build(name, kind)
    with torch.no_grad():
        exact = model.double()(*(v.double() if v.is_floating_point() else v for v in inputs))
        truth = exact.numpy().astype(np.float32)
        model, inputs = build(name, kind)
        there = tuple(v.cuda() for v in inputs)
        weights = weights_of(model, folder / f"{stem}.npz")
        given = [v.cpu().numpy() for v in inputs]
        loaded = Loaded(folder / f"{stem}.edgec.vmfb", driver, weights, given)
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
        times = {engine: gpu_times(call) for engine, call in calls.items()} if profiled else {}
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
        **({"profile": times} if profiled else {}),
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


def _apart(stem: str, folder: Path, *, profiled: bool) -> dict[str, Any]:
    """`measure` in a process of its own: what one network does wrong costs one row."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "row.json"
        command = [sys.executable, __file__, str(folder), stem, "--json", str(path)]
        command += ["--profile"] if profiled else []
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
    parser.add_argument("--profile", action="store_true", help="the time of each kernel, too")
    options = parser.parse_args()
    found = sorted(path.name.removesuffix(".edgec.vmfb") for path in options.folder.glob("*.vmfb"))
    stems = options.stems or found
    rows = []
    for stem in stems:
        how = measure if len(options.stems) == 1 else _apart
        rows.append(how(stem, options.folder, profiled=options.profile))
        print(json.dumps({k: v for k, v in rows[-1].items() if k != "profile"}), flush=True)
        if options.json:
            options.json.write_text(json.dumps(rows, indent=1) + "\n")
    print(table(rows))


if __name__ == "__main__":
    main()
