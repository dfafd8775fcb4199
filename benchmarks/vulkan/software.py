"""Networks through Vulkan without a GPU, with edgec's kernels and without, to a page.

    python -m benchmarks.vulkan.software [MODEL ...]        # those of benchmarks.peers

Each network is compiled for any Android phone twice, and called in turns on edgert's driver, on
each Vulkan device here that is a program on the processor: Mesa's llvmpipe, and the SwiftShader
that Chromium brings along. It shows that answers are right and what the kernels change; what a
phone's GPU takes it does not show. Answers are compared with PyTorch's in 64 bits.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.engines.source_files import reference, stablehlo_file
from benchmarks.peers.models.catalogue import MODELS
from benchmarks.standing import measured_at, sentence
from edgec import runtime, toolchain

__all__ = ["TARGET", "compiled", "drivers"]

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "vulkan_software"
PAGE = ROOT / "docs" / "benchmarks_vulkan_software.md"
USUAL = ("mobilenet_v3", "minilm", "vit_tiny")
TARGET = "vulkan:android"
WAYS = {"own": (), "compiler": ("vulkan-kernels",)}
"""What is left out of the compiler to make a module."""
_PLACES = {
    "llvmpipe": "/usr/share/vulkan/icd.d/lvp_icd.*.json",
    "SwiftShader": "/usr/lib/chromium/vk_swiftshader_icd.json",
}
_PATIENCE = 1800.0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--measure", type=Path, help="measure the modules of a folder, here")
    parser.add_argument("--output", type=Path, default=PAGE)
    chosen = parser.parse_args()
    if chosen.measure is not None:
        print(json.dumps(_measure(chosen.models[0], chosen.measure, chosen.rounds)))
        return 0
    load = os.getloadavg()[0]
    lines = list(_lines(chosen.models or USUAL, chosen.rounds))
    chosen.output.write_text(_text(lines, load), encoding="utf-8")
    print(chosen.output.read_text(encoding="utf-8"))
    return 0


def drivers() -> dict[str, Path]:
    """What describes a software device to Vulkan's loader, of those that are here."""
    found = {}
    for name, pattern in _PLACES.items():
        path = Path(pattern)
        for each in sorted(path.parent.glob(path.name)):
            found[name] = each
    return found


def compiled(name: str, folder: Path, target: str = TARGET) -> dict[str, runtime.Module]:
    """A model's modules by how they are made."""
    folder.mkdir(parents=True, exist_ok=True)
    program = stablehlo_file(MODELS[name], folder)
    found = {}
    for way, disabled in WAYS.items():
        path = folder / f"{way}.{target.replace(':', '-')}.vmfb"
        options = toolchain.CompileOptions(output=path, disabled=disabled)
        found[way] = toolchain.compile(program, target, options)
    return found


def _lines(names: list[str] | tuple[str, ...], rounds: int) -> Iterator[str]:
    """The table, a line a network and device."""
    for name in names:
        folder = BUILD / name
        facts = compiled(name, folder)["own"].facts.kernels
        share = 100 * facts.own_flops / facts.flops if facts else 0.0
        reference(MODELS[name], folder)
        for driver, path in drivers().items():
            found = _apart(name, folder, path, rounds)
            own, compiler = found["own"], found["compiler"]
            yield (
                f"| {MODELS[name].title} | {driver} | {share:.0f} % "
                f"| {compiler['ms']:.0f} | {own['ms']:.0f} "
                f"| {compiler['ms'] / own['ms']:.2f} | {own['first']:.1f} s | {own['error']:.0e} |"
            )


def _apart(name: str, folder: Path, driver: Path, rounds: int) -> dict[str, Any]:
    """`_measure` in a process of its own, which sees one driver."""
    words = [sys.executable, "-m", __spec__.name, name, "--measure", str(folder)]
    done = subprocess.run(
        [*words, "--rounds", str(rounds)],
        env=os.environ | {"VK_DRIVER_FILES": str(driver), "VK_ICD_FILENAMES": str(driver)},
        capture_output=True,
        text=True,
        timeout=_PATIENCE,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{name} with {driver}: {done.stderr.strip().splitlines()[-1]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _measure(name: str, folder: Path, rounds: int) -> dict[str, Any]:
    """Milliseconds of a call, seconds to the first answer and error, by how a module was made."""
    model = MODELS[name]
    (wanted, *_), given = reference(model, folder), model.example()
    found: dict[str, Any] = {}
    loaded, times = {}, {}
    for way in WAYS:
        begin = time.perf_counter()
        path = folder / f"{way}.{TARGET.replace(':', '-')}.vmfb"
        module = runtime.load(path, device="edgert://vulkan")
        answer = np.asarray(module.main.call_flat(given)[0].numpy(), np.float64)
        first = time.perf_counter() - begin
        # Images have their channels last here, and first there; results have none.
        error = float(np.max(np.abs(answer.reshape(-1) - wanted.reshape(-1))) / np.std(wanted))
        if error > model.precision.tolerance:
            raise RuntimeError(f"{model.title} is wrong: {error:.1e}")
        found[way] = {"first": first, "error": error}
        loaded[way], times[way] = module, list[float]()
    for _ in range(rounds):
        for way, module in loaded.items():
            begin = time.perf_counter()
            np.asarray(module.main.call_flat(given)[0].numpy())
            times[way].append(1e3 * (time.perf_counter() - begin))
    for way in WAYS:
        found[way]["ms"] = statistics.median(times[way])
    return found


def _text(lines: list[str], load: float) -> str:
    table = "\n".join(lines)
    return f"""# Networks through Vulkan without a GPU

Networks compiled for `{TARGET}` and called on edgert's driver on {os.cpu_count()} cores, batch 1,
f32, on Vulkan devices that are programs on the processor: Mesa's llvmpipe, and Chromium's
SwiftShader. It shows that answers are right, and what edgec's own kernels change beside the
compiler's code there; what a GPU takes it does not show. Written by
`python -m benchmarks.vulkan.software`, at a load of {load:.1f} by other processes: above 1, trust
the ratios alone.
{sentence([measured_at()])}

| model | device | own kernels | compiler (ms) | edgec (ms) | ratio | first | error |
|---|---|--:|--:|--:|--:|--:|--:|
{table}

- **own kernels**: edgec's share of the network's arithmetic; none without them.
- **compiler, edgec**: median of calls with their answers read, without edgec's kernels and with
  them, in turns.
- **first**: from the file to the first answer with them, pipelines compiled on the way.
- **error**: the largest difference from PyTorch's answer in 64 bits, as a part of its spread.
"""


if __name__ == "__main__":
    sys.exit(main())
