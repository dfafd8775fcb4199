"""Compiled modules and a GPU to a table: edgec's kernels on Vulkan beside CUDA's, in one run.

Run on the machine with the GPU: `python benchmarks/vulkan/run.py FOLDER [NAMES] [--json FILE]`.
The folder holds what `modules.py` compiled. Needs `iree-base-runtime`, NumPy and JAX, which gives
the element types; edgec itself is not needed.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "cuda"))

ROUNDS = 5
VARIANTS = {"vulkan": "vulkan", "without": "vulkan", "cuda": "cuda"}


def measure(name: str, folder: Path) -> dict[str, Any]:
    """One network: milliseconds, seconds to the first answer and relative errors by variant."""
    from loaded import Loaded, numbered
    from models import MODELS
    from turns import seconds

    image, weights = MODELS[name]().draw(0)
    truth = np.load(folder / f"{name}.npy").reshape(-1)
    row: dict[str, Any] = {"name": name, "ms": {}, "first_s": {}, "error": {}}
    calls = {}
    for variant, driver in VARIANTS.items():
        path = folder / f"{name}.{variant}.vmfb"
        if path.exists():
            try:
                loaded = Loaded(path, driver, numbered(weights), [image])
                answer = loaded.answer(image.dtype)
            except RuntimeError as error:
                print(f"{name}: {variant}: {str(error)[:600]}", flush=True)
                continue
            calls[variant] = loaded
            row["first_s"][variant] = round(loaded.first, 2)
            error = np.linalg.norm(answer - truth) / np.linalg.norm(truth)
            row["error"][variant] = float(f"{error:.2g}")
    row["ms"] = {v: round(1e3 * s, 3) for v, s in seconds(calls, ROUNDS).items()}
    return row


def table(rows: list[dict[str, Any]]) -> str:
    """The rows in Markdown."""
    head = (
        "| network | edgec | without `vulkan-kernels` | edgec on CUDA | Vulkan / CUDA "
        "| first answer: edgec, without, CUDA | error: edgec, without, CUDA |"
    )
    lines = [head, "|---|---|---|---|---|---|---|"]
    for row in rows:
        ms = row["ms"]
        cells = [f"{ms[v]:.2f}" if v in ms else "-" for v in VARIANTS]
        ratio = f"{ms['vulkan'] / ms['cuda']:.2f}" if {"vulkan", "cuda"} <= ms.keys() else "-"
        first = ", ".join(f"{row['first_s'][v]} s" for v in row["first_s"])
        error = ", ".join(f"{row['error'][v]:.2g}" for v in row["error"])
        lines.append(f"| {row['name']} | {' | '.join(cells)} | {ratio} | {first} | {error} |")
    return "\n".join(lines)


def _apart(name: str, folder: Path) -> list[dict[str, Any]]:
    """`measure` in a process of its own: devices left open by one slow the next."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "row.json"
        line = [sys.executable, __file__, str(folder), name, "--json", str(path)]
        done = subprocess.run(line, check=False).returncode == 0
        return list(json.loads(path.read_text())) if done else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    folder = options.folder
    names = options.names or sorted({p.name.split(".")[0] for p in folder.glob("*.vulkan.vmfb")})
    rows = (
        [measure(names[0], folder)]
        if len(names) == 1
        else [row for name in names for row in _apart(name, folder)]
    )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    print(table(rows), flush=True)


if __name__ == "__main__":
    main()
