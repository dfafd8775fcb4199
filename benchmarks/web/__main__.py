"""edgec-runtime beside ONNX Runtime Web in the same Chromium, written to docs/benchmarks_web.md.

    python -m benchmarks.web [MODEL ...]        # default: mobilenet_v2; those of benchmarks.peers

Needs npm, which fetches ONNX Runtime Web into build/web_bench. Each runtime has a tab of its own
and they take turns, so that what else the machine does hits all alike; answers are compared with
PyTorch's in 64 bits before anything is timed. Times are of many calls together: a browser's clock
is coarse (5 µs in these pages, which are cross-origin isolated).
"""

import argparse
import os
import shutil
import statistics
import subprocess
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
from benchmarks.web.chromium import Chromium, Page, serve
from edgec import toolchain
from edgec.packaging.web_runtime import write_runtime

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "web_bench"
PAGE = ROOT / "docs" / "benchmarks_web.md"
ORT = "1.30.0"
_WANTED = ("ort.wasm.min.mjs", "ort.webgpu.min.mjs", "ort-wasm-simd-threaded.")
WARM_UP = 1500.0  # milliseconds, in which engines replace their first quick code by good code
ROUND = 300.0  # milliseconds
ISOLATED = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
}


@dataclass(frozen=True, kw_only=True)
class Contender:
    """A runtime on so many threads."""

    title: str
    engine: str
    threads: int


CONTENDERS = (
    Contender(title="edgec, 1 thread", engine="edgec", threads=1),
    Contender(title="edgec, 2 threads", engine="edgec", threads=2),
    Contender(title="ONNX Runtime Web, 1 thread", engine="ort", threads=1),
    Contender(title="ONNX Runtime Web, 2 threads", engine="ort", threads=2),
)


@dataclass(frozen=True, kw_only=True)
class Row:
    """What one runtime came to on one model; milliseconds."""

    model: str
    title: str
    least: float
    median: float
    loading: float
    first: float
    error: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--output", type=Path, default=PAGE)
    chosen = parser.parse_args()
    site = BUILD / "site"
    write_runtime(site / "edgec-runtime")
    fetch_ort(site / "ort")
    shutil.copyfile(Path(__file__).with_name("bench.html"), site / "bench.html")
    rows, load = [], os.getloadavg()[0]
    with serve(site, ISOLATED) as address, Chromium() as browser:
        version = str(browser.send("Browser.getVersion")["product"])
        for name in chosen.models or ["mobilenet_v2"]:
            model = MODELS[name]
            _write_model(model, site / name)
            rows += _measure(browser, address, model, chosen.rounds)
    chosen.output.write_text(_text(rows, version, _sizes(site), load), encoding="utf-8")
    print(chosen.output.read_text(encoding="utf-8"))


def fetch_ort(folder: Path) -> None:
    """ONNX Runtime Web's files for WebAssembly and for WebGPU, from the npm registry."""
    if (folder / ORT).exists():
        return
    place = BUILD / "npm"
    place.mkdir(parents=True, exist_ok=True)
    (place / "package.json").write_text('{"private": true}')
    command = ("npm", "install", "--no-audit", "--no-fund", "--ignore-scripts")
    subprocess.run([*command, f"onnxruntime-web@{ORT}"], cwd=place, check=True)
    folder.mkdir(parents=True, exist_ok=True)
    for file in (place / "node_modules" / "onnxruntime-web" / "dist").iterdir():
        if file.name.startswith(_WANTED):
            shutil.copyfile(file, folder / file.name)
    (folder / ORT).touch()


def _write_model(model: Model, folder: Path) -> None:
    """The model for both runtimes, and an input as each of them takes it."""
    folder.mkdir(parents=True, exist_ok=True)
    options = toolchain.CompileOptions(output=folder / "model.vmfb")
    toolchain.compile(stablehlo_file(model, folder), "wasm", options)
    onnx_file(model, folder)
    (first,) = onnx_inputs(model).values()
    first.astype(np.float32).tofile(folder / "channels_first.f32")
    model.example()[0].astype(np.float32).tofile(folder / "channels_last.f32")


def _measure(browser: Chromium, address: str, model: Model, rounds: int) -> list[Row]:
    (first,) = onnx_inputs(model).values()
    wanted = reference(model, BUILD / "site" / model.name)[0].reshape(-1)
    pages: dict[Contender, Page] = {}
    for contender in CONTENDERS:
        query = {
            "engine": contender.engine,
            "threads": contender.threads,
            "files": model.name,
            "shape": ",".join(map(str, first.shape)),
        }
        pages[contender] = browser.open(f"{address}/bench.html?{urlencode(query)}")
        pages[contender].wait("window.facts", timeout=120)
        pages[contender].run(f"round({WARM_UP})", timeout=120)
    times: dict[Contender, list[float]] = {contender: [] for contender in CONTENDERS}
    for _ in range(rounds):
        for contender, page in pages.items():
            times[contender].append(page.run(f"round({ROUND})", timeout=120))
    rows = []
    for contender, page in pages.items():
        facts = page.run("facts")
        if not facts["isolated"]:
            raise RuntimeError("the page is not cross-origin isolated: threads would be left out")
        error = float(np.max(np.abs(np.array(facts["output"]) - wanted)) / np.max(np.abs(wanted)))
        if error > model.precision.tolerance:
            raise RuntimeError(f"{contender.title} is wrong on {model.title}: {error:.1e}")
        rows.append(
            Row(
                model=model.title,
                title=contender.title,
                least=min(times[contender]),
                median=statistics.median(times[contender]),
                loading=facts["loaded"],
                first=facts["firstCall"],
                error=error,
            )
        )
        page.close()
    return rows


def _sizes(site: Path) -> dict[str, int]:
    """Bytes that a page downloads for each runtime with threads, without models."""
    ours = sum(
        file.stat().st_size
        for file in (site / "edgec-runtime").iterdir()
        if file.suffix in (".js", ".mjs", ".wasm") and file.name != "edgert.wasm"
    )
    names = ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm")
    return {"edgec": ours, "ort": sum((site / "ort" / name).stat().st_size for name in names)}


def _trust(load: float) -> str:
    return ": trust the ratios, and of two threads nothing" if load >= 1 else ""


def _text(rows: list[Row], version: str, sizes: dict[str, int], load: float) -> str:
    table = "\n".join(
        f"| {row.model} | {row.title} | {row.least:.1f} | {row.median:.1f} | {row.loading:.0f} "
        f"| {row.first:.0f} | {row.error:.0e} |"
        for row in rows
    )
    return f"""# In the browser

edgec's web runtime beside ONNX Runtime Web {ORT} (its WebAssembly provider, which is its CPU), in
one {version.replace("/", " ")} on {os.cpu_count()} cores, batch 1, f32. Written by
`python -m benchmarks.web`, at a load of {load:.1f} by other processes{_trust(load)}.
{sentence([measured_at()])}

| model | runtime | least (ms) | median (ms) | loading (ms) | first call (ms) | error |
|---|---|---|---|---|---|---|
{table}

- **least, median**: of a call, over rounds of {ROUND:.0f} ms of calls in which the runtimes took
  turns, after {WARM_UP / 1000:.1f} s of calls. Times are of many calls together, since a browser's
  clock is coarse.
- **loading**: from the start of `load` or `InferenceSession.create` to its end, files from a
  server on the same machine, the runtime's own among them.
- **error**: the largest difference from PyTorch's answer in 64 bits, as a part of its largest
  value.
- A page downloads {sizes["edgec"] / 1000:.0f} KB for edgec's runtime and
  {sizes["ort"] / 1e6:.1f} MB for ONNX Runtime Web, both uncompressed and without the model.
- Both runtimes compute on the page's own thread, with a worker beside it where there are two.
"""


if __name__ == "__main__":
    main()
