"""What networks.py measured on llvmpipe to docs/benchmarks_vulkan_llvmpipe.md.

`python -m benchmarks.vulkan.llvmpipe_page COMMIT=figures.json …` takes each network from the last
file that has it; the commit is the one whose code compiled the modules.
"""

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.standing import sentence

__all__ = ["DOCS", "page"]

DOCS = Path(__file__).resolve().parents[2] / "docs"
_PAGE = DOCS / "benchmarks_vulkan_llvmpipe.md"
_FIGURES = DOCS / "benchmarks_vulkan_llvmpipe.json"
_ENGINES = ("edgert", "iree", "ncnn")
_HEAD = """# Networks on llvmpipe, beside ncnn and IREE's driver

Milliseconds a call, batch 1, f32, on Mesa's llvmpipe: Vulkan as a program on {cores} cores of a processor, so that the page can be made anywhere; what a GPU takes it does not show. Networks as on [benchmarks_vulkan_networks.md](benchmarks_vulkan_networks.md), compiled for `vulkan:android` with the kernels that phones get. The same module runs on edgert's Vulkan driver and on IREE's; ncnn has weights of zeros. Each has a process of its own, which is stopped but for its turns; {calls}. IREE's driver keeps two threads that wait for semaphores, and lavapipe of Mesa 22.3 waits by asking for the time without a pause: they take part of both cores. The load is that of the machine after a row's run, by this and other work. {measured}

| network | edgert | IREE's driver | ncnn | IREE's / edgert | ncnn / edgert | first answer: edgert, IREE, ncnn | again | error | load |
|---|--:|--:|--:|--:|--:|---|--:|--:|--:|
"""  # noqa: E501
_TAIL = """
First answers are with nothing compiled before, imports apart; *again* is edgert's in a second process. Errors are |difference| / |answer| of edgert against the network in f64. The numbers are in [benchmarks_vulkan_llvmpipe.json](benchmarks_vulkan_llvmpipe.json).

<!-- not run: a quiet machine: minutes a network -->
```console
$ python benchmarks/cuda/torch_modules.py FOLDER mobilenetv3-l resnet50 --type f32 --target vulkan:android
$ python benchmarks/vulkan/ncnn_networks.py FOLDER mobilenetv3-l resnet50
$ python benchmarks/vulkan/networks.py FOLDER --rounds 5 --calls 5 --json figures.json
$ python -m benchmarks.vulkan.llvmpipe_page COMMIT=figures.json
```
"""  # noqa: E501


def page(figures: dict[str, Any]) -> str:
    """The page of what the file of figures holds."""
    lines, refused = [], list[str]()
    for row in figures["rows"]:
        ms, first = row["ms"], row.get("first_s", {})
        refused += [f"- {row['name']} on {name}: {why}" for name, why in row["failed"].items()]
        if "edgert" not in ms:
            continue
        times = [f"{ms[name]:.0f}" if name in ms else "-" for name in _ENGINES]
        ratios = [f"{ms[name] / ms['edgert']:.2f}" if name in ms else "-" for name in _ENGINES[1:]]
        begun = ", ".join(f"{first[name]} s" for name in _ENGINES if name in first)
        error = str(row["error"].get("edgert", "-"))
        again = f"{row['again_s']} s" if "again_s" in row else ""
        cells = [row["name"], *times, *ratios, begun, again, error, f"{row['load']:.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    found = "\n".join(lines) + "\n"
    if refused:
        found += "\nWhat was refused:\n\n" + "\n".join(refused) + "\n"
    head = _HEAD.format(
        cores=figures["cores"],
        calls="the median of up to {calls} calls, best of {rounds} or more turns".format_map(
            figures
        ),
        measured=sentence(figures["commits"]),
    )
    return head + found + _TAIL


def main() -> None:
    rows: dict[str, Any] = {}
    runs, listed = [], []
    for each in sys.argv[1:]:
        commit, _, path = each.partition("=")
        runs.append(json.loads(Path(path).read_text()))
        listed.append(commit)
        rows |= {row["name"]: row | {"load": runs[-1]["load"]} for row in runs[-1]["rows"]}
    figures = {
        "device": runs[-1]["device"],
        "rows": [rows[name] for name in sorted(rows)],
        "rounds": min(run["rounds"] for run in runs),
        "calls": min(run["calls"] for run in runs),
        "cores": runs[-1]["cores"],
        "commits": list(dict.fromkeys(listed)),
    }
    _FIGURES.write_text(json.dumps(figures, indent=1) + "\n")
    _PAGE.write_text(page(figures), encoding="utf-8")


if __name__ == "__main__":
    main()
