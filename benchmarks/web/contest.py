"""Runtimes for the web in turns on one model, each in a tab of one Chromium: times and errors.

Each runtime has a tab of its own and they take turns, so that what else the machine does hits all
alike; answers are compared with PyTorch's in 64 bits before anything is timed. Needs npm, which
fetches ONNX Runtime Web into build/web_bench.
"""

import json
import shutil
import statistics
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlencode

import numpy as np

from benchmarks.peers.engines.source_files import (
    onnx_file,
    onnx_inputs,
    reference,
    stablehlo_file,
)
from benchmarks.peers.models.model import Model
from benchmarks.web.chromium import Chromium, Page
from edgec import toolchain
from edgec.packaging.web_runtime import write_runtime

__all__ = [
    "ISOLATED",
    "MEANING",
    "ORT",
    "SITE",
    "Contender",
    "Rounds",
    "Row",
    "compete",
    "make_site",
]

BUILD = Path(__file__).resolve().parents[2] / "build" / "web_bench"
SITE = BUILD / "site"
ORT = "1.30.0"
ISOLATED = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
}
"""Headers of pages whose scripts may share memory, and whose clock is finer."""
MEANING = """\
- **loading**: from the start of `load` or `InferenceSession.create` to its end, files from a
  server on the same machine, the runtime's own among them; pipelines of a GPU are compiled there by
  edgec, at the first call by ONNX Runtime.
- **error**: the largest difference from PyTorch's answer in 64 bits, as a part of its spread."""
"""What the columns of a row are, for a page."""
_TARGETS = {"gpu": "webgpu", "wasm": "wasm"}
_WANTED = ("ort.wasm.min.mjs", "ort.webgpu.min.mjs", "ort-wasm-simd-threaded.")
_PATIENCE = 300.0


@dataclass(frozen=True, kw_only=True)
class Contender:
    """A runtime.

    Attributes:
        title: its name in the table.
        engine: `edgec` or `ort`.
        device: `gpu` for WebGPU, or `wasm`.
        threads: how many it has there.
    """

    title: str
    engine: str
    device: str
    threads: int = 1


@dataclass(frozen=True, kw_only=True)
class Rounds:
    """How long each is measured: so many rounds of calls, milliseconds each, after some to warm up;
    with 0 milliseconds a round is one call."""

    count: int
    each: float = 0.0
    warm_up: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Row:
    """What one runtime came to on one model; milliseconds, or why there is nothing.

    Attributes:
        device: what it ran on, by its own words.
    """

    model: str
    title: str
    failed: str = ""
    least: float = 0.0
    median: float = 0.0
    loading: float = 0.0
    first: float = 0.0
    error: float = 0.0
    device: str = ""

    def line(self, digits: int) -> str:
        """A row of the page's table."""
        if self.failed:
            return f"| {self.model} | {self.title} | {self.failed.splitlines()[0][:80]} | | | | |"
        times = f"{self.least:.{digits}f} | {self.median:.{digits}f}"
        facts = f"{self.loading:.0f} | {self.first:.0f} | {self.error:.0e}"
        return f"| {self.model} | {self.title} | {times} | {facts} |"


def make_site() -> Path:
    """The folder to serve: both runtimes, and the page that runs them."""
    write_runtime(SITE / "edgec-runtime")
    _fetch_ort(SITE / "ort")
    shutil.copyfile(Path(__file__).with_name("bench.html"), SITE / "bench.html")
    return SITE


def _fetch_ort(folder: Path) -> None:
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


def compete(
    browser: Chromium,
    address: str,
    model: Model,
    contenders: Sequence[Contender],
    rounds: Rounds,
) -> list[Row]:
    """A row for each runtime.

    Raises:
        RuntimeError: edgec's answer is wrong, or the page cannot have threads.
    """
    folder = SITE / model.name
    _write_model(model, folder, {each.device for each in contenders})
    wanted = reference(model, folder)[0].reshape(-1)
    pages: dict[Contender, Page] = {}
    rows: dict[Contender, Row] = {}
    for contender in contenders:
        query = {"engine": contender.engine, "device": contender.device}
        query |= {"threads": str(contender.threads), "files": model.name}
        page = browser.open(f"{address}/bench.html?{urlencode(query)}")
        page.wait("window.facts", timeout=_PATIENCE)
        rows[contender] = _judged(page, contender, model, wanted)
        if not rows[contender].failed:
            pages[contender] = page
            if rounds.warm_up:
                page.run(f"round({rounds.warm_up})", timeout=_PATIENCE)
    times: dict[Contender, list[float]] = {contender: [] for contender in pages}
    for _ in range(rounds.count):
        for contender, page in pages.items():
            times[contender].append(page.run(f"round({rounds.each})", timeout=_PATIENCE))
    for contender, page in pages.items():
        page.close()
        least, median = min(times[contender]), statistics.median(times[contender])
        rows[contender] = replace(rows[contender], least=least, median=median)
    return list(rows.values())


def _judged(page: Page, contender: Contender, model: Model, wanted: np.ndarray) -> Row:
    """A page's first answer, which must be right if it is edgec's."""
    facts = page.run("facts")
    if facts.get("failed"):
        return Row(model=model.title, title=contender.title, failed=str(facts["failed"]))
    if not facts["isolated"]:
        raise RuntimeError("the page is not cross-origin isolated: threads would be left out")
    error = float(np.max(np.abs(np.array(facts["output"]) - wanted)) / np.std(wanted))
    if contender.engine == "edgec" and error > model.precision.tolerance:
        raise RuntimeError(f"{contender.title} is wrong on {model.title}: {error:.1e}")
    return Row(
        model=model.title,
        title=contender.title,
        loading=facts["loaded"],
        first=facts["firstCall"],
        error=error,
        device=str(facts.get("device") or ""),
    )


def _write_model(model: Model, folder: Path, devices: set[str]) -> None:
    """The model for all runtimes, and its inputs as each of them takes them."""
    folder.mkdir(parents=True, exist_ok=True)
    program = stablehlo_file(model, folder)
    for device in devices:
        options = toolchain.CompileOptions(output=folder / f"model.{device}.vmfb")
        toolchain.compile(program, _TARGETS[device], options)
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
