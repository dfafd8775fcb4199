"""edgec's WebGPU beside ONNX Runtime Web's on one adapter, written to docs/benchmarks_webgpu.md.

    python -m benchmarks.web.gpu [MODEL ...]        # those of benchmarks.peers

Needs npm, as `benchmarks.web` does. The adapter is SwiftShader, a program on the processor, so that
this runs anywhere: what it shows are answers, first answers and ratios, not what a GPU takes.
Answers are compared with PyTorch's in 64 bits before anything is timed; runtimes take turns.
"""

import argparse
import json
import os
import shutil
import statistics
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

import numpy as np

from benchmarks.peers.engines.source_files import (
    onnx_file,
    onnx_inputs,
    reference,
    stablehlo_file,
)
from benchmarks.peers.models.catalogue import MODELS
from benchmarks.peers.models.model import Model
from benchmarks.standing import measured_at, sentence
from benchmarks.web.__main__ import BUILD, ISOLATED, ORT, fetch_ort
from benchmarks.web.chromium import WEBGPU, Chromium, Page, serve
from edgec import toolchain
from edgec.packaging.web_runtime import write_runtime

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "benchmarks_webgpu.md"
USUAL = ("mobilenet_v3", "vit_tiny", "minilm")
ENGINES = {
    "edgec": "edgec, WebGPU",
    "ort": "ONNX Runtime Web, WebGPU",
    "wasm": "edgec, WebAssembly, 1 thread",
}
_PATIENCE = 300.0


@dataclass(frozen=True, kw_only=True)
class Row:
    """What one runtime came to on one model; milliseconds, or why there is nothing."""

    model: str
    title: str
    failed: str = ""
    least: float = 0.0
    median: float = 0.0
    loading: float = 0.0
    first: float = 0.0
    error: float = 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path, default=PAGE)
    chosen = parser.parse_args()
    site = BUILD / "site"
    write_runtime(site / "edgec-runtime")
    fetch_ort(site / "ort")
    shutil.copyfile(Path(__file__).with_name("gpu.html"), site / "gpu.html")
    rows: list[Row] = []
    devices: set[str] = set()
    load = os.getloadavg()[0]
    with serve(site, ISOLATED) as address, Chromium(*WEBGPU) as browser:
        version = str(browser.send("Browser.getVersion")["product"])
        for name in chosen.models or USUAL:
            model = MODELS[name]
            _write_model(model, site / name)
            rows += _measure(browser, address, model, chosen.rounds, devices)
    text = _text(rows, version, ", ".join(sorted(devices)), load)
    chosen.output.write_text(text, encoding="utf-8")
    print(text)


def _write_model(model: Model, folder: Path) -> None:
    """The model for all runtimes, and its inputs as each of them takes them."""
    folder.mkdir(parents=True, exist_ok=True)
    program = stablehlo_file(model, folder)
    for target in ("webgpu", "wasm"):
        options = toolchain.CompileOptions(output=folder / f"model.{target}.vmfb")
        toolchain.compile(program, target, options)
    onnx_file(model, folder)
    theirs, given = onnx_inputs(model), []
    for spec, ours in zip(model.inputs, model.example(), strict=True):
        sides = {}
        for side, array in (("ours", ours), ("theirs", theirs[spec.name])):
            file = f"{spec.name}.{side}"
            np.ascontiguousarray(array).tofile(folder / file)
            sides[side] = {"shape": array.shape, "file": file}
        given.append({"name": spec.name, "dtype": str(ours.dtype), **sides})
    (folder / "inputs.json").write_text(json.dumps(given))


def _measure(
    browser: Chromium, address: str, model: Model, rounds: int, devices: set[str]
) -> list[Row]:
    wanted = reference(model, BUILD / "site" / model.name)[0].reshape(-1)
    pages: dict[str, Page] = {}
    failed: dict[str, str] = {}
    for engine in ENGINES:
        query = urlencode({"engine": engine, "files": model.name})
        page = browser.open(f"{address}/gpu.html?{query}")
        page.wait("window.facts", timeout=_PATIENCE)
        why = page.run("facts.failed ?? ''")
        if why:
            failed[engine] = str(why)
        else:
            pages[engine] = page
    times: dict[str, list[float]] = {engine: [] for engine in pages}
    for _ in range(rounds):
        for engine, page in pages.items():
            times[engine].append(page.run("once()", timeout=_PATIENCE))
    rows = []
    for engine, title in ENGINES.items():
        if engine in failed:
            rows.append(Row(model=model.title, title=title, failed=failed[engine]))
            continue
        facts = pages[engine].run("facts")
        error = float(np.max(np.abs(np.array(facts["output"]) - wanted)) / np.std(wanted))
        if engine == "edgec":
            devices.add(str(facts["device"]))
            if error > model.precision.tolerance:
                raise RuntimeError(f"{title} is wrong on {model.title}: {error:.1e}")
        rows.append(
            Row(
                model=model.title,
                title=title,
                least=min(times[engine]),
                median=statistics.median(times[engine]),
                loading=facts["loaded"],
                first=facts["firstCall"],
                error=error,
            )
        )
        pages[engine].close()
    return rows


def _line(row: Row) -> str:
    if row.failed:
        return f"| {row.model} | {row.title} | {row.failed.splitlines()[0][:80]} | | | | |"
    return (
        f"| {row.model} | {row.title} | {row.least:.0f} | {row.median:.0f} | {row.loading:.0f} "
        f"| {row.first:.0f} | {row.error:.0e} |"
    )


def _text(rows: list[Row], version: str, device: str, load: float) -> str:
    table = "\n".join(map(_line, rows))
    return f"""# WebGPU in the browser

edgec's WebGPU beside ONNX Runtime Web {ORT}'s, in one {version.replace("/", " ")} on
{os.cpu_count()} cores, batch 1, f32, on the adapter `{device}`: a GPU that is a program on the
processor, so that the page can be made anywhere. It shows that answers are right, and how the two
stand to each other there; what a GPU takes it does not show. Written by
`python -m benchmarks.web.gpu`, at a load of {load:.1f} by other processes: above 1, trust only
large ratios.
{sentence([measured_at()])}

| model | runtime | least (ms) | median (ms) | loading (ms) | first call (ms) | error |
|---|---|---|---|---|---|---|
{table}

- **least, median**: of a call with its answer read, runtimes in turns.
- **loading**: from the start of `load` or `InferenceSession.create` to its end, files from a
  server on the same machine, the runtime's own among them; pipelines are compiled there by edgec,
  at the first call by ONNX Runtime.
- **error**: the largest difference from PyTorch's answer in 64 bits, as a part of its spread.
"""


if __name__ == "__main__":
    main()
