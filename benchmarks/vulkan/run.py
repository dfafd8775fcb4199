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
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "cuda"))

ROUNDS = 5
VARIANTS = {"vulkan": "vulkan", "without": "vulkan", "cuda": "cuda"}


class Loaded:
    """A module on the GPU with its weights and its input there, too."""

    def __init__(
        self, path: Path, driver: str, image: np.ndarray, weights: list[np.ndarray]
    ) -> None:
        import iree.runtime as rt

        config = rt.Config(driver)
        index = rt.ParameterIndex()
        for number, weight in enumerate(weights):
            index.add_buffer(f"w{number}", np.ascontiguousarray(weight).view(np.uint8).reshape(-1))
        provider = index.create_provider("model")
        parameters = rt.create_io_parameters_module(config.vm_instance, provider)
        start = time.perf_counter()
        self._rt = rt
        self._module = rt.VmModule.mmap(config.vm_instance, str(path))
        self._context = rt.SystemContext(vm_modules=[parameters, self._module], config=config)
        self._function = self._module.lookup_function("main")
        self._device = config.device
        self._image = rt.asdevicearray(config.device, image)
        self._list = rt.VmVariantList(1)
        self._list.push_ref(self._image._buffer_view)
        self.wait(self())
        self.first = time.perf_counter() - start

    def __call__(self) -> Any:
        """One call; its result stays on the GPU."""
        results = self._rt.VmVariantList(1)
        self._context.vm_context.invoke(self._function, self._list, results)
        return results

    def wait(self, results: Any) -> np.ndarray:
        """The result's bytes."""
        from staging import bytes_of

        return bytes_of(self._device, results)

    def answer(self, dtype: Any) -> np.ndarray:
        """The result as f32."""
        return self.wait(self()).view(dtype).astype(np.float32)


def measure(name: str, folder: Path) -> dict[str, Any]:
    """One network: milliseconds, seconds to the first answer and relative errors by variant."""
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
                loaded = Loaded(path, driver, image, weights)
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
