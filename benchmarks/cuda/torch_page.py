"""What torch_run.py measured to the table of docs/benchmarks_torch.md.

`python -m benchmarks.cuda.torch_page COMMIT=torch.json …` takes each network from the last file
that has it, or from the page as it was; the commit is the one whose code compiled the modules. No
GPU is needed.
"""

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.cuda.drawn_models import DRAWN
from benchmarks.standing import sentence

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = DOCS / "benchmarks_torch.md"
FIGURES = DOCS / "benchmarks_torch.json"
_HEAD = """# PyTorch's networks on an NVIDIA GPU

Networks of `transformers` and `timm` as their users export them, with seeded weights, batch 1, on one H200: edgec beside `torch.compile(mode="reduce-overhead")` in the same process, calls in turns, each waited for. {measured}

"""  # noqa: E501
_COLUMNS = """| network | edgec, ms | torch.compile, ms | torch.compile / edgec | before | error of edgec | error of torch |
|---|--:|--:|--:|--:|--:|--:|
"""  # noqa: E501
_DRAWN = """
## Drawn at random

Eight networks that nobody had tried on a GPU, drawn by a seed before any was measured ([`drawn_models.py`](../benchmarks/cuda/drawn_models.py) says how). *Before* is the ratio with the code as it was then, the earlier commit; `lcnetv2-s` and `sew` were measured at that alone, `dinov2-registers` at the later. Where both errors are 1 the network's answer is lost in f16 as it is, whoever computes it.

"""  # noqa: E501
_TAIL_OF_KNOWN = """
Errors are |difference| / |answer| against the network in f64. *Before* is the ratio of the same measurement before attention, products, tails and norms were matched once for all devices, where there was one. What `torch.compile` takes differs from run to run by more than what edgec does: DistilBERT 0.43 ms at the earlier commit and 0.68 at the later, edgec 0.43 and 0.42. The same networks through Vulkan: [benchmarks_vulkan_networks.md](benchmarks_vulkan_networks.md).
"""  # noqa: E501
_WIDE = """
## In f32

As models are when nobody says otherwise (`torch_modules.py --type f32`); four were tried. `torch.compile` multiplies matrices in f32 then, and edgec in three products of TF32, which keep f32's precision; cuDNN rounds what convolutions multiply to TF32, with an error a thousand times as large. `--f32=tf32` lets edgec do so, too ([compile.md](compile.md)).

"""  # noqa: E501
_TAIL = """
<!-- not run: a GPU: and weights of hundreds of megabytes -->
```console
$ python benchmarks/cuda/torch_modules.py FOLDER                                       # here, no GPU
$ python torch_run.py FOLDER --json torch.json                                         # where the GPU is
```
"""  # noqa: E501


def page(figures: dict[str, Any]) -> str:
    """The page of what `FIGURES` holds."""
    halves = [row for row in figures["rows"] if not _is_wide(row)]
    drawn = [row for row in halves if _is_drawn(row)]
    known = [row for row in halves if not _is_drawn(row)]
    wide = [row for row in figures["rows"] if _is_wide(row)]
    head = _HEAD.format(measured=sentence(figures["commits"]))
    tables = [_table(rows, figures["before"]) for rows in (known, drawn, wide)]
    parts = (head, tables[0], _TAIL_OF_KNOWN, _DRAWN, tables[1], _WIDE, tables[2], _TAIL)
    return "".join(parts)


def _is_wide(row: dict[str, Any]) -> bool:
    return str(row["name"]).partition(".")[0].endswith("-f32")


def _is_drawn(row: dict[str, Any]) -> bool:
    return row["name"].partition(".")[0].rpartition("-")[0] in DRAWN


def _table(rows: list[dict[str, Any]], ratios: dict[str, float]) -> str:
    lines = []
    for row in rows:
        name, _, _ = row["name"].partition(".")
        before = ratios.get(row["name"], "")
        lines.append(
            f"| {name} | {row['ms']['edgec']:.2f} "
            f"| {row['ms']['torch.compile']:.2f} | {row['ratio']:.2f} | {before} "
            f"| {row['error']['edgec']} | {row['error']['torch']} |"
        )
    return _COLUMNS + "\n".join(lines) + "\n"


def main() -> None:
    kept = json.loads(FIGURES.read_text()) if FIGURES.exists() else {"before": {}}
    rows: dict[str, Any] = {row["name"]: row for row in kept.get("rows", ())}
    commits: list[str] = kept.get("commits", [])
    for each in sys.argv[1:]:
        commit, _, path = each.partition("=")
        commits += [commit] * (commit not in commits)
        for row in json.loads(Path(path).read_text()):
            if "failed" not in row and row["name"].endswith(".cuda"):
                rows[row["name"]] = {name: row[name] for name in row if name != "profile"}
    figures = {
        "commits": commits,
        "rows": [rows[name] for name in sorted(rows, key=lambda n: (n.split(".")[1], n))],
        "before": kept["before"],
    }
    FIGURES.write_text(json.dumps(figures, indent=1) + "\n")
    PAGE.write_text(page(figures), encoding="utf-8")


if __name__ == "__main__":
    main()
