"""What gpu.py measured to docs/benchmarks_text_gpu.md.

`python -m benchmarks.text.gpu_page COMMIT=figures.json … [--name=MODULE=WORDS]`; the commit is the
one whose code compiled the modules of a run. A run that is on the page and not given anew stays
there with `--keep=COMMIT`. `--peer=COMMIT=MODEL=FILE` is what `llama_gpu.cpp` printed of the same
file in the same run. No GPU is needed.
"""

import argparse
import json
import re
from pathlib import Path
from typing import Any

from benchmarks.standing import sentence

__all__ = ["DOCS", "page"]

DOCS = Path(__file__).resolve().parents[2] / "docs"
_PAGE = DOCS / "benchmarks_text_gpu.md"
_FIGURES = DOCS / "benchmarks_text_gpu.json"
_HEAD = """# How fast a language model reads and writes on an NVIDIA GPU

Milliseconds as an app sees them, from Python on edgert's drivers, each token waited for; the median of {count} behind prompts of 64 and 256 tokens.

"""  # noqa: E501
_RUN = """One {gpu}, whose memory gave {memory:.2f} TB/s in the same run (a copy of 2 GB, bytes read and written). {measured}

| model | driver | weights | prompt of 64, 256 | a token | tokens/s | of memory's speed | kernels a token | their time | of memory's speed in them | same tokens |
|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|
"""  # noqa: E501
_TAIL = """
- **of memory's speed**: the file of weights, once a token, beside what the copy gave.
- **their time** is that of all kernels of a token, one by one, by edgert's time stamps on the GPU before and behind each, which take time themselves. In a call that is not timed a token's kernels are one graph on CUDA, and most of them begin while the one before them ends, so that a token takes less than their sum; on Vulkan they are commands that were recorded once, and each waits for the one before it.
- **llama.cpp** reads the GGUF file itself (`benchmarks/text/llama_gpu.cpp`, built there with CUDA 13 for this GPU from the source that `llama-cpp-python` 0.3.36 ships); rows of edgec that say so have chunks of 64 tokens alone, the others 64 and 256.
- **same tokens**: of those that the CPU (SmolLM2) and, of the 1B shape, `transformers` (H100) or the CPU (H200, with numbers from a seed in all blocks: `benchmarks/text/filled.py`) wrote greedily with the same weights. That shape chooses one token, or one by prompt, whatever it has read.
- **8 of its 32 layers**: what a machine of 24 GB can export, since its floats are what the tokens are proved with; its words are its own outputs, so that a token reads as much as of two matrices of words.

What a token's time on the GPU is made of, in microseconds:

{longest}

<!-- not run: a GPU: and weights of hundreds of megabytes -->
```console
$ python -m benchmarks.text.shapes llama-3.2-1b Q4_0 --words=SmolLM2.gguf -o llama.gguf
$ python -m benchmarks.text.shapes llama-3.1-8b Q4_0 --layers=8 --words=SmolLM2.gguf -o llama8.gguf
$ edgec export llama.gguf --external-weights=llama.safetensors -o llama.mlirbc
$ edgec compile smol.mlirbc --target=cuda:sm_90 -o smol.vmfb                        # here, no GPU
$ edgec compile smol.mlirbc --target=vulkan:nvidia-hopper -o smolv.vmfb
$ python benchmarks/text/filled.py llama.header -o llama.safetensors  # there, where the file cannot be brought
$ python benchmarks/text/gpu.py smol.vmfb smolv.vmfb --on=smolv.vmfb=edgert://vulkan --answers=smol.vmfb=answers.json --answers=smolv.vmfb=answers.json --json=figures.json  # there
$ ./llama_gpu smol.gguf > llama.txt  # there, likewise; its first lines say how it is built
$ python -m benchmarks.text.gpu_page COMMIT=figures.json --peer=COMMIT=smol=llama.txt --keep=0359fcfcd7 --name=smol="SmolLM2-135M, Q4_1"  # this page
```
"""  # noqa: E501
_SHOWN = 8
_COUNT = 128


def page(runs: list[dict[str, Any]], names: dict[str, str]) -> str:
    """The page of what was measured in some runs, each with its `commit`."""
    tables, longest = [], []
    for run in runs:
        lines = []
        for row in run["rows"]:
            name = names.get(row["name"], row["name"])
            if "failed" in row:
                lines.append(f"| {name} | failed: {row['failed'].splitlines()[-1][:200]} |")
                continue
            lines.append(_line(row, name, run["memory"]))
            parts = row["kernels"]["longest"][:_SHOWN]
            told = ", ".join(f"`{kernel}` {us:.0f} ({count:.0f})" for kernel, count, us in parts)
            longest.append(f"- {name}, {_driver(row)}: {told}")
        lines += [_peer_line(row, names) for row in run.get("peers", ())]
        head = _RUN.format(
            gpu=run["gpu"], memory=run["memory"] / 1e12, measured=sentence([run["commit"]])
        )
        tables.append(head + "\n".join(lines) + "\n")
    tail = _TAIL.format(longest="\n".join(longest))
    return _HEAD.format(count=_COUNT) + "\n".join(tables) + tail


def _driver(row: dict[str, Any]) -> str:
    return {"cuda": "CUDA", "vulkan": "Vulkan"}[row["device"].rpartition("/")[2]]


def _line(row: dict[str, Any], name: str, memory: float) -> str:
    """A model's line of the table, where a copy gave so many bytes a second."""
    token, busy = row["token_256_s"], row["kernels"]["busy_us"] / 1e6
    cells = [
        *(name, _driver(row), f"{row['bytes'] / 1e6:.0f} MB"),
        f"{1e3 * row['prompt_64_s']:.1f}, {1e3 * row['prompt_256_s']:.1f} ms",
        *(f"{1e3 * token:.2f} ms", f"{1 / token:.0f}"),
        f"{row['bytes'] / token / memory:.1%}",
        *(str(row["kernels"]["count"]), f"{1e3 * busy:.2f} ms"),
        f"{row['bytes'] / busy / memory:.0%}",
        ", ".join(f"{a} of {b}" for a, b in row.get("same", {}).values()),
    ]
    return f"| {' | '.join(cells)} |"


_PRINTED = re.compile(r"(\S+) flash=(\d) prompt of (\d+): ([\d.]+) ms, a token ([\d.]+) ms")


def _peers(path: Path, model: str) -> list[dict[str, Any]]:
    """What `llama_gpu.cpp` printed, one with flash attention and one without."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for engine, flash, size, prompt, token in _PRINTED.findall(path.read_text()):
        row = found.setdefault((engine, flash), {"engine": engine, "name": model, "flash": flash})
        row[f"prompt_{size}_ms"], row[f"token_{size}_ms"] = float(prompt), float(token)
    return list(found.values())


def _peer_line(row: dict[str, Any], names: dict[str, str]) -> str:
    """Another engine's line of the table."""
    flash = "with" if row["flash"] == "1" else "without"
    token = row["token_256_ms"]
    cells = [
        *(names.get(row["name"], row["name"]), f"{row['engine']}, CUDA, {flash} flash attention"),
        *("", f"{row['prompt_64_ms']:.1f}, {row['prompt_256_ms']:.1f} ms"),
        *(f"{token:.2f} ms", f"{1e3 / token:.0f}", "", "", "", "", ""),
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("figures", metavar="COMMIT=FILE", nargs="*")
    parser.add_argument("--keep", action="append", default=[], metavar="COMMIT")
    parser.add_argument("--peer", action="append", default=[], metavar="COMMIT=MODEL=FILE")
    parser.add_argument("--name", action="append", default=[], metavar="MODULE=WORDS")
    options = parser.parse_args()
    held = json.loads(_FIGURES.read_text()) if options.keep else []
    runs = [run for run in held if run["commit"] in options.keep]
    for each in options.figures:
        commit, _, path = each.partition("=")
        runs.append({"commit": commit, **json.loads(Path(path).read_text())})
    for each in options.peer:
        commit, model, path = each.split("=", 2)
        next(run for run in runs if run["commit"] == commit)["peers"] = _peers(Path(path), model)
    names = dict(each.split("=", 1) for each in options.name)
    _FIGURES.write_text(json.dumps(runs, indent=1) + "\n")
    _PAGE.write_text(page(runs, names), encoding="utf-8")


if __name__ == "__main__":
    main()
