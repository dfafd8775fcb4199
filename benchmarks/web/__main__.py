"""edgec-runtime beside ONNX Runtime Web in the same Chromium, written to docs/benchmarks_web.md.

    python -m benchmarks.web [MODEL ...]        # default: mobilenet_v2; those of benchmarks.peers

Needs npm, which fetches ONNX Runtime Web into build/web_bench. Times are of many calls together: a
browser's clock is coarse (5 µs in these pages, which are cross-origin isolated).
"""

import argparse
import os
from pathlib import Path

from benchmarks.peers.models.catalogue import MODELS
from benchmarks.standing import measured_at, sentence
from benchmarks.web.chromium import Chromium, serve
from benchmarks.web.contest import (
    ISOLATED,
    MEANING,
    ORT,
    SITE,
    Contender,
    Rounds,
    Row,
    compete,
    make_site,
)

PAGE = Path(__file__).resolve().parents[2] / "docs" / "benchmarks_web.md"
WARM_UP = 1500.0  # milliseconds, in which engines replace their first quick code by good code
ROUND = 300.0  # milliseconds
CONTENDERS = (
    Contender(title="edgec, 1 thread", engine="edgec", device="wasm"),
    Contender(title="edgec, 2 threads", engine="edgec", device="wasm", threads=2),
    Contender(title="ONNX Runtime Web, 1 thread", engine="ort", device="wasm"),
    Contender(title="ONNX Runtime Web, 2 threads", engine="ort", device="wasm", threads=2),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--output", type=Path, default=PAGE)
    chosen = parser.parse_args()
    rows, load = list[Row](), os.getloadavg()[0]
    with serve(make_site(), ISOLATED) as address, Chromium() as browser:
        version = str(browser.send("Browser.getVersion")["product"])
        rounds = Rounds(count=chosen.rounds, each=ROUND, warm_up=WARM_UP)
        for name in chosen.models or ["mobilenet_v2"]:
            rows += compete(browser, address, MODELS[name], CONTENDERS, rounds)
    chosen.output.write_text(_text(rows, version, _sizes(), load), encoding="utf-8")
    print(chosen.output.read_text(encoding="utf-8"))


def _sizes() -> dict[str, int]:
    """Bytes that a page downloads for each runtime with threads, without models."""
    ours = sum(
        file.stat().st_size
        for file in (SITE / "edgec-runtime").iterdir()
        if file.suffix in (".js", ".mjs", ".wasm") and file.name != "edgert.wasm"
    )
    names = ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm")
    return {"edgec": ours, "ort": sum((SITE / "ort" / name).stat().st_size for name in names)}


def _trust(load: float) -> str:
    return ": trust the ratios, and of two threads nothing" if load >= 1 else ""


def _text(rows: list[Row], version: str, sizes: dict[str, int], load: float) -> str:
    table = "\n".join(row.line(1) for row in rows)
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
{MEANING}
- A page downloads {sizes["edgec"] / 1000:.0f} KB for edgec's runtime and
  {sizes["ort"] / 1e6:.1f} MB for ONNX Runtime Web, both uncompressed and without the model.
- Both runtimes compute on the page's own thread, with a worker beside it where there are two.
"""


if __name__ == "__main__":
    main()
