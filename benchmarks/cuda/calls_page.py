"""What calls.py measured to docs/benchmarks_cuda_calls.md.

`python -m benchmarks.cuda.calls_page COMMIT=calls.json [--tokens=FILE …]`; the commit is the one
whose code compiled and ran the modules. Files of tokens are those of benchmarks/text/gpu.py, one of
each driver. No GPU is needed.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from benchmarks.standing import sentence

__all__ = ["DOCS", "page"]

DOCS = Path(__file__).resolve().parents[2] / "docs"
_PAGE = DOCS / "benchmarks_cuda_calls.md"
_FIGURES = DOCS / "benchmarks_cuda_calls.json"
_WHAT = {
    "elementwise": "`tanh` of 1024 numbers",
    "product": "a product of 256 x 256 by 256 x 256",
    "loop": "a loop on the host, whose condition lies on the GPU",
    "resnetlike": "nine convolutions, 64 channels, of an image of 224 x 224",
    "smol": "a token of SmolLM2-135M, Q4_1, behind 256",
    "thin": "a token of a language model of 30 layers of width 256, seeded weights in Q4_0",
}
_HEAD = """# What a call costs on CUDA, by edgert's driver and by IREE's

On one {gpu}, from Python, the same modules by both drivers: `edgert://cuda`, and `cuda://0`, which is IREE's. Milliseconds, medians of 300 calls behind 60; each module on each driver in a process of its own. {measured}

| module | arrays | edgert | IREE | times as fast | same answers |
|---|---|--:|--:|--:|---|
"""  # noqa: E501
_TAIL = """
- **arrays** that stay there lie on the GPU before and behind a call; from and to the host they are NumPy's, copied within the call. A call whose arrays stay may return before the GPU is done.
- A token is waited for. Of SmolLM2 both drivers wrote the very tokens that the CPU wrote with the same weights, 48 behind each of two prompts. The rest of [benchmarks_text_gpu.md](benchmarks_text_gpu.md) was measured by IREE's driver.

<!-- not run: a GPU: and modules for it -->
```console
$ python benchmarks/cuda/calls_modules.py FOLDER                          # here, no GPU
$ python benchmarks/cuda/calls.py FOLDER/*.vmfb --json=calls.json         # where the GPU is
$ python benchmarks/text/gpu.py smol.vmfb --device=edgert://cuda --answers=smol.vmfb=answers.json --json=edgert.json   # and cuda://0
$ python -m benchmarks.cuda.calls_page COMMIT=calls.json --tokens=edgert.json --tokens=iree.json
```
"""  # noqa: E501
_ARRAYS = {"stay": "stay there", "host": "from and to the host", "token": "tokens"}


def page(figures: dict[str, Any], commit: str) -> str:
    """The page of a file of figures."""
    lines = []
    for name, row in figures["rows"].items():
        iree, edgert = row["cuda://0"], row["edgert://cuda"]
        failed = [device for device in ("edgert://cuda", "cuda://0") if "failed" in row[device]]
        if failed:
            why = row[failed[0]]["failed"].splitlines()[-1:] or ["no word"]
            lines.append(f"| {_WHAT.get(name, name)} | failed on {failed[0]}: {why[0][:200]} |")
            continue
        for key, arrays in _ARRAYS.items():
            if key not in edgert:
                continue
            there, here = 1e3 * iree[key], 1e3 * edgert[key]
            cells = [_WHAT.get(name, name), arrays, f"{here:.3f}", f"{there:.3f}"]
            cells += [f"{there / here:.1f}", "yes" if row["same"] else "no"]
            lines.append(f"| {' | '.join(cells)} |")
    head = _HEAD.format(gpu=figures["gpu"], measured=sentence([commit]))
    return head + "\n".join(lines) + "\n" + _TAIL


def _tokens(files: list[Path]) -> dict[str, Any]:
    """Rows of gpu.py's files, as calls.py has them; a driver's tokens are those of its answers."""
    rows: dict[str, Any] = {}
    for file in files:
        for row in json.loads(file.read_text())["rows"]:
            mine = rows.setdefault(row["name"], {"same": True})
            mine[row["device"]] = {"token": row["token_256_s"]}
            mine["same"] &= all(same == count for same, count in row["same"].values())
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("figures", metavar="COMMIT=FILE")
    parser.add_argument("--tokens", type=Path, action="append", default=[], metavar="FILE")
    options = parser.parse_args()
    commit, _, file = options.figures.partition("=")
    figures = json.loads(Path(file).read_text())
    figures["rows"] |= _tokens(options.tokens)
    _FIGURES.write_text(json.dumps({"commit": commit, **figures}, indent=1) + "\n")
    _PAGE.write_text(page(figures, commit))


if __name__ == "__main__":
    main()
