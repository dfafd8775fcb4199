"""Compiled modules and a GPU to a table: edgec beside plain IREE and XLA, in one run.

Run on the machine with the GPU: `python benchmarks/cuda/run.py FOLDER [--json FILE] [NAMES]`. The
folder holds what `make cuda-modules` compiled, NAME.edgec.vmfb and NAME.plain.vmfb. Needs
`iree-base-runtime`, NumPy and JAX with CUDA; edgec itself is not needed.
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
from loaded import Loaded, numbered
from models import MODELS
from table import table
from turns import CALLS, seconds

ROUNDS = 7
VARIANTS = ("edgec", "plain")


def measure(name: str, folder: Path) -> dict[str, Any]:
    """One network: milliseconds and relative errors by engine."""
    import jax

    network = MODELS[name]()
    image, weights = network.draw(0)
    function = jax.jit(network.function)
    given = jax.device_put((image, weights))
    calls: dict[str, Callable[[], Any]] = {"XLA": lambda: function(*given).block_until_ready()}
    answers = {"XLA": np.asarray(calls["XLA"]()).astype(np.float32)}
    row: dict[str, Any] = {"name": name, "first_s": {}}
    for variant in VARIANTS:
        path = folder / f"{name}.{variant}.vmfb"
        if path.exists():
            loaded = Loaded(path, "cuda", numbered(weights), [image])
            calls[variant] = loaded
            answers[variant] = loaded.answer(image.dtype)
            row["first_s"][variant] = round(loaded.first, 2)
    row["ms"] = {engine: round(1e3 * s, 4) for engine, s in seconds(calls, ROUNDS).items()}
    start = time.perf_counter()
    for _ in range(CALLS):
        last = function(*given)
    last.block_until_ready()
    row["xla_queued_ms"] = round(1e3 * (time.perf_counter() - start) / CALLS, 4)
    row["error"] = errors(network.exact, image, weights, answers)
    return row


def errors(
    exact: Callable[[Any, list[Any]], Any],
    image: np.ndarray,
    weights: list[np.ndarray],
    answers: dict[str, np.ndarray],
) -> dict[str, float]:
    """How far each answer is from the network computed in f32: |difference| / |answer|."""
    import jax

    wide = [each.astype(np.float32) for each in (image, *weights)]
    with jax.default_matmul_precision("highest"):
        truth = np.asarray(jax.jit(exact)(wide[0], wide[1:]))
    size = float(np.linalg.norm(truth))
    return {
        engine: float(f"{np.linalg.norm(answer.reshape(truth.shape) - truth) / size:.2g}")
        for engine, answer in answers.items()
    }


def _apart(name: str, folder: Path) -> dict[str, Any]:
    """`measure` in a process of its own: devices left open by one slow the next."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "row.json"
        subprocess.run([sys.executable, __file__, folder, name, "--json", path], check=True)
        row: dict[str, Any] = json.loads(path.read_text())[0]
        return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--once", help="one call of a variant and nothing else, for a profiler")
    options = parser.parse_args()
    names = options.names or [n for n in MODELS if list(options.folder.glob(f"{n}.*.vmfb"))]
    if options.once:
        image, weights = MODELS[names[0]]().draw(0)
        path = options.folder / f"{names[0]}.{options.once}.vmfb"
        Loaded(path, "cuda", numbered(weights), [image])
        return
    rows = [
        measure(name, options.folder) if len(names) == 1 else _apart(name, options.folder)
        for name in names
    ]
    print("\n".join(json.dumps(row) for row in rows), flush=True)
    print(table(rows))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
