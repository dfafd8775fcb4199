"""edgec's WebGPU beside ONNX Runtime Web's on one adapter, written to docs/benchmarks_webgpu.md.

    python -m benchmarks.web.gpu [MODEL ...]        # digits, and those of benchmarks.peers

Needs npm, as `benchmarks.web` does. The adapter is SwiftShader, a program on the processor, so that
this runs anywhere: what it shows are answers, first answers and ratios, not what a GPU takes.
"""

import argparse
import os
from pathlib import Path

from benchmarks.peers.models.catalogue import MODELS
from benchmarks.standing import measured_at, sentence
from benchmarks.web.chromium import WEBGPU, Chromium, serve
from benchmarks.web.contest import (
    ISOLATED,
    MEANING,
    ORT,
    Contender,
    Rounds,
    Row,
    compete,
    make_site,
)
from benchmarks.web.digits import DIGITS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "benchmarks_webgpu.md"
NETWORKS = {DIGITS.name: DIGITS, **MODELS}
USUAL = ("digits", "mobilenet_v3", "vit_tiny", "minilm")
CONTENDERS = (
    Contender(title="edgec, WebGPU", engine="edgec", device="gpu"),
    Contender(title="ONNX Runtime Web, WebGPU", engine="ort", device="gpu"),
    Contender(title="edgec, WebAssembly, 1 thread", engine="edgec", device="wasm"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path, default=PAGE)
    chosen = parser.parse_args()
    rows, load = list[Row](), os.getloadavg()[0]
    with serve(make_site(), ISOLATED) as address, Chromium(*WEBGPU) as browser:
        version = str(browser.send("Browser.getVersion")["product"])
        for name in chosen.models or USUAL:
            rounds = Rounds(count=chosen.rounds)
            rows += compete(browser, address, NETWORKS[name], CONTENDERS, rounds)
    text = _text(rows, version, load)
    chosen.output.write_text(text, encoding="utf-8")
    print(text)


def _text(rows: list[Row], version: str, load: float) -> str:
    table = "\n".join(row.line(1) for row in rows)
    devices = {row.device for row in rows if row.title == CONTENDERS[0].title and row.device}
    return f"""# WebGPU in the browser

edgec's WebGPU beside ONNX Runtime Web {ORT}'s, in one {version.replace("/", " ")} on
{os.cpu_count()} cores, batch 1, f32, on the adapter `{", ".join(sorted(devices))}`: a GPU that is a
program on the processor, so that the page can be made anywhere. It shows that answers are right,
and how the two stand to each other there; what a GPU takes it does not show. Written by
`python -m benchmarks.web.gpu`, at a load of {load:.1f} by other processes: above 1, trust only
large ratios.
{sentence([measured_at()])}

| model | runtime | least (ms) | median (ms) | loading (ms) | first call (ms) | error |
|---|---|---|---|---|---|---|
{table}

- **least, median**: of a call with its answer read, runtimes in turns.
{MEANING}
"""


if __name__ == "__main__":
    main()
