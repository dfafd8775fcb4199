"""What networks.py measured to docs/benchmarks_vulkan_networks.md, old beside new.

`python -m benchmarks.vulkan.networks_page COMMIT=figures.json …` takes each network from the last
file that has it; the commit is the one whose code compiled the modules. No GPU is needed.
"""

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.standing import sentence

__all__ = ["DOCS", "page"]

DOCS = Path(__file__).resolve().parents[2] / "docs"
_PAGE = DOCS / "benchmarks_vulkan_networks.md"
_FIGURES = DOCS / "benchmarks_vulkan_networks.json"
_BEFORE = {"convnext-t-f32": 12.336, "resnet50-f32": 3.642, "vit-b16-f32": 7.434}
"""Milliseconds of IREE's driver at commit 3f63f20ea1."""
_ENGINES = ("edgert", "iree", "plain", "cuda", "ncnn")
_FIRST = ("edgert", "iree", "cuda")
_WORDS = 9
"""Of an error, in a cell; the whole stands below the table."""
_HEAD = """# Networks through Vulkan on an NVIDIA GPU, by driver

Milliseconds a call, batch 1, one {device}. Networks of `transformers` and `timm` as their users export them from PyTorch, and a U-Net of 31 million weights on 256 x 256 pixels, with seeded weights. The same module, with edgec's kernels, runs on edgert's Vulkan driver and on IREE's. *Plain IREE* is the same program by `iree-compile` alone (`--iree-vulkan-target=ada`, at O3, or at O2 where O3 is refused; none of edgec's passes or kernels) on IREE's driver. *CUDA* is the network compiled by edgec for CUDA, on edgert's CUDA driver, which is the default for such modules; ncnn uses its Vulkan on weights of zeros, its inputs and results on the host. All are called and waited for in turns {where}, from Python, after half a second of calls of each; the median of 30 calls, the best of 5 turns. {measured}

| network | edgert | IREE's driver | plain IREE | edgec on CUDA | ncnn | Vulkan / CUDA | plain IREE / edgert | before | dispatches | their time | between them | first answer: edgert, IREE, CUDA | kernels compiled before | error |
|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|--:|--:|
"""  # noqa: E501
_TAIL = """
*Before* is IREE's driver at commit 3f63f20ea1, when norms were left to the compiler. *Their time* is that of all dispatches of a call on the GPU, by edgert's time stamps (`edgec bench --profile`); *between them* is what lies between the first and the last on the GPU; kernels that stamps keep apart take longer than the call's do by themselves. What lies outside the GPU is on [benchmarks_vulkan_calls.md](benchmarks_vulkan_calls.md). *Kernels compiled before* is edgert's first answer in a second process. Errors are |difference| / |answer| of edgert against the network in f64. The numbers are in [benchmarks_vulkan_networks.json](benchmarks_vulkan_networks.json).

<!-- not run: a GPU: and weights of hundreds of megabytes -->
```console
$ python benchmarks/cuda/torch_modules.py FOLDER --target vulkan:nvidia-hopper     # here, no GPU; --type f32, --target cuda:sm_90
$ python benchmarks/vulkan/plain_networks.py FOLDER                                 # here, too; --type f32
$ python benchmarks/vulkan/ncnn_networks.py FOLDER                                  # here, too
$ python benchmarks/vulkan/networks.py FOLDER --profile --json figures.json              # where the GPU is
$ python -m benchmarks.vulkan.networks_page COMMIT=figures.json                              # this page
```
"""  # noqa: E501


def page(figures: dict[str, Any]) -> str:
    """The page of what the file of figures holds."""
    lines = []
    for row in figures["rows"]:
        ms = row["ms"]
        if "edgert" not in ms and not row["failed"]:  # made for CUDA alone
            continue
        cells = [_cell(row, engine) for engine in _ENGINES]
        both = {"edgert", "cuda"} <= ms.keys()
        before = _BEFORE.get(row["name"])
        stamps = row.get("dispatches")
        firsts = row.get("first_s", {})  # a network that took too long has none
        first = [f"{firsts[e]} s" for e in _FIRST if e in firsts]
        against = f"{ms['edgert'] / ms['cuda']:.2f}" if both else "-"
        alone = f"{ms['plain'] / ms['edgert']:.1f}" if {"edgert", "plain"} <= ms.keys() else "-"
        cells += [
            against,
            alone,
            "" if before is None else f"{before:.2f}",
            "" if stamps is None else str(round(stamps["count"])),
            "" if stamps is None else f"{stamps['busy_us'] / 1000:.2f}",
            "" if stamps is None or "idle_us" not in stamps else f"{stamps['idle_us'] / 1000:.2f}",
            ", ".join(first),
            f"{row['again_s']} s" if "again_s" in row else "",
            str(row.get("error", {}).get("edgert", "-")),
        ]
        lines.append(f"| {row['name']} | {' | '.join(cells)} |")
    refused = [
        f"- {row['name']} on {engine}: {reason}"
        for row in figures["rows"]
        for engine, reason in row["failed"].items()
    ]
    found = "\n".join(lines) + "\n"
    if refused:
        found += "\nWhat was refused, or took too long:\n\n" + "\n".join(refused) + "\n"
    head = _HEAD.format(
        measured=sentence(figures["commits"]),
        device=figures["device"],
        where="in processes of their own" if figures.get("apart") else "in one process",
    )
    return head + found + _TAIL


def _cell(row: dict[str, Any], engine: str) -> str:
    """Milliseconds of an engine, or the first words of why there are none."""
    if engine in row["ms"]:
        return f"{row['ms'][engine]:.2f}"
    said = row["failed"].get(engine)
    if said is None:
        return "-"
    words = said.replace("|", "/").split()
    return " ".join(words[:_WORDS]) + (" …" if len(words) > _WORDS else "")


def main() -> None:
    rows: dict[str, Any] = {}
    commits: list[str] = []
    device, apart = "", False
    for each in sys.argv[1:]:
        commit, _, path = each.partition("=")
        if commit not in commits:
            commits.append(commit)
        found = json.loads(Path(path).read_text())
        device, apart = found["device"], found.get("apart", False)
        for row in found["rows"]:
            before = rows.get(row["name"], {"failed": {}})["failed"]
            kept = {engine: said for engine, said in before.items() if engine not in row["ms"]}
            rows[row["name"]] = row | {"failed": kept | row["failed"]}
    figures = {
        "commits": commits,
        "device": device,
        "apart": apart,
        "rows": [rows[name] for name in sorted(rows)],
    }
    _FIGURES.write_text(json.dumps(figures, indent=1) + "\n")
    _PAGE.write_text(page(figures), encoding="utf-8")


if __name__ == "__main__":
    main()
